//go:build apiserver

package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/plan/check"
)

// TestCheckOfACluster has vmdisk's objects applied, and nothing that runs.
func TestCheckOfACluster(t *testing.T) {
	c, kubeconfig := startCluster(t)
	c.make(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant-a"}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Provisioner: "plain.csi.lab"},
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "tight"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceLimitsMemory: resource.MustParse("100Mi")}}},
	)
	c.grant("tenant", reads("", "resourcequotas", "limitranges"))
	checkAs := func(user string, args ...string) (checked, ran) {
		got := runHere(t, nil, append([]string{"check", "-o", "json", "--kubeconfig", kubeconfig(user)}, args...)...)
		var result checked
		if err := json.Unmarshal([]byte(got.Stdout), &result); err != nil {
			t.Fatalf("%+v: %v", got, err)
		}
		return result, got
	}
	told := func(findings []check.Finding, severities ...check.Severity) []string {
		var all []string
		for _, f := range findings {
			if slices.Contains(severities, f.Severity) {
				all = append(all, string(f.Severity)+" "+f.About)
			}
		}
		return all
	}
	t.Run("an administrator", func(t *testing.T) {
		got, ran := checkAs("", "-n", "tenant-a")
		want := []string{
			"ok CustomResourceDefinitions", "problem Deployment vmdisk/vmdisk-controller", "ok CDI", "problem CDIConfig config", "problem webhooks",
			"warning the default class", "problem StorageClass plain", "ok VolumeSnapshotClasses", "ok block devices", "problem ResourceQuota tenant-a/tight",
		}
		if diff := cmp.Diff(want, told(got.Findings, check.OK, check.Unknown, check.Warning, check.Problem)); diff != "" || ran.Code != exitFailed || ran.Stderr != "" {
			t.Errorf("exit code %d, %q (-want +got):\n%s", ran.Code, ran.Stderr, diff)
		}
	})
	t.Run("a tenant sees what he may", func(t *testing.T) {
		got, ran := checkAs("tenant", "-n", "tenant-a")
		if got.Problems != 0 || got.Unknown < 8 || ran.Code != exitDone {
			t.Errorf("%+v", ran)
		}
		for _, f := range got.Findings {
			if f.Severity == check.Unknown && !strings.Contains(f.Message, `User "tenant" cannot`) {
				t.Errorf("%+v", f)
			}
		}
	})
	t.Run("a namespace that there isn't", func(t *testing.T) {
		got := runHere(t, nil, "check", "-n", "none", "--kubeconfig", kubeconfig(""))
		if want := "vmdisk: there is no namespace none: name another one with -n\n"; got.Code != exitFailed || got.Stderr != want {
			t.Errorf("%+v", got)
		}
	})
}
