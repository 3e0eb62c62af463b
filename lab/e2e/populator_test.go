//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/config"
	"vmdisk.io/vmdisk/lab/manifest"
)

const populatorNamespace = "vmdisk-populator"

// A bare claim is filled from the VolumeImportSource that it names, in a quota of exactly its size, whatever happens meanwhile. The test runs
// alone: it installs the populator, removes it again, and kills controllers.
func TestPopulator(t *testing.T) {
	first := newTenant(t)
	first.installPopulator()
	t.Run("whatever is asked for", populatesWhateverIsAskedFor)
	t.Run("once its consumer is known", populatesForItsConsumer)
	t.Run("whatever is lost", populatesWhateverIsLost)
	t.Run("what can't be is told", tellsWhatCannotBePopulated)
	t.Run("a disk is filled, and counts once", func(t *testing.T) {
		n := newTenant(t)
		n.reportsQuotas(diskSize)
		usage := n.measure()
		n.create(source(plainURL(qcow2File)), bareClaim(blockNow))
		n.isFilled()
		usage.wasExactly(n, diskBytes)
	})
	t.Run("a password is copied, and the copy doesn't stay", func(t *testing.T) {
		n := newTenant(t)
		secured := source(plainURL("auth/" + qcow2File))
		secured.Spec.Source.HTTP.SecretRef = credentialsName
		n.create(credentials(password), secured, bareClaim(blockNow))
		n.isFilled()
	})
	t.Run("the populator and the controller are killed at half", func(t *testing.T) {
		n := newTenant(t)
		n.reportsQuotas(diskSize)
		usage := n.measure()
		n.create(source(plainURL(slowly+qcow2File)), bareClaim(blockNow))
		n.isPopulatedHalf()
		if err := n.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(vmdiskNamespace), client.MatchingLabels{"app.kubernetes.io/name": "vmdisk"}); err != nil {
			t.Fatal(err)
		}
		n.isFilled()
		n.runs("controller") // ready again before any other test begins
		usage.wasExactly(n, diskBytes)
	})
	t.Run("the target is deleted at half", func(t *testing.T) {
		n := newTenant(t)
		n.create(source(plainURL(slowly+qcow2File)), bareClaim(blockNow))
		n.isPopulatedHalf()
		target, temporary := get(n, "disk", &corev1.PersistentVolumeClaim{}), &corev1.PersistentVolumeClaim{}
		n.temporary(temporary)
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: temporary.Spec.VolumeName}}
		if err := n.Delete(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		n.leavesPopulatorEmpty(target.UID)
		n.eventually(soon, "the volume is gone", func() error {
			err := n.Get(t.Context(), client.ObjectKeyFromObject(volume), volume)
			if err == nil {
				return errors.New("it is there")
			}
			return client.IgnoreNotFound(err)
		})
	})
	t.Run("what is internal isn't read", func(t *testing.T) {
		n := newTenant(t)
		n.create(source("http://169.254.169.254/latest/meta-data/"), bareClaim(blockNow))
		n.eventually(told, "the claim says why", func() error {
			if got := n.population(); !strings.Contains(got, "is internal to the cluster") {
				return errors.New(got)
			}
			return nil
		})
	})
	t.Run("there is one place, and two want it", func(t *testing.T) {
		n := newTenant(t)
		n.placesInPopulator("1")
		t.Cleanup(func() { n.placesInPopulator("4") })
		second := bareClaim(blockNow)
		second.Name = "second"
		n.create(source(plainURL(slowly+qcow2File)), bareClaim(blockNow))
		n.isPopulatedHalf()
		n.create(second)
		n.eventually(told, "the second stands in line", func() error {
			got := get(n, "second", &corev1.PersistentVolumeClaim{}).Annotations["vmdisk.io/population"]
			if !strings.HasPrefix(got, "Queued: place 1 of 1 in the line") || !strings.Contains(got, `quota "populators"`) {
				return errors.New(got)
			}
			return nil
		})
		n.isFilled()
		n.eventually(filled, "the second is bound, and nothing more is done for it", func() error {
			if c := get(n, "second", &corev1.PersistentVolumeClaim{}); c.Status.Phase != corev1.ClaimBound || c.Annotations[cdi.PopulatorProgress] != "100.0%" {
				return fmt.Errorf("it is %s and says %q", c.Status.Phase, c.Annotations["vmdisk.io/population"])
			}
			return nil
		})
	})
}

