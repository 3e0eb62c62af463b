package populator

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/populator"
)

// bench is a reconciler on a cluster in memory, where nothing happens by itself.
type bench struct {
	client.Client
	t *testing.T
	r *Reconciler
}

func newBench(t *testing.T, objects ...client.Object) bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cdi.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	for _, index := range indexes() {
		builder.WithIndex(index.of, index.field, index.by)
	}
	c := builder.Build()
	return bench{c, t, &Reconciler{
		Reader: c, Live: c, Writer: kube.NewWriter(c, events.NewFakeRecorder(100)), Now: time.Now,
		Settings: populator.Settings{Namespace: "populator", ServiceAccount: "worker", Egress: job.Egress{Deny: []string{"10.0.0.0/8"}}},
	}}
}

// settle reconciles a target often enough.
func (b bench) settle(uid types.UID) {
	b.t.Helper()
	for range 10 {
		if _, err := b.r.Reconcile(b.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: string(uid)}}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// there reads an object, and says whether it exists.
func (b bench) there(o client.Object, namespace, name string) bool {
	b.t.Helper()
	err := b.Get(b.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
	return err == nil
}

func (b bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func ground() []client.Object {
	target := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "web-root", UID: "t1"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("replicated"), VolumeMode: new(corev1.PersistentVolumeBlock),
		Resources:     corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		DataSourceRef: &corev1.TypedObjectReference{APIGroup: new(cdi.Group), Kind: cdi.ImportSourceKind, Name: "debian"},
	}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "203.0.113.7"}}
	return []client.Object{
		target, node,
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "replicated"}, Provisioner: "csi.example"},
		&cdiv1.VolumeImportSource{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "debian"}, Spec: cdiv1.VolumeImportSourceSpec{
			Source: &cdiv1.ImportSourceType{HTTP: &cdiv1.DataVolumeSourceHTTP{URL: "https://images.example/debian", SecretRef: "login"}}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "login"}, Data: map[string][]byte{"secretKey": []byte("pw")}},
	}
}

// fill makes the temporary claim's volume, and says that it was filled.
func (b bench) fill() {
	b.t.Helper()
	temporary := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "populator", Name: "populate-t1", UID: "temporary", Annotations: map[string]string{cdi.PopulatedFor: "populate-t1"}}}
	dv := &cdiv1.DataVolume{}
	b.there(dv, "populator", "populate-t1")
	temporary.Spec = *dv.Spec.PVC
	temporary.Spec.VolumeName = "pv-1"
	temporary.Status.Phase = corev1.ClaimBound
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: temporary.Spec.Resources.Requests, AccessModes: temporary.Spec.AccessModes, VolumeMode: temporary.Spec.VolumeMode, StorageClassName: "replicated",
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ClaimRef:                      &corev1.ObjectReference{Namespace: "populator", Name: "populate-t1", UID: "temporary"},
	}}
	dv.Status.Phase = cdiv1.Succeeded
	b.must(b.Create(b.t.Context(), temporary))
	b.must(b.Create(b.t.Context(), volume))
	b.must(b.Update(b.t.Context(), dv))
}

func TestAClaimIsFilled(t *testing.T) {
	b := newBench(t, ground()...)
	b.settle("t1")
	dv, secret, claim, volume := &cdiv1.DataVolume{}, &corev1.Secret{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	if !b.there(dv, "populator", "populate-t1") || !b.there(secret, "populator", "populate-t1-0") || string(secret.Data["secretKey"]) != "pw" {
		t.Fatalf("there is no disk, or no copy of its Secret: %+v %+v", dv, secret)
	}
	if got := dv.Spec.Source.HTTP.SecretRef; got != "populate-t1-0" {
		t.Errorf("the disk takes Secret %s", got)
	}
	if got := dv.Annotations["vmdisk.io/egress"]; got != `{"deny":["10.0.0.0/8","203.0.113.7/32"]}` {
		t.Errorf("its workers are bounded by %s", got)
	}
	b.fill()
	b.settle("t1")
	b.there(volume, "", "pv-1")
	if r := volume.Spec.ClaimRef; r.UID != "t1" || r.Namespace != "tenant-a" || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Fatalf("the volume is %+v", volume.Spec)
	}
	if b.there(secret, "populator", "populate-t1-0") || !b.there(dv, "populator", "populate-t1") {
		t.Error("the copy stays, or the disk goes before the claim is bound")
	}
	b.there(claim, "tenant-a", "web-root")
	claim.Spec.VolumeName, claim.Status.Phase = "pv-1", corev1.ClaimBound
	b.must(b.Update(t.Context(), claim))
	b.settle("t1")
	b.there(volume, "", "pv-1")
	if b.there(dv, "populator", "populate-t1") || b.there(&corev1.PersistentVolumeClaim{}, "populator", "populate-t1") || len(volume.Annotations) > 0 || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("something is left: %+v", volume)
	}
	if b.there(claim, "tenant-a", "web-root"); claim.Annotations[cdi.PopulatorProgress] != "100.0%" {
		t.Errorf("the claim says %v", claim.Annotations)
	}
}

// TestATargetThatGoesLeavesNothing: with a volume that is on its way already, which is found by its mark alone.
func TestATargetThatGoesLeavesNothing(t *testing.T) {
	b := newBench(t, ground()...)
	b.settle("t1")
	b.fill()
	b.settle("t1")
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	b.there(claim, "tenant-a", "web-root")
	b.must(b.Delete(t.Context(), claim))
	b.settle("t1")
	b.there(volume, "", "pv-1")
	if b.there(&cdiv1.DataVolume{}, "populator", "populate-t1") || b.there(&corev1.PersistentVolumeClaim{}, "populator", "populate-t1") {
		t.Error("the temporary disk is left")
	}
	if volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || len(volume.Annotations) > 0 {
		t.Errorf("Kubernetes won't reclaim the volume: %+v", volume)
	}
}

func TestOthersWait(t *testing.T) {
	list := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse(n)}
	}
	second := ground()[0].(*corev1.PersistentVolumeClaim)
	second.Name, second.UID = "second", "t2"
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "populator", Name: "populators"}, Status: corev1.ResourceQuotaStatus{Hard: list("1"), Used: list("0")}}
	b := newBench(t, append(ground(), second, quota)...)
	b.settle("t2")
	b.settle("t1")
	if b.there(&cdiv1.DataVolume{}, "populator", "populate-t2") || !b.there(&cdiv1.DataVolume{}, "populator", "populate-t1") {
		t.Error("the second began before the first")
	}
	if b.there(second, "tenant-a", "second"); len(second.Annotations["vmdisk.io/population"]) == 0 {
		t.Error("the second isn't told why it waits")
	}
}
