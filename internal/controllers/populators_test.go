//go:build apiserver

package controllers_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/config"
	"vmdisk.io/vmdisk/internal/controllers"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/populator"
	"vmdisk.io/vmdisk/internal/pod"
	"vmdisk.io/vmdisk/lab/manifest"
)

const populatorNamespace = "vmdisk-populator"

// startPopulator installs the populator beside the controllers, with no more rights than its own ServiceAccount.
func startPopulator(p plane) {
	p.t.Helper()
	objects, err := config.Populator("vmdisk:test")
	if err == nil {
		err = manifest.Apply(p.t.Context(), p, "kubectl", objects)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	settings := populator.Settings{Namespace: populatorNamespace, ServiceAccount: "vmdisk-worker", Egress: job.Egress{Deny: []string{"10.0.0.0/8"}}}
	start(p.t, p.admin, "vmdisk-populator", controllers.PopulatorCached(populatorNamespace), func(mgr ctrl.Manager) ([]controllers.Controller, error) {
		c, err := controllers.Populator(p.t.Context(), mgr, settings)
		return []controllers.Controller{c}, err
	})
}

// target is a bare claim that is filled from the VolumeImportSource debian.
func target(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("replicated"), VolumeMode: new(corev1.PersistentVolumeBlock),
			Resources:     corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}},
			DataSourceRef: &corev1.TypedObjectReference{APIGroup: new(cdi.Group), Kind: cdi.ImportSourceKind, Name: "debian"},
		},
	}
}

// populateAClaim plays storage, kubelet and Kubernetes' binder for one claim.
func populateAClaim(p plane) {
	p.create(target("bare")) // before there is a populator: it finds what waits
	startPopulator(p)
	says := func(reason string) func(*corev1.PersistentVolumeClaim) bool {
		return func(c *corev1.PersistentVolumeClaim) bool {
			return len(c.Annotations["vmdisk.io/population"]) > len(reason) && c.Annotations["vmdisk.io/population"][:len(reason)] == reason
		}
	}
	until(p, target("bare"), "a source that is missing is told", says("SourceMissing"))
	p.create(&cdiv1.VolumeImportSource{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "debian"}, Spec: cdiv1.VolumeImportSourceSpec{
		Source: &cdiv1.ImportSourceType{HTTP: &cdiv1.DataVolumeSourceHTTP{URL: "https://images.example/debian.qcow2", SecretRef: "login"}}}})
	until(p, target("bare"), "a Secret that is missing is told", says("InputMissing"))
	p.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "login"}, Data: map[string][]byte{"accessKeyId": []byte("u"), "secretKey": []byte("pw")}})
	p.touch(target("bare")) // Secrets aren't watched

	claim := until(p, target("bare"), "claim", there)
	name := populator.Name(claim.UID)
	dv := until(p, named(&cdiv1.DataVolume{}, populatorNamespace, name), "the temporary disk", there)
	temporary := until(p, named(&corev1.PersistentVolumeClaim{}, populatorNamespace, name), "its claim", there)
	secret := until(p, named(&corev1.Secret{}, populatorNamespace, name+"-0"), "the copy of the Secret", there)
	if !metav1.IsControlledBy(secret, dv) || string(secret.Data["secretKey"]) != "pw" {
		p.t.Errorf("the copy is %+v", secret)
	}
	volume := p.bind(temporary)
	worker := until(p, named(&corev1.Pod{}, populatorNamespace, pod.Name(temporary.UID)), "worker", there)
	checkWorker(p.t, worker, secret.Name)
	p.status(worker, func() {
		worker.Status.Phase = corev1.PodSucceeded
		worker.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Container, Image: "vmdisk:test",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(job.Result{Outcome: job.Succeeded}.Encode())}}}}
	})

	until(p, volume, "the volume is handed over", func(v *corev1.PersistentVolume) bool {
		return v.Spec.ClaimRef.UID == claim.UID && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	})
	p.goes(secret)
	if err := p.Get(p.t.Context(), client.ObjectKeyFromObject(temporary), temporary); err != nil || temporary.DeletionTimestamp != nil {
		p.t.Errorf("the temporary claim goes before the volume has another: %v", err)
	}
	p.bindTo(until(p, claim, "claim", there), volume)
	p.goes(dv)
	p.goes(temporary)
	until(p, volume, "the volume is as before", func(v *corev1.PersistentVolume) bool {
		return v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && len(v.Annotations) == 0
	})
	done := until(p, claim, "the claim says so", func(c *corev1.PersistentVolumeClaim) bool { return c.Annotations[cdi.PopulatorProgress] == "100.0%" })
	if sentence, ok := done.Annotations["vmdisk.io/population"]; ok {
		p.t.Errorf("it still says %q", sentence)
	}
	deleteATarget(p)
}

