package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options say where the demo plays. All are needed.
type Options struct {
	// Out is where the demo tells its story.
	Out io.Writer
	// CacheDir keeps the image; see CacheDir.
	CacheDir string
	// Kubeconfig is the administrator's access to a cluster in which vmdisk runs.
	Kubeconfig string
	// Kubectl is the kubectl that shows the disk's row.
	Kubectl string
	// ToolsImage is the reference of lab/image's tools, loaded into the nodes: it serves the image.
	ToolsImage string
	// BackingFile returns the file of this machine that holds the bytes of a volume, by its handle.
	BackingFile func(handle string) string
}

// importLimit is how long the import may take. It is a matter of seconds; a quota or a policy that blocks it for ever
// shows in the rows before.
const importLimit = 10 * time.Minute

// Run plays the demo on a cluster that is up and has vmdisk installed, and returns nil only if all of it came out: one
// claim, the quota never above it, the same bytes as qemu-img's, and a login prompt. It may be run again: it deletes
// the disk of the run before, and leaves its own. However it ends, it says how to look around.
func Run(ctx context.Context, o Options) error {
	err := o.play(ctx)
	o.farewell()
	return err
}

func (o Options) play(ctx context.Context) error {
	c, err := connect(o.Kubeconfig)
	if err != nil {
		return err
	}
	if err := requireClass(ctx, c); err != nil {
		return err
	}
	image, err := Image(ctx, o.CacheDir, o.Out)
	if err != nil {
		return err
	}
	info, err := os.Stat(image.Qcow2)
	if err != nil {
		return fmt.Errorf("look at the image: %w", err)
	}
	fmt.Fprintf(o.Out, "The image: a bootable Debian, qcow2, %d MiB for a disk of 20 GiB (%s)\n", info.Size()>>20, image.Qcow2)
	fmt.Fprintf(o.Out, "The stage: https://%s/%s serves it; namespace %s may have one claim and 20Gi of storage\n",
		serverHost, imageName, tenant)
	if err := clearStage(ctx, c); err != nil {
		return err
	}
	if err := setStage(ctx, c, image, o.ToolsImage); err != nil {
		return err
	}
	disk, err := render("disk.yaml", map[string]string{
		"URL": "https://" + serverHost + "/" + imageName, "SHA256": image.Qcow2SHA256})
	if err != nil {
		return err
	}
	seen := newUsage(tenant, system)
	took, err := seen.during(ctx, c, tenant, func(ctx context.Context) error {
		fmt.Fprintf(o.Out, "\nThe disk: VMDisk %s/%s of 20Gi from that URL, in the class %s\n", tenant, diskName, storageClass)
		start := time.Now()
		if err := apply(ctx, c, disk); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, importLimit, fmt.Errorf("not ready within %s: kubectl -n %s describe "+
			"vmdisk %s says why", importLimit, tenant, diskName))
		defer cancel()
		_, err := showProgress(ctx, c, client.ObjectKey{Namespace: tenant, Name: diskName}, start, o.Out)
		return err
	})
	if err != nil {
		return err
	}
	return o.conclude(ctx, c, image, seen, took)
}

// conclude prints the outcome and checks it.
func (o Options) conclude(ctx context.Context, c client.Client, image Built, seen *usage, took time.Duration) error {
	fmt.Fprintf(o.Out, "\nThe outcome, %s after the disk was asked for:\n\n", seconds(took))
	table, err := command{name: o.Kubectl, args: []string{"--kubeconfig", o.Kubeconfig, "-n", tenant, "get", "vmdisk", diskName}}.run(ctx)
	if err != nil {
		return fmt.Errorf("show the disk: %w", err)
	}
	fmt.Fprintln(o.Out, indent(table))
	if err := seen.print(o.Out); err != nil {
		return err
	}
	quota := seen.differs(ImageSize)
	file, err := volumeFile(ctx, c, client.ObjectKey{Namespace: tenant, Name: diskName}, o.BackingFile)
	if err != nil {
		return errors.Join(quota, err)
	}
	fmt.Fprintln(o.Out)
	found, err := prove(ctx, file, image, o.Out)
	if err := errors.Join(quota, err); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, `
All of it held:
  import   %s from the URL to a disk of 20 GiB
  quota    never more than one claim and 20Gi
  bytes    sha256 %s, as qemu-img makes them
  boot     "login:" after %s with %s; the volume was not written to
`, seconds(took), found.sum, seconds(found.booted.Time), found.booted.Accelerator)
	return nil
}

func (o Options) farewell() {
	fmt.Fprintf(o.Out, `
The lab is still up. To look around:
  export KUBECONFIG=%s PATH=$PATH:%s
  kubectl -n %s describe vmdisk %s
  kubectl -n %s get vmdisk,datavolume,pvc,pod,resourcequota
  kubectl -n %s events
  kubectl -n vmdisk logs deployment/vmdisk-controller
To take it down: make lab-down
`, o.Kubeconfig, filepath.Dir(o.Kubectl), tenant, diskName, tenant, tenant)
}