// source is a tenant's VolumeImportSource.
func source(url string) *cdiv1.VolumeImportSource {
	return &cdiv1.VolumeImportSource{ObjectMeta: metav1.ObjectMeta{Name: "image"}, Spec: cdiv1.VolumeImportSourceSpec{
		Source: &cdiv1.ImportSourceType{HTTP: &cdiv1.DataVolumeSourceHTTP{URL: url}}}}
}

// bareClaim is the claim that it fills.
func bareClaim(class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, VolumeMode: new(corev1.PersistentVolumeBlock), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:     corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(diskSize)}},
		DataSourceRef: &corev1.TypedObjectReference{APIGroup: new(cdi.Group), Kind: cdi.ImportSourceKind, Name: "image"},
	}}
}

// installPopulator runs the populator of this vmdisk until the test's end, and lets its workers reach the image server, which is internal.
func (n *tenant) installPopulator() {
	n.t.Helper()
	controller, service := &appsv1.Deployment{}, &corev1.Service{}
	for key, o := range map[client.ObjectKey]client.Object{
		{Namespace: vmdiskNamespace, Name: "vmdisk-controller"}: controller, {Namespace: web, Name: serverName}: service,
	} {
		if err := n.Get(n.t.Context(), key, o); err != nil {
			n.t.Fatal(err)
		}
	}
	objects, err := config.Populator(controller.Spec.Template.Spec.Containers[0].Image)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() == "Deployment" {
			allow(n.t, o, service.Spec.ClusterIP+"/32")
		}
	}
	n.t.Cleanup(func() { n.remove(objects) })
	if err := manifest.Apply(n.t.Context(), n, "kubectl", objects); err != nil {
		n.t.Fatal(err)
	}
	toServer := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: populatorNamespace, Name: "image-server"}, Spec: networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress: []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: web}}}}}},
	}}
	if err := n.Create(n.t.Context(), toServer); err != nil {
		n.t.Fatal(err)
	}
	n.runs("populator")
}

// allow adds an exception to a populator's arguments.
func allow(t *testing.T, deployment *unstructured.Unstructured, addresses string) {
	t.Helper()
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(deployment.Object, &d); err != nil {
		t.Fatal(err)
	}
	c := &d.Spec.Template.Spec.Containers[0]
	c.Args = append(c.Args, "--allow-egress="+addresses)
	var err error
	if deployment.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&d); err != nil {
		t.Fatal(err)
	}
}

