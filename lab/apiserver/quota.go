package apiserver

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Limit makes a quota on claims or their storage, with the usage that its status says, and returns once the API server
// enforces it. The controller that counts usage does not run here, so Limit writes the status; and the API server learns
// of a quota a moment after it was made, so Limit asks, without leaving a trace, until a claim that is too large for any
// quota is refused.
func Limit(t testing.TB, c client.Client, quota *corev1.ResourceQuota) {
	t.Helper()
	status := quota.Status.DeepCopy()
	status.Hard = quota.Spec.Hard
	if err := c.Create(t.Context(), quota); err != nil {
		t.Fatalf("make the quota: %v", err)
	}
	quota.Status = *status
	if err := c.Status().Update(t.Context(), quota); err != nil {
		t.Fatalf("set the quota's usage: %v", err)
	}
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		last = c.Create(ctx, hugeClaim(quota.Namespace), client.DryRunAll)
		return last != nil && strings.Contains(last.Error(), "exceeded quota: "+quota.Name+","), nil
	})
	if err != nil {
		t.Fatalf("the API server does not enforce quota %s: the last answer to a huge claim was: %v", quota.Name, last)
	}
}

func hugeClaim(namespace string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "huge-"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("4Ei")}},
		},
	}
}
