package populate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/pod"
)

// TestAnAttemptIsCountedOnce: a worker's end is told while it is not remembered, and never after.
func TestAnAttemptIsCountedOnce(t *testing.T) {
	s := newSim(dataVolume(nil), immediateClass)
	s.world.DataVolume.CreationTimestamp = metav1.Time{Time: s.now}
	s.settle()
	s.bind()
	s.settle()
	s.run(50, 100)
	if a, ok := Ended(s.world, s.now); ok {
		t.Fatalf("a worker that runs has ended: %+v", a)
	}
	started := s.now.Add(10 * time.Second)
	s.now = s.now.Add(40 * time.Second)
	s.world.Worker.Status.Phase = corev1.PodFailed
	s.world.Worker.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Message:   string(job.Result{Outcome: job.SourceFailed, ReadBytes: 7, WrittenBytes: -1}.Encode()),
		StartedAt: metav1.Time{Time: started}, FinishedAt: metav1.Time{Time: s.now},
	}}}}
	got, _ := Ended(s.world, s.now)
	want := Attempt{Pod: s.world.Worker.UID, Source: "http", Outcome: job.SourceFailed, ReadBytes: 7, Took: 30 * time.Second, Whole: 40 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s.settle()
	if a, ok := Ended(s.world, s.now); ok {
		t.Errorf("an end that is remembered is told again: %+v", a)
	}
}

func TestAWordThatIsNoOutcomeIsBroken(t *testing.T) {
	for given, want := range map[job.Outcome]job.Outcome{job.Succeeded: job.Succeeded, "Whatever": job.Broken, "": job.Broken} {
		if got := known(given); got != want {
			t.Errorf("%q is counted as %s", given, got)
		}
	}
}
