package quota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/plan/cause"
)

func amounts(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func quotaOf(hard, used corev1.ResourceList) corev1.ResourceQuota {
	return corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota"}, Status: corev1.ResourceQuotaStatus{Hard: hard, Used: used}}
}

// specOf is a quota whose spec asks for another limit of storage than what was counted for.
func specOf(q corev1.ResourceQuota, hard string) corev1.ResourceQuota {
	q.Spec.Hard = amounts("requests.storage", hard)
	return q
}

func TestRoom(t *testing.T) {
	claim := corev1.PersistentVolumeClaimSpec{StorageClassName: new("fast")}
	claim.Resources.Requests = amounts("storage", "20Gi")
	const class = "fast.storageclass.storage.k8s.io/"
	for name, c := range map[string]struct {
		quotas []corev1.ResourceQuota
		want   *cause.Quota
	}{
		"without a quota":    {nil, nil},
		"exactly enough":     {[]corev1.ResourceQuota{quotaOf(amounts("requests.storage", "21Gi"), amounts("requests.storage", "1Gi"))}, nil},
		"a byte too little":  {[]corev1.ResourceQuota{quotaOf(amounts("requests.storage", "20Gi"), amounts("requests.storage", "1"))}, &cause.Quota{Name: "quota", Asked: "requests.storage=20Gi", Used: "requests.storage=1", Hard: "requests.storage=20Gi"}},
		"of claims":          {[]corev1.ResourceQuota{quotaOf(amounts("persistentvolumeclaims", "2"), amounts("persistentvolumeclaims", "2"))}, &cause.Quota{Name: "quota", Asked: "persistentvolumeclaims=1", Used: "persistentvolumeclaims=2", Hard: "persistentvolumeclaims=2"}},
		"of objects":         {[]corev1.ResourceQuota{quotaOf(amounts("count/persistentvolumeclaims", "0"), nil)}, &cause.Quota{Name: "quota", Asked: "count/persistentvolumeclaims=1", Used: "count/persistentvolumeclaims=0", Hard: "count/persistentvolumeclaims=0"}},
		"of the class":       {[]corev1.ResourceQuota{quotaOf(amounts(class+"requests.storage", "19Gi"), nil)}, &cause.Quota{Name: "quota", Asked: class + "requests.storage=20Gi", Used: class + "requests.storage=0", Hard: class + "requests.storage=19Gi"}},
		"of another class":   {[]corev1.ResourceQuota{quotaOf(amounts("slow.storageclass.storage.k8s.io/requests.storage", "0"), nil)}, nil},
		"of something else":  {[]corev1.ResourceQuota{quotaOf(amounts("pods", "0"), nil)}, nil},
		"never counted":      {[]corev1.ResourceQuota{specOf(quotaOf(nil, nil), "19Gi")}, &cause.Quota{Name: "quota", Asked: "requests.storage=20Gi", Used: "requests.storage=0", Hard: "requests.storage=19Gi"}},
		"lowered just now":   {[]corev1.ResourceQuota{specOf(quotaOf(amounts("requests.storage", "20Gi"), nil), "19Gi")}, nil},
		"raised just now":    {[]corev1.ResourceQuota{specOf(quotaOf(amounts("requests.storage", "19Gi"), nil), "20Gi")}, &cause.Quota{Name: "quota", Asked: "requests.storage=20Gi", Used: "requests.storage=0", Hard: "requests.storage=19Gi"}},
		"the second of them": {[]corev1.ResourceQuota{quotaOf(nil, nil), quotaOf(amounts("persistentvolumeclaims", "0"), nil)}, &cause.Quota{Name: "quota", Asked: "persistentvolumeclaims=1", Used: "persistentvolumeclaims=0", Hard: "persistentvolumeclaims=0"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, In(c.quotas).Full(OfClaim(claim))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatIsTakenIsGone(t *testing.T) {
	r := In([]corev1.ResourceQuota{quotaOf(amounts("requests.storage", "30Gi"), nil)})
	claim := corev1.PersistentVolumeClaimSpec{}
	claim.Resources.Requests = amounts("storage", "20Gi")
	r.Take(OfClaim(claim))
	if full := r.Full(OfClaim(claim)); full == nil || full.Used != "requests.storage=20Gi" {
		t.Errorf("got %+v", full)
	}
}

func TestWhatAPodTakes(t *testing.T) {
	container := corev1.Container{Resources: corev1.ResourceRequirements{Requests: amounts("cpu", "100m", "memory", "60M"), Limits: amounts("cpu", "1", "memory", "600M")}}
	got := OfPod(corev1.PodSpec{Containers: []corev1.Container{container, container}})
	want := amounts("pods", "1", "count/pods", "1", "cpu", "200m", "requests.cpu", "200m", "limits.cpu", "2", "memory", "120M", "requests.memory", "120M", "limits.memory", "1200M")
	for name, q := range want {
		if has := got[name]; has.Cmp(q) != 0 {
			t.Errorf("%s is %s, want %s", name, has.String(), q.String())
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
}