// remove deletes the populator's objects, and waits until its namespace is gone.
func (n *tenant) remove(objects []*unstructured.Unstructured) {
	ctx := context.WithoutCancel(n.t.Context())
	for _, o := range slices.Backward(objects) {
		if err := n.Delete(ctx, o.DeepCopy()); client.IgnoreNotFound(err) != nil {
			n.t.Errorf("delete %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	n.eventually(soon, "the populator's namespace is gone", func() error {
		err := n.Get(ctx, client.ObjectKey{Name: populatorNamespace}, &corev1.Namespace{})
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// placesInPopulator changes how many disks are filled at a time.
func (n *tenant) placesInPopulator(claims string) {
	ctx := context.WithoutCancel(n.t.Context())
	quota := &corev1.ResourceQuota{}
	if err := n.Get(ctx, client.ObjectKey{Namespace: populatorNamespace, Name: "populators"}, quota); err != nil {
		n.t.Fatal(err)
	}
	before := client.MergeFrom(quota.DeepCopy())
	quota.Spec.Hard[corev1.ResourcePersistentVolumeClaims] = resource.MustParse(claims)
	if err := n.Patch(ctx, quota, before); err != nil {
		n.t.Fatal(err)
	}
}

// population is what the claim says of its filling.
func (n *tenant) population() string {
	return get(n, "disk", &corev1.PersistentVolumeClaim{}).Annotations["vmdisk.io/population"]
}

// isFilled waits until the claim is bound and has the image, and nothing is left in the populator's namespace of it.
func (n *tenant) isFilled() {
	n.t.Helper()
	n.isHandedOver()
	n.holds("disk", diskBytes, reference(n.t), -1)
}

// isHandedOver waits until the claim has its volume, which is like any other, and nothing is left of the temporary disk.
func (n *tenant) isHandedOver() {
	n.t.Helper()
	n.eventually(filled, "the claim is bound and filled", func() error {
		c := get(n, "disk", &corev1.PersistentVolumeClaim{})
		if c.Status.Phase != corev1.ClaimBound || c.Annotations[cdi.PopulatorProgress] != "100.0%" {
			return fmt.Errorf("it is %s, %s, and says %q", c.Status.Phase, c.Annotations[cdi.PopulatorProgress], c.Annotations["vmdisk.io/population"])
		}
		return nil
	})
	v := n.volume("disk")
	if v.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || v.pv.Annotations["vmdisk.io/rebind"] != "" {
		n.t.Errorf("its volume is not as any other: %+v", v.pv)
	}
	n.leavesPopulatorEmpty(v.claim.UID)
}

// isPopulatedHalf waits until some of the image is through, and not all.
func (n *tenant) isPopulatedHalf() {
	n.t.Helper()
	n.eventually(soon, "the import is at half", func() error {
		progress := get(n, "disk", &corev1.PersistentVolumeClaim{}).Annotations[cdi.PopulatorProgress]
		percent, err := strconv.ParseFloat(strings.TrimSuffix(progress, "%"), 64)
		if err != nil || percent < 25 {
			return fmt.Errorf("its progress is %q: %s", progress, n.population())
		}
		return nil
	})
}

// temporary reads an object of the temporary disk: its DataVolume or its claim.
func (n *tenant) temporary(into client.Object) {
	n.t.Helper()
	name := "populate-" + string(get(n, "disk", &corev1.PersistentVolumeClaim{}).UID)
	if err := n.Get(n.t.Context(), client.ObjectKey{Namespace: populatorNamespace, Name: name}, into); err != nil {
		n.t.Fatal(err)
	}
}

// inPopulator are the names of what the populator has for a target.
func (n *tenant) inPopulator(target types.UID) []string {
	n.t.Helper()
	var left []string
	for _, list := range []client.ObjectList{&cdiv1.DataVolumeList{}, &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PodList{}} {
		if err := n.List(n.t.Context(), list, client.InNamespace(populatorNamespace), client.MatchingLabels{v1alpha1.PopulatesLabel: string(target)}); err != nil {
			n.t.Fatal(err)
		}
		left = append(left, names(n.t, list)...)
	}
	return left
}

// leavesPopulatorEmpty waits until nothing is left there of a target.
func (n *tenant) leavesPopulatorEmpty(target types.UID) {
	n.t.Helper()
	n.eventually(soon, "nothing is left in the populator's namespace", func() error {
		if left := n.inPopulator(target); len(left) > 0 {
			return errors.New(strings.Join(left, ", "))
		}
		return nil
	})
}

// runs waits until a Deployment of vmdisk has its one pod, and that is ready.
func (n *tenant) runs(component string) {
	n.t.Helper()
	n.eventually(soon, "the "+component+" runs", func() error {
		var pods corev1.PodList
		if err := n.List(n.t.Context(), &pods, client.InNamespace(vmdiskNamespace), client.MatchingLabels{"app.kubernetes.io/component": component}); err != nil {
			return err
		}
		if len(pods.Items) != 1 || !podReady(&pods.Items[0]) {
			return fmt.Errorf("there are %d pods", len(pods.Items))
		}
		return nil
	})
}
