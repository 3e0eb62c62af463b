//go:build apiserver

package api_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vmdisk.io/vmdisk/internal/plan/cause"
	"vmdisk.io/vmdisk/lab/apiserver"
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
	apiserver.Limit(t, s, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "quota"},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
		Status: corev1.ResourceQuotaStatus{Used: corev1.ResourceList{
			corev1.ResourceRequestsStorage: resource.MustParse("0"), corev1.ResourcePersistentVolumeClaims: resource.MustParse("0"),
		}},
	})
	err := s.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "disk"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20481Mi")}},
		},
	})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a refusal by quota is %v, want Forbidden", err)
	}
	want := &cause.Quota{Name: "quota", Asked: "requests.storage=20481Mi", Used: "requests.storage=0", Hard: "requests.storage=20Gi"}
	if diff := cmp.Diff(want, cause.OfRefusal("the claim", err.Error()).Quota); diff != "" {
		t.Errorf("what the refusal %q says (-want +got):\n%s", err, diff)
	}
}
