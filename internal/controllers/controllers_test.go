//go:build apiserver

package controllers_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/controllers"
	"vmdisk.io/vmdisk/internal/plan/clone"
	"vmdisk.io/vmdisk/internal/pod"
	"vmdisk.io/vmdisk/lab/apiserver"
)

// plane is a real API server with the controllers on it, who have no more rights than their ServiceAccount. There is no node and no
// storage: the test plays them.
type plane struct {
	client.Client
	t     *testing.T
	admin *rest.Config
}

// start runs controllers with the rights of a ServiceAccount, until the test's end.
func start(t *testing.T, admin *rest.Config, account string, cached cache.Options, all func(ctrl.Manager) ([]controllers.Controller, error)) {
	t.Helper()
	scheme, err := controllers.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	as := rest.CopyConfig(admin)
	as.Impersonate.UserName = "system:serviceaccount:vmdisk:" + account
	as.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:vmdisk", "system:authenticated"}
	mgr, err := ctrl.NewManager(as, ctrl.Options{Scheme: scheme, Cache: cached, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := all(mgr)
	if err != nil {
		t.Fatal(err)
	}
	for _, controller := range list {
		if err := controller.Setup(mgr); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended: %v", err)
		}
	})
}

func startPlane(t *testing.T) plane {
	scheme, err := controllers.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	admin := apiserver.Start(t)
	c, err := client.New(admin, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	start(t, admin, "vmdisk-controller", controllers.Cached(), func(mgr ctrl.Manager) ([]controllers.Controller, error) {
		if err := controllers.Index(t.Context(), mgr.GetFieldIndexer()); err != nil {
			return nil, err
		}
		return controllers.All(mgr, controllers.Options{Worker: pod.Settings{Image: "vmdisk:test"}, Images: clone.Images{Namespace: "images", Prefix: "golden-"}})
	})
	p := plane{c, t, admin}
	p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant-a"}})
	return p
}

func (p plane) create(o client.Object) {
	p.t.Helper()
	if err := p.Create(p.t.Context(), o); err != nil {
		p.t.Fatal(err)
	}
}

// until reads an object again and again until it is as wanted.
func until[T client.Object](p plane, o T, what string, wanted func(T) bool) T {
	p.t.Helper()
	err := wait.PollUntilContextTimeout(p.t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := p.Get(ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && wanted(o), err
	})
	if err != nil {
		p.t.Fatalf("%s: %v; last seen: %+v", what, err, o)
	}
	return o
}

func there[T client.Object](T) bool { return true }

// gone waits until an object is deleted.
func (p plane) gone(o client.Object) {
	p.t.Helper()
	err := wait.PollUntilContextTimeout(p.t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := p.Get(ctx, client.ObjectKeyFromObject(o), o)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		p.t.Errorf("%T %s is still there: %v", o, o.GetName(), err)
	}
}

// status patches an object's status, as the component that owns it would.
func (p plane) status(o client.Object, change func()) {
	p.t.Helper()
	before := o.DeepCopyObject().(client.Object)
	change()
	if err := p.Status().Patch(p.t.Context(), o, client.MergeFrom(before)); err != nil {
		p.t.Fatal(err)
	}
}

func storageClass(name, provisioner string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: name},
		Provisioner:       provisioner,
		VolumeBindingMode: new(storagev1.VolumeBindingImmediate),
	}
}

func vmdisk(name string) *v1alpha1.VMDisk {
	return &v1alpha1.VMDisk{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: name},
		Spec: v1alpha1.VMDiskSpec{
			Storage: new(resource.MustParse("20Gi")), StorageClass: "replicated",
			Source: &v1alpha1.Source{HTTP: &v1alpha1.HTTPSource{URL: "https://images.example/debian.qcow2"}},
		},
	}
}

