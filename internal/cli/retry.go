package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/disk"
)

// retryOptions are the arguments and flags of "vmdisk retry".
type retryOptions struct {
	access
	name   string
	stdout io.Writer
	now    func() time.Time
}

const retryHelp = `Try a disk again now: one that waits for its next try, or has failed. Nothing is deleted, and a disk that holds its bytes
is left alone. What will happen is printed.

NAME is a VMDisk, else a DataVolume. The command sets the annotation ` + v1alpha1.RetryAnnotation + ` on it; so could you, to any
value that it hasn't had.`

func newRetryCommand() *cobra.Command {
	o := retryOptions{now: time.Now}
	cmd := &cobra.Command{
		Use:   "retry NAME",
		Short: "Try a disk again now that waits or has failed",
		Long:  retryHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("%s takes the NAME of one disk: see '%s --help'", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name, o.stdout = args[0], cmd.OutOrStdout()
			return runRetry(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of the disk; empty: the kubeconfig's")
	o.flags(cmd)
	return cmd
}

func runRetry(ctx context.Context, o retryOptions) error {
	cluster, err := o.connect()
	if err != nil {
		return err
	}
	const tries = 10 // the object changes every two seconds at most
	for range tries {
		if err = o.retry(ctx, cluster); !apierrors.IsConflict(err) {
			break
		}
	}
	return err
}

// retry looks at the disk, asks for a try if that is of use, and tells the person.
func (o *retryOptions) retry(ctx context.Context, cluster connected) error {
	key := types.NamespacedName{Namespace: o.namespace, Name: o.name}
	var w disk.World
	var err error
	if w.Disk, err = kube.Find[v1alpha1.VMDisk](ctx, cluster.reader, key); err != nil {
		return err
	}
	if w.DataVolume, err = kube.Find[cdiv1.DataVolume](ctx, cluster.reader, key); err != nil {
		return err
	}
	if w.Disk == nil && w.DataVolume == nil {
		return fmt.Errorf("there is neither a VMDisk nor a DataVolume %s in namespace %s: name another namespace with -n", o.name, o.namespace)
	}
	r := disk.RetryOf(w)
	if r.Hopeless {
		return errors.New(r.Sentence)
	}
	if r.Ask != nil {
		wish := map[string]string{v1alpha1.RetryAnnotation: o.now().UTC().Format(time.RFC3339Nano)}
		if err := kube.Annotate(ctx, cluster.writer, r.Ask, wish); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(o.stdout, r.Sentence+".")
	return err
}
