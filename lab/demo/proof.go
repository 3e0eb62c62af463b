package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// volumeFile returns the file on this machine that holds the bytes of a claim's volume.
func volumeFile(ctx context.Context, c client.Reader, claim client.ObjectKey, backing func(handle string) string) (string, error) {
	pvc := &corev1.PersistentVolumeClaim{}
	if err := c.Get(ctx, claim, pvc); err != nil {
		return "", fmt.Errorf("find the disk's claim %s: %w", claim, err)
	}
	volume := &corev1.PersistentVolume{}
	if err := c.Get(ctx, client.ObjectKey{Name: pvc.Spec.VolumeName}, volume); err != nil {
		return "", fmt.Errorf("find the volume of %s: %w", claim, err)
	}
	if volume.Spec.CSI == nil {
		return "", fmt.Errorf("volume %s isn't one of the lab's driver", volume.Name)
	}
	return backing(volume.Spec.CSI.VolumeHandle), nil
}

// proof is what prove found out.
type proof struct {
	sum    string // sha256 of the volume, and of qemu-img's output
	booted Booted
}

// prove hashes the volume and boots it, and prints what it finds. A volume with other bytes is an error.
func prove(ctx context.Context, file string, image Built, out io.Writer) (proof, error) {
	start := time.Now()
	sum, err := HashDisk(ctx, file, ImageSize)
	if err != nil {
		return proof{}, err
	}
	fmt.Fprintf(out, "  sha256 of the volume, all 20 GiB         %s  (hashed in %s)\n", sum, seconds(time.Since(start)))
	fmt.Fprintf(out, "  sha256 of qemu-img convert's raw output  %s\n", image.RawSHA256)
	if sum != image.RawSHA256 {
		return proof{}, fmt.Errorf("the volume isn't what qemu-img makes of the image: compare %s with %s", file, image.Raw)
	}
	fmt.Fprintln(out, "  They are equal.")
	occupied, err := allocated(file)
	if err != nil {
		return proof{}, err
	}
	data, err := allocated(image.Raw)
	if err != nil {
		return proof{}, err
	}
	fmt.Fprintf(out, "  The volume occupies %d MiB of its 20 GiB; qemu-img's file %d MiB.\n\n", occupied>>20, data>>20)
	before, err := os.Stat(file)
	if err != nil {
		return proof{}, fmt.Errorf("look at the volume: %w", err)
	}
	booted, err := Boot(ctx, file, out)
	if err != nil {
		return proof{}, err
	}
	after, err := os.Stat(file)
	if err != nil {
		return proof{}, fmt.Errorf("look at the volume: %w", err)
	}
	if !after.ModTime().Equal(before.ModTime()) {
		return proof{}, fmt.Errorf("booting wrote to the volume %s, where it must only write to its overlay", file)
	}
	return proof{sum: sum, booted: booted}, nil
}

// allocated is how many bytes a sparse file occupies, stat(2).
func allocated(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("see how much %s occupies: %w", path, err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("the system doesn't tell what a file occupies")
	}
	return stat.Blocks * 512, nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
