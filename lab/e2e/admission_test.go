//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/lab/cluster"
)

// A disk whose clone may never bind comes with a warning. The certificate that this rests on is made again if it is lost, and without the
// controller only disks from images have to wait. It is not parallel: while it takes the controller away, no other scenario may run.
func TestDiskFromAnImageIsAnsweredFor(t *testing.T) {
	n := newTenant(t)
	golden := n.golden()

	heard := n.creates(fromImage("warned", golden))
	says := fmt.Sprintf("image %s (PersistentVolumeClaim %s/%s) lives in StorageClass replicated, and the disk is asked for in local: ", golden, imageNamespace, golden)
	pinned := "a volume of StorageClass local can be used on the nodes that hold its data only, and with bindImmediately "
	slices.Sort(heard.warnings) // the two webhooks are asked side by side
	if heard.err != nil || len(heard.warnings) != 2 || !strings.HasPrefix(heard.warnings[0], pinned) ||
		!strings.HasPrefix(heard.warnings[1], says) || !strings.HasSuffix(heard.warnings[1], "the clone may never bind") {
		t.Errorf("creating a disk in class local answers %+v, want warnings that begin %q and %q", heard, pinned, says)
	}
	get(n, "warned", &v1alpha1.VMDisk{})

	before := n.trust()
	if err := n.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: vmdiskNamespace, Name: "vmdisk-webhooks"}}); err != nil {
		t.Fatal(err)
	}
	n.eventually(soon, "another certificate is trusted, and shown by the same controller", func() error {
		if bytes.Equal(n.trust(), before) {
			return fmt.Errorf("it is the one from before")
		}
		return n.creates(fromImage("tried", golden), client.DryRunAll).err
	})

	n.scaleController(0)
	t.Cleanup(func() { n.scaleController(1) })
	const service = `no endpoints available for service "vmdisk-webhooks"`
	if heard := n.creates(fromImage("alone", golden)); heard.err == nil || !strings.Contains(heard.err.Error(), service) {
		t.Errorf("without the controller, creating a disk from an image answers %v, want that there are %s", heard.err, service)
	}
	if err := n.Get(t.Context(), n.key("alone"), &v1alpha1.VMDisk{}); !apierrors.IsNotFound(err) {
		t.Errorf("reading the disk that was not created answers %v", err)
	}
	n.create(newDisk(blockNow, nil)) // a blank one needs nobody's answer
	if err := n.Delete(t.Context(), get(n, "warned", &v1alpha1.VMDisk{})); err != nil {
		t.Errorf("without the controller, deleting a disk from an image: %v", err)
	}
	n.scaleController(1)
	n.eventually(soon, "the controller that is ready answers", func() error { return n.creates(fromImage("after", golden)).err })
	n.becomesReady("disk")
}

// golden makes an image of class replicated that only this test uses, and returns its name.
func (n *tenant) golden() string {
	n.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: imageNamespace, Labels: map[string]string{tenantLabel: ""}}}
	if err := n.Create(n.t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		n.t.Fatalf("make the images' namespace: %v", err)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: imageNamespace, Name: n.name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, VolumeMode: new(corev1.PersistentVolumeBlock), StorageClassName: new(blockNow),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")}},
	}}
	if err := n.Create(n.t.Context(), claim); err != nil {
		n.t.Fatalf("make an image: %v", err)
	}
	n.t.Cleanup(func() {
		if err := n.Delete(context.WithoutCancel(n.t.Context()), claim); client.IgnoreNotFound(err) != nil {
			n.t.Errorf("delete the image: %v", err)
		}
	})
	return claim.Name
}

// fromImage is a disk of an image in a class whose volumes can be used from one node only.
func fromImage(name, image string) *v1alpha1.VMDisk {
	disk := newDisk("local", nil)
	disk.Name = name
	disk.Spec.Source = &v1alpha1.Source{Image: &v1alpha1.NamedSource{Name: image}}
	return disk
}

// answer is what somebody hears who creates a disk.
type answer struct {
	err      error
	mu       sync.Mutex
	warnings []string
}

// HandleWarningHeader keeps a warning.
func (a *answer) HandleWarningHeader(_ int, _, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warnings = append(a.warnings, text)
}

// creates creates a disk as a person would, who sees the API server's warnings.
func (n *tenant) creates(disk *v1alpha1.VMDisk, options ...client.CreateOption) *answer {
	n.t.Helper()
	access, err := cluster.RESTConfig()
	if err != nil {
		n.t.Fatal(err)
	}
	heard := &answer{}
	access.WarningHandler = heard
	c, err := client.New(access, client.Options{Scheme: n.Scheme()})
	if err != nil {
		n.t.Fatal(err)
	}
	disk.Namespace = n.name
	heard.err = c.Create(n.t.Context(), disk, options...)
	return heard
}

// trust are the authorities that the API server trusts when it asks vmdisk.
func (n *tenant) trust() []byte {
	n.t.Helper()
	c := &admissionv1.ValidatingWebhookConfiguration{}
	if err := n.Get(n.t.Context(), client.ObjectKey{Name: "vmdisk"}, c); err != nil {
		n.t.Fatalf("read the webhooks' configuration: %v", err)
	}
	return c.Webhooks[0].ClientConfig.CABundle
}
