//go:build apiserver

package admission_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
)

// testAdvice creates disks that there is something to say about. All are let in, whether it is said or not.
func (p plane) testAdvice(port int) {
	t := p.t
	p.create(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-b"}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disks-of-nodes"}, Provisioner: "topolvm.io", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)},
		dataVolume("somebodys", nil),
	)
	p.hears(true, disk("tried", "disks-of-nodes", nil))
	p.hears(true, disk("somebodys", "replicated", nil))
	const pinned = "a volume of StorageClass disks-of-nodes can be used on one node only, and with bindImmediately the place is picked before the virtual machine is known: " +
		"one that may not run there won't start. bindImmediately: false avoids that"
	waiting := disk("waiting", "disks-of-nodes", nil)
	waiting.Spec.BindImmediately = new(false)
	for name, c := range map[string]struct {
		disk *v1alpha1.VMDisk
		want []string
	}{
		"bound before its machine is known": {disk("bound", "disks-of-nodes", nil), []string{pinned}},
		"bound once its machine comes":      {waiting, nil},
		"a name that is taken":              {disk("somebodys", "replicated", nil), []string{"DataVolume somebodys exists already and isn't this disk's: the disk waits until it is gone. Delete it, or create the disk under another name"}},
		"credentials in the clear, in a class that isn't there": {
			disk("clear", "none", &v1alpha1.Source{HTTP: &v1alpha1.HTTPSource{URL: "http://images.example/debian.qcow2", SecretRef: "password"}}),
			[]string{
				"StorageClass none does not exist yet: the disk waits for it. There are disks-of-nodes, local, replicated. To name another one, delete the disk and create it again",
				"source.http.url is http, so what secretRef names can be read on its way to the server: use https",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p.warnings.take()
			if err := p.Create(t.Context(), c.disk); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, p.warnings.take()); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("with no controller, disks are made without a word, changed and deleted", func(t *testing.T) {
		plane{p.Client, t, p.warnings}.testWithoutAdviser(port)
	})
}

// hears waits until something, or nothing, is said about a disk that is not kept.
func (p plane) hears(something bool, disk *v1alpha1.VMDisk) {
	p.t.Helper()
	p.eventually("what is said about disk "+disk.Name, func() error {
		p.warnings.take()
		if err := p.Create(p.t.Context(), disk.DeepCopy(), client.DryRunAll); err != nil {
			p.t.Fatal(err)
		}
		if all := p.warnings.take(); (len(all) > 0) != something {
			return fmt.Errorf("it is %q", all)
		}
		return nil
	})
}

// testWithoutAdviser lets the API server ask where nobody answers, which disks that aren't made from an image don't depend on.
func (p plane) testWithoutAdviser(port int) {
	t := p.t
	p.ask(freePort(t))
	defer p.ask(port)
	p.hears(false, disk("tried", "none", nil))
	alone := disk("alone", "none", nil)
	alone.Finalizers = []string{"example.com/hold"}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"make it", func() error { return p.Create(t.Context(), alone) }},
		{"label and grow it", func() error {
			alone.Labels, alone.Spec.Storage = map[string]string{"a": "b"}, new(resource.MustParse("30Gi"))
			return p.Update(t.Context(), alone)
		}},
		{"tell its state", func() error {
			alone.Status.Phase = "Pending"
			return p.Status().Update(t.Context(), alone)
		}},
		{"delete it", func() error { return p.Delete(t.Context(), alone) }},
		{"let it go", func() error {
			return p.Patch(t.Context(), alone, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		}},
	} {
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.what, err)
		}
	}
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(alone), &v1alpha1.VMDisk{}); !apierrors.IsNotFound(err) {
		t.Errorf("after all that, reading it answers %v", err)
	}
}
