//go:build e2e

package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// imageNamespace is where the controller looks for golden images.
const imageNamespace = "vmdisk-images"

// golden is an image that everybody may make disks from: a DataVolume in the namespace of images, and its claim of the same name.
type golden struct {
	// tenant is the test's hand in the namespace of images.
	*tenant
	// image is what a VMDisk's source names, claim what it means.
	image, claim string
	dv           *cdiv1.DataVolume
}

// newGolden imports the usual disk into an image of this scenario's own, in a class, and waits until it is there. It is deleted after
// the test. A scenario whose image comes later begins with noGolden, and calls fill.
func (n *tenant) newGolden(class string) *golden {
	n.t.Helper()
	g := n.noGolden()
	g.fill(class, plainURL(qcow2File))
	g.succeeds(g.claim)
	return g
}

// noGolden is an image that isn't there yet.
func (n *tenant) noGolden() *golden {
	n.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: imageNamespace, Labels: map[string]string{tenantLabel: "", "pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := n.Create(n.t.Context(), namespace); client.IgnoreAlreadyExists(err) != nil {
		n.t.Fatalf("make the namespace of images: %v", err)
	}
	return &golden{
		tenant: &tenant{WithWatch: n.WithWatch, t: n.t, name: imageNamespace},
		image:  n.name, claim: n.name,
	}
}

// fill begins to import the image from a URL.
func (g *golden) fill(class, url string) {
	g.t.Helper()
	g.dv = &cdiv1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{Name: g.claim, Annotations: map[string]string{"cdi.kubevirt.io/storage.bind.immediate.requested": "true"}},
		Spec: cdiv1.DataVolumeSpec{
			Source: &cdiv1.DataVolumeSource{HTTP: &cdiv1.DataVolumeSourceHTTP{URL: url}},
			Storage: &cdiv1.StorageSpec{
				StorageClassName: &class,
				Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(diskSize)}},
			},
		},
	}
	g.create(g.dv)
	g.t.Cleanup(func() {
		if g.t.Failed() {
			g.t.Logf("the golden image:\n%s", kubectl("-n", g.name, "describe", "datavolume,pvc", g.claim))
		}
		if err := g.Delete(context.WithoutCancel(g.t.Context()), g.dv); client.IgnoreNotFound(err) != nil {
			g.t.Errorf("delete the image %s: %v", g.claim, err)
		}
	})
}

// objects are those that stay when all clones of the image are gone.
func (g *golden) objects() []client.Object {
	g.t.Helper()
	return []client.Object{get(g.tenant, g.claim, &cdiv1.DataVolume{}), get(g.tenant, g.claim, &corev1.PersistentVolumeClaim{})}
}

// An image is imported by one worker, whose bytes are counted, and leaves nothing but itself; then not even that.
func TestGoldenImage(t *testing.T) {
	t.Parallel()
	n := newTenant(t)
	work := n.countWork()
	g := n.newGolden(blockNow)
	g.holds(g.claim, diskBytes, reference(t), dataBytes(n))
	n.leavesOnly(g.objects()...)
	if left := n.leftovers(); len(left) < 3 {
		t.Errorf("the image, its claim and its volume are none of the leftovers %q", left)
	}
	if got := work.amount(); got.Workers != 1 || got.Read == 0 || got.Written == 0 {
		t.Errorf("the workers were %+v, want one that read and wrote", got)
	}
	if err := n.Delete(t.Context(), g.dv); err != nil {
		t.Fatal(err)
	}
	n.leavesOnly()
}