// checkWorker holds a worker against what the populator promises of it.
func checkWorker(t *testing.T, worker *corev1.Pod, secret string) {
	t.Helper()
	env := worker.Spec.Containers[0].Env
	i := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == job.SpecEnv })
	spec, err := job.ParseSpec(env[i].Value)
	if err != nil {
		t.Fatal(err)
	}
	// The API server's own service has an address of its ServiceCIDR, here the default.
	want := &job.Egress{Deny: []string{"10.0.0.0/8", "10.0.0.0/24"}}
	if diff := cmp.Diff(want, spec.Egress); diff != "" {
		t.Error(diff)
	}
	if worker.Spec.ServiceAccountName != "vmdisk-worker" || *worker.Spec.AutomountServiceAccountToken {
		t.Errorf("it runs as %s", worker.Spec.ServiceAccountName)
	}
	if !slices.ContainsFunc(worker.Spec.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == secret }) {
		t.Errorf("it doesn't mount %s: %+v", secret, worker.Spec.Volumes)
	}
}

// deleteATarget deletes one whose disk is being filled: nothing is left of it.
func deleteATarget(p plane) {
	p.create(target("second"))
	claim := until(p, target("second"), "claim", there)
	name := populator.Name(claim.UID)
	dv := until(p, named(&cdiv1.DataVolume{}, populatorNamespace, name), "the temporary disk", there)
	temporary := until(p, named(&corev1.PersistentVolumeClaim{}, populatorNamespace, name), "its claim", there)
	if err := p.Delete(p.t.Context(), claim); err != nil {
		p.t.Fatal(err)
	}
	p.goes(claim)
	p.goes(dv)
	p.goes(temporary)
}

// touch changes a claim, so that it is looked at.
func (p plane) touch(claim *corev1.PersistentVolumeClaim) {
	p.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"touched":"yes"}}}`))
	if err := p.Patch(p.t.Context(), claim, patch); err != nil {
		p.t.Fatal(err)
	}
}

// bind makes a claim's volume, as a storage driver and Kubernetes would.
func (p plane) bind(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	p.t.Helper()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)}, Spec: corev1.PersistentVolumeSpec{
		Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode, StorageClassName: *claim.Spec.StorageClassName,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "linstor.csi.linbit.com", VolumeHandle: string(claim.UID)}},
		ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
	}}
	p.create(volume)
	p.bindTo(claim, volume)
	return volume
}

func (p plane) bindTo(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) {
	p.t.Helper()
	before := claim.DeepCopy()
	claim.Spec.VolumeName = volume.Name
	if err := p.Patch(p.t.Context(), claim, client.MergeFrom(before)); err != nil {
		p.t.Fatal(err)
	}
	p.status(claim, func() { claim.Status.Phase = corev1.ClaimBound })
}

// goes waits until an object was deleted. A claim's finalizer is taken off, as the controller does that protects claims in use.
func (p plane) goes(o client.Object) {
	p.t.Helper()
	err := wait.PollUntilContextTimeout(p.t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := p.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err == nil && o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) > 0 {
			o.SetFinalizers(nil)
			return false, client.IgnoreNotFound(p.Update(ctx, o))
		}
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		p.t.Fatalf("%T %s is still there: %v", o, o.GetName(), errors.Join(err))
	}
}
