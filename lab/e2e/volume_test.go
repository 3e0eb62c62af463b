//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/lab/cluster"
	"vmdisk.io/vmdisk/lab/csi"
)

// slack is by how many bytes a disk may be larger on the storage than in the image: the storage may have larger blocks.
const slack = int64(1) << 20

// volume is a disk's volume as the storage has it.
type volume struct {
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume
	// file holds the volume's bytes, on the host.
	file string
}

// volume finds the volume of a claim, which must be bound.
func (n *tenant) volume(claim string) volume {
	n.t.Helper()
	v := volume{claim: get(n, claim, &corev1.PersistentVolumeClaim{}), pv: &corev1.PersistentVolume{}}
	if err := n.Get(n.t.Context(), client.ObjectKey{Name: v.claim.Spec.VolumeName}, v.pv); err != nil {
		n.t.Fatalf("read the volume of claim %s: %v", claim, err)
	}
	v.file = csi.BackingFile(cluster.CSIDir(), v.pv.Spec.CSI.VolumeHandle)
	return v
}

func (v volume) mode() corev1.PersistentVolumeMode { return *v.claim.Spec.VolumeMode }

// loops are the loop devices of a file.
func loops(n *tenant, file string) string {
	n.t.Helper()
	out, err := exec.CommandContext(n.t.Context(), "losetup", "-j", file).CombinedOutput()
	if err != nil {
		n.t.Fatalf("losetup -j %s: %v: %s", file, err, out)
	}
	return strings.TrimSpace(string(out))
}

// holds checks that the disk on a volume has exactly these bytes, that it was written sparsely, and that a filesystem holds
// nothing but a file as KubeVirt wants it. Negative data says not to look at what is allocated.
func (n *tenant) holds(claim string, bytes int64, sum string, data int64) {
	n.t.Helper()
	v := n.volume(claim)
	var got string
	occupied := allocated(n.t, v.file)
	switch v.mode() {
	case corev1.PersistentVolumeBlock:
		var err error
		if got, err = hashFile(v.file, bytes); err != nil {
			n.t.Fatal(err)
		}
	default:
		file := n.inspect(v)
		want := diskImage{Bytes: bytes, Mode: "660", User: "107", Group: "107", Others: "lost+found"}
		got, occupied = file.sum, file.allocated
		if diff := cmp.Diff(want, file, cmpopts.IgnoreUnexported(diskImage{})); diff != "" {
			n.t.Errorf("disk.img (-want +got):\n%s", diff)
		}
	}
	if got != sum {
		n.t.Errorf("the disk's first %d bytes have the SHA-256 %s, want %s", bytes, got, sum)
	}
	n.t.Logf("the disk occupies %d bytes, for an image with %d bytes of data", occupied, data)
	if data >= 0 && occupied > data+slack {
		n.t.Errorf("the disk occupies %d bytes for %d bytes of data", occupied, data)
	}
}

// diskImage is the file on a filesystem volume.
type diskImage struct {
	Bytes             int64
	Mode, User, Group string
	// Others are the other files.
	Others string

	allocated int64
	sum       string
	// first is the SHA-256 of as many first bytes as a usual disk has.
	first string
}

// inspect reads the file of a volume that nobody uses any more. The mount is the command's own and goes with it.
func (n *tenant) inspect(v volume) (d diskImage) {
	n.t.Helper()
	n.eventually(soon, "the node lets go of the volume", func() error {
		if left := loops(n, v.file); left != "" {
			return errors.New(left)
		}
		return nil
	})
	const script = `set -e; mount -o ro,loop "$1" /mnt; cd /mnt
		stat -c '%s %a %u %g %b' disk.img; ls -A | grep -vx disk.img | paste -sd, -
		sha256sum <disk.img | cut -d' ' -f1; [ "$(stat -c %s disk.img)" = "$2" ] || head -c "$2" disk.img | sha256sum`
	ctx, cancel := context.WithTimeout(n.t.Context(), filled) // a busy machine hashes slowly
	defer cancel()
	out, err := exec.CommandContext(ctx, "unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", v.file, fmt.Sprint(diskBytes)).CombinedOutput()
	if err != nil {
		n.t.Fatalf("look into the filesystem of claim %s: %v: %s", v.claim.Name, err, out)
	}
	if _, err := fmt.Sscan(string(out), &d.Bytes, &d.Mode, &d.User, &d.Group, &d.allocated, &d.Others, &d.sum); err != nil {
		n.t.Fatalf("read %q: %v", out, err)
	}
	d.allocated *= 512
	d.first = d.sum
	if d.Bytes != diskBytes {
		if _, err := fmt.Sscan(string(out), &d.Bytes, &d.Mode, &d.User, &d.Group, new(int64), &d.Others, new(string), &d.first); err != nil {
			n.t.Fatalf("read %q: %v", out, err)
		}
	}
	return d
}

// leavesNothing waits until a volume is gone altogether: the object, the device and the bytes.
func (n *tenant) leavesNothing(v volume) {
	n.t.Helper()
	n.eventually(soon, "the volume is gone", func() error {
		err := n.Get(n.t.Context(), client.ObjectKeyFromObject(v.pv), &corev1.PersistentVolume{})
		switch {
		case err == nil:
			return fmt.Errorf("PersistentVolume %s is there", v.pv.Name)
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("read PersistentVolume %s: %w", v.pv.Name, err)
		}
		if left := loops(n, v.file); left != "" {
			return errors.New(left)
		}
		_, err = os.Stat(v.file)
		switch {
		case err == nil:
			return fmt.Errorf("%s is there", v.file)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		return nil
	})
}

// dataBytes is what the disk in the images occupies.
func dataBytes(n *tenant) int64 {
	n.t.Helper()
	return allocated(n.t, imagesDir()+"/"+rawFile)
}

// inflated is the size of a Filesystem claim for the usual disk, as docs/COMPAT.md says: the disk and 6 %, in bytes rounded up.
func inflated() resource.Quantity {
	const percent = 6
	return *resource.NewQuantity((diskBytes*(100+percent)+99)/100, resource.BinarySI)
}
