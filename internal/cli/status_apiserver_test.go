//go:build apiserver

package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/controllers"
	"vmdisk.io/vmdisk/internal/plan/status"
	"vmdisk.io/vmdisk/internal/pod"
	"vmdisk.io/vmdisk/lab/apiserver"
)

// realCluster is an API server with vmdisk's kinds, the administrator's client, and a kubeconfig for each user.
type realCluster struct {
	client.Client
	t *testing.T
}

func startCluster(t *testing.T) (realCluster, func(user string) string) {
	admin := apiserver.Start(t)
	scheme, err := controllers.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(admin, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return realCluster{c, t}, func(user string) string {
		info := &clientcmdapi.AuthInfo{ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData}
		if user != "" {
			info.Impersonate, info.ImpersonateGroups = user, []string{"system:authenticated"}
		}
		config := clientcmdapi.Config{
			CurrentContext: "c",
			Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u", Namespace: "tenant-a"}},
			Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: admin.Host, CertificateAuthorityData: admin.CAData}},
			AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": info},
		}
		file := filepath.Join(dir, "kubeconfig-"+user)
		if err := clientcmd.WriteToFile(config, file); err != nil {
			t.Fatal(err)
		}
		return file
	}
}

func (c realCluster) make(objects ...client.Object) {
	c.t.Helper()
	for _, o := range objects {
		if err := c.Create(c.t.Context(), o); err != nil {
			c.t.Fatal(err)
		}
	}
}

// grant lets a user read some resources in tenant-a.
func (c realCluster) grant(user string, rules ...rbacv1.PolicyRule) {
	c.t.Helper()
	meta := metav1.ObjectMeta{Namespace: "tenant-a", Name: user}
	c.make(&rbacv1.Role{ObjectMeta: meta, Rules: rules}, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	})
}

func reads(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list"}}
}

// TestStatusOfACluster makes a disk that is being filled, and asks after it with more and fewer rights.
func TestStatusOfACluster(t *testing.T) {
	c, kubeconfig := startCluster(t)
	c.make(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant-a"}})
	worker := c.fillADisk()
	c.grant("tenant", reads("vmdisk.io", "vmdisks"), reads("cdi.kubevirt.io", "datavolumes"), reads("", "persistentvolumeclaims", "pods", "events"))
	c.grant("viewer", reads("vmdisk.io", "vmdisks"))
	c.grant("stranger", reads("", "configmaps"))
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "e"}, Type: "Warning", Reason: "FailedMount", Message: "try later",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "tenant-a", Name: worker.Name, UID: worker.UID}, Count: 3}
	c.make(event)

	statusAs := func(user string, args ...string) ran {
		return runHere(t, nil, append([]string{"status", "web", "--kubeconfig", kubeconfig(user)}, args...)...)
	}
	t.Run("who has every right sees all but the log, which no node serves here", func(t *testing.T) {
		got := statusAs("")
		for _, words := range []string{"VMDisk tenant-a/web: being filled", "claim      web: Bound", "worker     " + worker.Name, "FailedMount: try later (3 times)",
			"the worker's log, and so its bytes and its rate: "} {
			if !strings.Contains(got.Stdout, words) || got.Code != exitDiskNotReady {
				t.Errorf("exit code %d: %q is not in\n%s%s", got.Code, words, got.Stdout, got.Stderr)
			}
		}
	})
	t.Run("a tenant may not read the log", func(t *testing.T) {
		if got := statusAs("tenant"); !strings.Contains(got.Stdout, `cannot get resource "pods/log"`) || !strings.Contains(got.Stdout, "41.75%") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a viewer of VMDisks is told what these say", func(t *testing.T) {
		got := statusAs("viewer", "-o", "json")
		var r status.Report
		if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil {
			t.Fatalf("%+v: %v", got, err)
		}
		if r.Why != "DataVolume web is ImportInProgress" || len(r.Unread) != 3 || r.Progress == nil || r.Progress.Percent != 41.75 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a stranger is told what he lacks", func(t *testing.T) {
		got := statusAs("stranger")
		if got.Code != exitFailed || !strings.Contains(got.Stderr, `cannot get resource "vmdisks"`) || !strings.Contains(got.Stderr, `cannot get resource "datavolumes"`) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("the DataVolume alone", func(t *testing.T) {
		if got := statusAs("", "--datavolume"); !strings.HasPrefix(got.Stdout, "DataVolume tenant-a/web: being filled") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("no such disk", func(t *testing.T) {
		got := runHere(t, nil, "status", "none", "--kubeconfig", kubeconfig(""))
		if want := "vmdisk: no VMDisk or DataVolume none was found in namespace tenant-a: name another namespace with -n\n"; got.Code != exitFailed || got.Stderr != want {
			t.Errorf("%+v", got)
		}
	})
}

// fillADisk makes the objects of a disk at work, as the controllers would leave them.
func (c realCluster) fillADisk() *corev1.Pod {
	size := resource.MustParse("1Gi")
	disk := &v1alpha1.VMDisk{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "web"}, Spec: v1alpha1.VMDiskSpec{
		Storage: &size, Source: &v1alpha1.Source{HTTP: &v1alpha1.HTTPSource{URL: "https://images.example/a.qcow2"}}}}
	c.make(disk)
	disk.Status = v1alpha1.VMDiskStatus{ObservedGeneration: 1, Phase: "ImportInProgress", Progress: "41.75%", Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionWorkloadsReady, Status: metav1.ConditionFalse, Reason: "DataVolumeNotReady", Message: "DataVolume web is ImportInProgress", LastTransitionTime: metav1.Now(),
	}}}
	owner := *metav1.NewControllerRef(disk, v1alpha1.GroupVersion.WithKind("VMDisk"))
	dv := &cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "web", OwnerReferences: []metav1.OwnerReference{owner}}}
	dv.Spec.Source = &cdiv1.DataVolumeSource{HTTP: &cdiv1.DataVolumeSourceHTTP{URL: "https://images.example/a.qcow2"}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "web"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
	c.make(dv, claim)
	dv.Status = cdiv1.DataVolumeStatus{Phase: cdiv1.ImportInProgress, Progress: "41.75%", Conditions: []cdiv1.DataVolumeCondition{{
		Type: cdiv1.DataVolumeRunning, Status: corev1.ConditionTrue, Reason: "Pod is running", LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
	}}}
	claim.Status.Phase = corev1.ClaimBound
	worker := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: pod.Name(claim.UID)}}
	worker.Spec.NodeName = "node-a"
	worker.Spec.Containers = []corev1.Container{{Name: pod.Container, Image: "vmdisk:test"}}
	c.make(worker)
	worker.Status.Phase = corev1.PodRunning
	for _, o := range []client.Object{disk, dv, claim, worker} {
		if err := c.Status().Update(c.t.Context(), o); err != nil {
			c.t.Fatal(err)
		}
	}
	return worker
}
