package populate

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
)

// limits is a quota, by name, limit and usage.
func limits(triples ...string) corev1.ResourceQuota {
	q := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota"}, Status: corev1.ResourceQuotaStatus{Hard: corev1.ResourceList{}, Used: corev1.ResourceList{}}}
	for i := 0; i < len(triples); i += 3 {
		name := corev1.ResourceName(triples[i])
		q.Status.Hard[name], q.Status.Used[name] = resource.MustParse(triples[i+1]), resource.MustParse(triples[i+2])
	}
	return q
}

func sized(size string) cdiv1.DataVolume {
	return *dataVolume(func(dv *cdiv1.DataVolume) {
		dv.UID = "older"
		dv.Spec.Storage.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
	})
}

// TestTheOldestGoesFirst is about a disk of 20Gi, and older ones of its namespace that a quota has refused.
func TestTheOldestGoesFirst(t *testing.T) {
	scoped := limits("requests.storage", "40Gi", "0")
	scoped.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
	for name, c := range map[string]struct {
		line Line
		want string // the message; empty: the claim is asked for
	}{
		"nobody is before it":                         {Line{Quotas: []corev1.ResourceQuota{limits("requests.storage", "20Gi", "0")}}, ""},
		"there is room for both":                      {Line{Quotas: []corev1.ResourceQuota{limits("requests.storage", "40Gi", "0")}, Claims: []cdiv1.DataVolume{sized("20Gi")}}, ""},
		"an older one that is too large is passed":    {Line{Quotas: []corev1.ResourceQuota{limits("requests.storage", "30Gi", "0")}, Claims: []cdiv1.DataVolume{sized("31Gi")}}, ""},
		"without room the API server itself is asked": {Line{Quotas: []corev1.ResourceQuota{limits("requests.storage", "30Gi", "20Gi")}, Claims: []cdiv1.DataVolume{sized("10Gi")}}, ""},
		"a scope is nothing to be guessed at":         {Line{Quotas: []corev1.ResourceQuota{limits("requests.storage", "30Gi", "0"), scoped}, Claims: []cdiv1.DataVolume{sized("30Gi")}}, ""},
		"room that an older one will take is left to it": {
			Line{Quotas: []corev1.ResourceQuota{limits("requests.storage", "30Gi", "0")}, Claims: []cdiv1.DataVolume{sized("31Gi"), sized("15Gi")}},
			`quota "quota" has room for claim web-root, but not besides what older disks of the namespace wait for (1 before it): it asks requests.storage=20Gi of requests.storage=30Gi; it goes on by itself once they have begun`,
		},
		"the same for the number of claims": {
			Line{Quotas: []corev1.ResourceQuota{limits("persistentvolumeclaims", "1", "0")}, Claims: []cdiv1.DataVolume{sized("1Gi")}},
			`quota "quota" has room for claim web-root, but not besides what older disks of the namespace wait for (1 before it): it asks persistentvolumeclaims=1 of persistentvolumeclaims=1; it goes on by itself once they have begun`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(dataVolume(nil), immediateClass)
			s.world.Line = c.line
			s.settle()
			bound, _ := find(s.world.DataVolume.Status.Conditions, cdiv1.DataVolumeBound)
			if (s.world.Claim == nil) != (c.want != "") {
				t.Errorf("the claim is %v, and Bound says %s", s.world.Claim, bound.Message)
			}
			if c.want != "" {
				if diff := cmp.Diff(c.want, bound.Message); diff != "" || bound.Reason != cdi.ReasonErrExceededQuota {
					t.Errorf("reason %s: %s", bound.Reason, diff)
				}
			}
		})
	}
}

func TestTheOldestGetsItsWorkerFirst(t *testing.T) {
	s := newSim(dataVolume(nil), immediateClass)
	s.settle()
	s.bind()
	s.world.Line = Line{Quotas: []corev1.ResourceQuota{limits("pods", "2", "1")}, Workers: []cdiv1.DataVolume{sized("1Gi")}}
	s.settle()
	ran, _ := find(s.world.DataVolume.Status.Conditions, cdiv1.DataVolumeRunning)
	if s.world.Worker != nil || ran.Reason != cdi.ReasonErrExceededQuota || !strings.Contains(ran.Message, "(1 before it): it asks pods=1 of pods=2") {
		t.Errorf("the worker is %v, and Running says %s", s.world.Worker, ran.Message)
	}
	claim, worker := Refused(s.world.DataVolume)
	if claim || !worker {
		t.Error("others can't see that it waits for a worker")
	}
	s.world.Line.Workers = nil
	s.settle()
	if s.world.Worker == nil {
		t.Error("the older one has begun, and there is no worker")
	}
}

func TestAgesAreCompared(t *testing.T) {
	at := func(uid types.UID, second int64) cdiv1.DataVolume {
		dv := sized("1Gi")
		dv.UID, dv.CreationTimestamp = uid, metav1.NewTime(time.Unix(second, 0))
		return dv
	}
	if ByAge(at("a", 1), at("b", 2)) >= 0 || ByAge(at("a", 2), at("b", 1)) <= 0 || ByAge(at("a", 1), at("b", 1)) >= 0 {
		t.Error("the older is not first")
	}
}
