//go:build apiserver

package cli

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/controllers"
	"vmdisk.io/vmdisk/lab/apiserver"
)

// TestRetryAsAPersonDoes runs the command against an API server, with a kubeconfig, by a user who may change disks and by one who may not.
func TestRetryAsAPersonDoes(t *testing.T) {
	admin := apiserver.Start(t)
	scheme, err := controllers.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(admin, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.Config{
		CurrentContext: "mine",
		Contexts:       map[string]*clientcmdapi.Context{"mine": {Cluster: "c", AuthInfo: "admin", Namespace: "tenant-a"}, "other": {Cluster: "c", AuthInfo: "other", Namespace: "tenant-a"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: admin.Host, CertificateAuthorityData: admin.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			"admin": {ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData},
			"other": {ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData, Impersonate: "other", ImpersonateGroups: []string{"system:authenticated"}},
		},
	}
	if err := clientcmd.WriteToFile(config, file); err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: "tenant-a", Name: "bare"}
	failed := &cdiv1.DataVolume{ObjectMeta: meta, Spec: cdiv1.DataVolumeSpec{Source: &cdiv1.DataVolumeSource{Blank: &cdiv1.DataVolumeBlankImage{}}}}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant-a"}}, failed} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	become := func(phase cdiv1.DataVolumePhase) {
		failed.Status.Phase = phase
		failed.Status.Conditions = []cdiv1.DataVolumeCondition{{Type: cdiv1.DataVolumeRunning, Status: corev1.ConditionFalse, Reason: "ChecksumError", Message: "another checksum"}}
		if err := c.Status().Update(t.Context(), failed); err != nil {
			t.Fatal(err)
		}
	}
	wish := func() string {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(failed), failed); err != nil {
			t.Fatal(err)
		}
		return failed.Annotations[v1alpha1.RetryAnnotation]
	}

	become(cdiv1.Failed)
	got := runHere(t, nil, "retry", "bare", "--kubeconfig", file)
	want := ran{Stdout: "DataVolume bare has failed: another checksum. It is tried again now: the same volume is filled anew, and nothing is deleted.\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	first := wish()
	if first == "" {
		t.Fatal("nothing was asked for")
	}
	if runHere(t, nil, "retry", "bare", "--kubeconfig", file); wish() == first {
		t.Error("the second wish has the value of the first, and would not be honoured")
	}
	become(cdiv1.Succeeded)
	before := wish()
	got = runHere(t, nil, "retry", "bare", "-n", "tenant-a", "--kubeconfig", file)
	if diff := cmp.Diff(ran{Stdout: "DataVolume bare is fine: it holds its bytes, and nothing is done.\n"}, got); diff != "" || wish() != before {
		t.Errorf("%s, and the wish was %q and is %q", diff, before, wish())
	}
	got = runHere(t, nil, "retry", "none", "--kubeconfig", file)
	if diff := cmp.Diff(ran{Code: exitFailed, Stderr: "vmdisk: there is neither a VMDisk nor a DataVolume none in namespace tenant-a: name another namespace with -n\n"}, got); diff != "" {
		t.Error(diff)
	}
	if got = runHere(t, nil, "retry", "bare", "--kubeconfig", file, "--context", "other"); got.Code != exitFailed || !strings.Contains(got.Stderr, `User "other" cannot get resource "vmdisks"`) {
		t.Errorf("a user without rights is told %+v", got)
	}
}
