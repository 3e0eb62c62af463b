//go:build apiserver

package api_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/internal/plan/cause"
)

// testQuota checks that package cause reads what this very API server writes.
func (s server) testQuota(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "limited"}}
	if err := s.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	hard := corev1.ResourceList{
		corev1.ResourceRequestsStorage:        resource.MustParse("20Gi"),
		corev1.ResourcePersistentVolumeClaims: resource.MustParse("1"),
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "quota"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	if err := s.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{ // the controller that counts does not run here
		corev1.ResourceRequestsStorage: resource.MustParse("0"), corev1.ResourcePersistentVolumeClaims: resource.MustParse("0"),
	}}
	if err := s.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	err := s.refusalOfClaim(t, namespace.Name, "20481Mi")
	if !apierrors.IsForbidden(err) {
		t.Errorf("a refusal by quota is %v, want Forbidden", err)
	}
	want := &cause.Quota{Name: "quota", Asked: "requests.storage=20481Mi", Used: "requests.storage=0", Hard: "requests.storage=20Gi"}
	if diff := cmp.Diff(want, cause.OfRefusal("the claim", err.Error()).Quota); diff != "" {
		t.Errorf("what the refusal %q says (-want +got):\n%s", err, diff)
	}
}

// refusalOfClaim asks for a claim until the API server gives a reason other than that it has yet to learn of the quota.
func (s server) refusalOfClaim(t *testing.T, namespace, size string) error {
	t.Helper()
	var refusal error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "disk"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
			},
		}
		refusal = s.Create(ctx, claim, client.DryRunAll)
		return refusal != nil && cause.OfRefusal("", refusal.Error()).Quota != nil, nil
	})
	if err != nil {
		t.Fatalf("no refusal that names a quota: the last answer was %v", refusal)
	}
	return refusal
}
