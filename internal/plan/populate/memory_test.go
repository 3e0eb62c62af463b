package populate

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
)

func TestMemoryAfterAWorkersEnd(t *testing.T) {
	ended := time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: ended.Add(d)} }
	for name, c := range map[string]struct {
		attempts int32
		result   job.Result
		want     Memory
	}{
		"success ends it": {
			2, job.Result{Outcome: job.Succeeded},
			Memory{Claim: "c", Pod: "p", Attempts: 2, Outcome: job.Succeeded},
		},
		"a refusal ends it, and is no restart": {
			0, job.Result{Outcome: job.Refused, Reason: "BackingFile", Message: "m"},
			Memory{Claim: "c", Pod: "p", Outcome: job.Refused, Reason: "BackingFile", Message: "m"},
		},
		"an interrupted worker is followed at once": {
			1, job.Result{Outcome: job.Interrupted},
			Memory{Claim: "c", Pod: "p", Attempts: 1, Outcome: job.Interrupted},
		},
		"the first failure waits five seconds": {
			0, job.Result{Outcome: job.SourceFailed, Message: "m"},
			Memory{Claim: "c", Pod: "p", Attempts: 1, Outcome: job.SourceFailed, Message: "m", Next: at(5 * time.Second)},
		},
		"the fourth waits forty": {
			3, job.Result{Outcome: job.TargetFailed},
			Memory{Claim: "c", Pod: "p", Attempts: 4, Outcome: job.TargetFailed, Next: at(40 * time.Second)},
		},
		"none waits longer than five minutes": {
			1000, job.Result{Outcome: job.SourceFailed},
			Memory{Claim: "c", Pod: "p", Attempts: 1001, Outcome: job.SourceFailed, Next: at(5 * time.Minute)},
		},
		"a source may ask for more": {
			0, job.Result{Outcome: job.SourceFailed, RetryAfterSeconds: 90},
			Memory{Claim: "c", Pod: "p", Attempts: 1, Outcome: job.SourceFailed, Next: at(90 * time.Second)},
		},
		"though not for more than five minutes": {
			0, job.Result{Outcome: job.SourceFailed, RetryAfterSeconds: math.MaxInt64},
			Memory{Claim: "c", Pod: "p", Attempts: 1, Outcome: job.SourceFailed, Next: at(5 * time.Minute)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Memory{Claim: "c", Attempts: c.attempts}.after("p", c.result, nil, ended)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRecallForgetsWhatIsOfNoUse(t *testing.T) {
	fresh := Memory{Version: memoryVersion, Claim: "now"}
	known := Memory{Version: memoryVersion, Claim: "now", Attempts: 3, Pod: "p", Outcome: job.SourceFailed}
	for name, c := range map[string]struct {
		annotation string
		want       Memory
	}{
		"nothing is remembered":      {"", fresh},
		"the memory is this claim's": {known.encode(), known},
		"it is of an earlier claim":  {Memory{Version: memoryVersion, Claim: "before", Attempts: 3}.encode(), fresh},
		"it is of a later version":   {`{"version":2,"claim":"now","attempts":3}`, fresh},
		"somebody wrote nonsense":    {`{"version":`, fresh},
	} {
		t.Run(name, func(t *testing.T) {
			dv := &cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.MemoryAnnotation: c.annotation}}}
			if diff := cmp.Diff(c.want, recall(dv, "now")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