func named[T client.Object](o T, namespace, name string) T {
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func TestControllers(t *testing.T) {
	p := startPlane(t)
	p.create(storageClass("replicated", "linstor.csi.linbit.com"))

	t.Run("each class gets a profile, and an overhead", func(t *testing.T) {
		p := plane{p.Client, t, p.admin}
		until(p, named(&cdiv1.StorageProfile{}, "", "replicated"), "profile", func(s *cdiv1.StorageProfile) bool { return len(s.Status.ClaimPropertySets) == 3 })
		until(p, named(&cdiv1.CDIConfig{}, "", "config"), "config", func(c *cdiv1.CDIConfig) bool {
			return c.Status.FilesystemOverhead != nil && c.Status.FilesystemOverhead.StorageClass["replicated"] == "0.06"
		})
	})
	t.Run("the CDIConfig comes back when somebody deletes it", func(t *testing.T) {
		p := plane{p.Client, t, p.admin}
		old := until(p, named(&cdiv1.CDIConfig{}, "", "config"), "config", there)
		if err := p.Delete(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		before := old.UID
		until(p, named(&cdiv1.CDIConfig{}, "", "config"), "new config", func(c *cdiv1.CDIConfig) bool { return c.UID != before && c.Status.FilesystemOverhead != nil })
	})
	t.Run("a disk is made, filled and ready", func(t *testing.T) { importADisk(plane{p.Client, t, p.admin}) })
	t.Run("a disk that failed is tried again when somebody asks", func(t *testing.T) { retryAFailedDisk(plane{p.Client, t, p.admin}) })
	t.Run("a disk on a filesystem grows, but not under a virtual machine", func(t *testing.T) { growADisk(plane{p.Client, t, p.admin}) })
	t.Run("a disk whose class doesn't let volumes grow says so", func(t *testing.T) { refuseToGrow(plane{p.Client, t, p.admin}) })
	t.Run("the same manifest again changes nothing", func(t *testing.T) { applyAgain(plane{p.Client, t, p.admin}) })
	t.Run("a claim that was kept is taken over as it is", func(t *testing.T) { restoreAClaim(plane{p.Client, t, p.admin}) })
	t.Run("a volume that was kept is bound, and not filled", func(t *testing.T) { restoreAVolume(plane{p.Client, t, p.admin}) })
	t.Run("a worker that is to be kept is kept", func(t *testing.T) { keepTheWorker(plane{p.Client, t, p.admin}) })
	t.Run("a bare claim is filled from its source", func(t *testing.T) { populateAClaim(plane{p.Client, t, p.admin}) })
	t.Run("disks are made from another volume", func(t *testing.T) { cloneDisks(plane{p.Client, t, p.admin}) })
	t.Run("disks are made from a golden image", func(t *testing.T) { cloneImages(plane{p.Client, t, p.admin}) })
	t.Run("each kind of limit is named, and room lets the disk go on", func(t *testing.T) { waitForEachLimit(plane{p.Client, t, p.admin}) })
	t.Run("of those that wait for a quota the oldest goes first, and a smaller one passes a blocked larger one", func(t *testing.T) { oldestFirst(plane{p.Client, t, p.admin}) })
	t.Run("a quota's refusal is told, and room lets the disk go on", func(t *testing.T) { waitForQuota(plane{p.Client, t, p.admin}) })
}

// importADisk plays storage and kubelet for one disk.
func importADisk(p plane) {
	p.create(vmdisk("web-root"))
	claim := until(p, named(&corev1.PersistentVolumeClaim{}, "tenant-a", "web-root"), "claim", there)
	want := corev1.PersistentVolumeClaimSpec{
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		VolumeMode:       new(corev1.PersistentVolumeBlock),
		StorageClassName: new("replicated"),
		Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}},
	}
	if diff := cmp.Diff(want, claim.Spec); diff != "" {
		p.t.Error(diff)
	}
	p.status(claim, func() { claim.Status.Phase = corev1.ClaimBound })
	worker := until(p, named(&corev1.Pod{}, "tenant-a", pod.Name(claim.UID)), "worker", there)
	p.succeed(worker)
	until(p, vmdisk("web-root"), "ready disk", func(d *v1alpha1.VMDisk) bool {
		return meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionWorkloadsReady) && d.Status.Progress == "100.0%" && d.Status.StorageClass == "replicated"
	})
	dv := until(p, named(&cdiv1.DataVolume{}, "tenant-a", "web-root"), "DataVolume", there)
	if !metav1.IsControlledBy(until(p, claim, "claim", there), dv) {
		p.t.Error("KubeVirt wants the claim to be controlled by the DataVolume")
	}
	p.gone(worker)
}

// waitForQuota plays the quota controller.
func waitForQuota(p plane) {
	hard := func(s string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse(s)}
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "quota"}, Spec: corev1.ResourceQuotaSpec{Hard: hard("20Gi")}}
	p.create(quota)
	p.status(quota, func() { quota.Status = corev1.ResourceQuotaStatus{Hard: hard("20Gi"), Used: hard("1Gi")} })
	time.Sleep(time.Second) // the API server's quota plugin keeps its own cache, which nothing shows
	p.create(vmdisk("second"))
	const says = `DataVolume second is Pending: quota "quota" has no room for claim second: it asks requests.storage=20Gi, used are requests.storage=1Gi of requests.storage=20Gi; it goes on by itself once the quota is raised or something else is deleted`
	until(p, vmdisk("second"), "refused disk", func(d *v1alpha1.VMDisk) bool {
		c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionWorkloadsReady)
		return c != nil && c.Message == says
	})
	until(p, named(&cdiv1.DataVolume{}, "tenant-a", "second"), "refused DataVolume", func(dv *cdiv1.DataVolume) bool {
		reasons := map[cdiv1.DataVolumeConditionType]string{}
		for _, c := range dv.Status.Conditions {
			reasons[c.Type] = c.Reason
		}
		return reasons[cdiv1.DataVolumeBound] == "ErrExceededQuota" && reasons[cdiv1.DataVolumeReady] == "ErrExceededQuota"
	})
	p.status(quota, func() { quota.Status.Hard = hard("21Gi") })
	until(p, named(&corev1.PersistentVolumeClaim{}, "tenant-a", "second"), "claim, once there is room", there)
}
