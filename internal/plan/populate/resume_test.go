package populate

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
)

// At are progress lines of a worker.
func at(percent int64, checkpoint string) func(*sim) {
	return func(s *sim) {
		s.show(job.Progress{DoneBytes: percent, TotalBytes: 100, Checkpoint: checkpoint})
	}
}

func goesOnAt(resumed, percent int64, checkpoint string) func(*sim) {
	return func(s *sim) {
		s.show(job.Progress{DoneBytes: percent, TotalBytes: 100, ResumedAt: resumed, Checkpoint: checkpoint})
	}
}

func killed(s *sim)    { s.die(corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 137}) }
func outOfRoom(s *sim) { s.die(corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}) }

func deleted(s *sim) { s.do(deleteWorker(s)) }

// vanishes is a pod whose end nobody has seen.
func vanishes(s *sim) { s.world.Worker, s.world.Log = nil, nil }

func node(ready corev1.ConditionStatus) func(*sim) {
	return func(s *sim) {
		s.world.Log = nil
		s.world.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
		s.world.Node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: ready, Message: "Kubelet stopped posting node status.", LastTransitionTime: metav1.Time{Time: s.now},
		}}
	}
}

func retry(value string) func(*sim) {
	return func(s *sim) {
		s.world.DataVolume = s.world.DataVolume.DeepCopy()
		metav1.SetMetaDataAnnotation(&s.world.DataVolume.ObjectMeta, v1alpha1.RetryAnnotation, value)
	}
}

func readsElsewhere(s *sim) {
	s.world.DataVolume = s.world.DataVolume.DeepCopy()
	s.world.DataVolume.Spec.Source.HTTP.URL = "https://mirror.example/debian.qcow2"
}

// failureStories are those of attempts that don't end well, and of what the next makes of them.
func failureStories() map[string]story {
	plain := func() *sim { return newSim(dataVolume(nil), immediateClass) }
	begins := []line{{"created", created}, {"the volume is made", binds}}
	ends := []line{{"it succeeds", succeeds}, {"its pod goes", goes}}
	tale := func(middle ...line) story {
		return story{plain, append(append(append([]line{}, begins...), middle...), ends...)}
	}
	return map[string]story{
		"worker-is-killed-three-times": tale(
			line{"the worker runs", at(20, "A")}, line{"seconds later", at(40, "B")}, line{"kill -9", killed}, line{"its pod goes", goes},
			line{"five seconds later", later(5 * time.Second)}, line{"the second worker goes on", goesOnAt(38, 50, "C")}, line{"out of memory", outOfRoom}, line{"its pod goes", goes},
			line{"ten seconds later", later(10 * time.Second)}, line{"the third worker has told no checkpoint yet", goesOnAt(48, 52, "")}, line{"kill -9", killed}, line{"its pod goes", goes},
			line{"twenty seconds later", later(20 * time.Second)}, line{"the fourth worker goes on", goesOnAt(48, 60, "D")},
		),
		"worker-starts-over": tale(
			line{"the worker runs", at(40, "A")}, line{"somebody deletes the pod", deleted}, line{"the worker stops", func(s *sim) {
				s.end(job.Result{Outcome: job.Interrupted, Reason: "Interrupted", Message: "the worker was told to stop", Checkpoint: "B"})
			}}, line{"its pod goes", goes},
			line{"the second worker can't go on", func(s *sim) {
				s.run(0, 0)
				s.end(job.Result{Outcome: job.Interrupted, Reason: "StartsOver", Message: "the import starts over: the source has changed", StartsOver: "the source has changed"})
			}}, line{"its pod goes", goes},
			line{"the third worker runs", at(5, "")},
		),
		"source-is-changed-between-attempts": tale(
			line{"the worker runs", at(40, "A")}, line{"404", func(s *sim) { r := notFound; r.Checkpoint = "B"; s.end(r) }}, line{"its pod goes", goes},
			line{"somebody names another source", readsElsewhere}, line{"five seconds later", later(5 * time.Second)}, line{"the second worker runs", at(5, "")},
		),
		"node-is-lost": tale(
			line{"the worker runs", at(20, "A")}, line{"ten seconds later", later(10 * time.Second)}, line{"", at(30, "B")},
			line{"twenty seconds later", later(20 * time.Second)}, line{"", at(40, "C")}, line{"its node stops answering", node(corev1.ConditionUnknown)},
			line{"five minutes later", later(5 * time.Minute)}, line{"Kubernetes deletes the pod", deleted}, line{"the node is deleted, and the pod with it", vanishes},
			line{"the second worker runs elsewhere", func(s *sim) { s.world.Node = nil; goesOnAt(38, 45, "D")(s) }},
		),
		"kubelet-is-away": tale(
			line{"the worker runs", at(40, "A")}, line{"its node stops answering", node(corev1.ConditionUnknown)},
			line{"five minutes later", later(5 * time.Minute)}, line{"the node is back", func(s *sim) { node(corev1.ConditionTrue)(s); at(95, "B")(s) }},
		),
		"worker-is-evicted": tale(
			line{"the worker runs", at(40, "A")}, line{"the node has no room", func(s *sim) {
				killed(s)
				s.world.Worker.Status.Reason, s.world.Worker.Status.Message = "Evicted", "The node was low on resource: ephemeral-storage."
			}}, line{"its pod goes", goes},
			line{"the second worker goes on", goesOnAt(38, 45, "B")},
		),
		"worker-hangs": tale(
			line{"the worker runs", at(40, "A")}, line{"its patience is over, and it doesn't end", later(10 * time.Minute)}, line{"a minute later", later(time.Minute)},
			line{"its pod goes at last", goes}, line{"five seconds later", later(5 * time.Second)}, line{"the second worker goes on", goesOnAt(38, 45, "B")},
		),
		"retry-after-failed": tale(
			line{"the worker runs", half}, line{"the image needs another file", refuses}, line{"its pod goes", goes}, line{"an hour later", later(time.Hour)},
			line{"somebody asks for a retry", retry("1")}, line{"the second worker runs", half}, line{"it is refused again", refuses}, line{"its pod goes", goes},
			line{"somebody asks once more", retry("2")}, line{"the third worker runs", half},
		),
		"retry-before-its-time": tale(
			line{"the worker runs", half}, line{"404", fails}, line{"its pod goes", goes},
			line{"somebody asks for a retry", retry("1")}, line{"the second worker runs", half}, line{"404", fails}, line{"its pod goes", goes},
			line{"ten seconds later", later(10 * time.Second)}, line{"the third worker runs", half}, line{"somebody asks while it runs", retry("2")},
			line{"404", fails}, line{"its pod goes", goes}, line{"twenty seconds later", later(20 * time.Second)}, line{"the fourth worker runs", half},
		),
	}
}

func TestFromWhereTheNextAttemptGoesOn(t *testing.T) {
	old, newer := &Kept{Checkpoint: "A", Volume: "pv"}, &Kept{Checkpoint: "B", Volume: "pv"}
	type goesOn struct {
		Kept       *Kept
		StartsOver string
	}
	for name, c := range map[string]struct {
		result job.Result
		newest *Kept
		want   goesOn
	}{
		"from its newest checkpoint":                        {job.Result{Outcome: job.SourceFailed}, newer, goesOn{newer, ""}},
		"from an older one, if it told none":                {job.Result{Outcome: job.Broken, Reason: "OOMKilled"}, nil, goesOn{old, ""}},
		"from nothing once it is done":                      {job.Result{Outcome: job.Succeeded}, newer, goesOn{}},
		"from nothing if the content is refused":            {job.Result{Outcome: job.Refused}, newer, goesOn{}},
		"not from what the worker couldn't use":             {job.Result{Outcome: job.Interrupted, StartsOver: "why"}, nil, goesOn{nil, "why"}},
		"not from where a worker breaks by its own fault":   {job.Result{Outcome: job.Broken, Reason: job.InternalError}, nil, goesOn{nil, "the last worker failed by a fault of its own when it went on"}},
		"from behind there, if it came further before that": {job.Result{Outcome: job.Broken, Reason: job.InternalError}, newer, goesOn{newer, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			kept, over := Memory{Kept: old}.goesOn(c.result, c.newest)
			if diff := cmp.Diff(c.want, goesOn{kept, over}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatIsKeptCountsForOneSourceAndVolume(t *testing.T) {
	source := job.Source{HTTP: &job.HTTP{URL: "https://x/y", Checksum: "md5:00"}}
	other := job.Source{HTTP: &job.HTTP{URL: "https://x/z", Checksum: "md5:00"}}
	kept := &Kept{Checkpoint: "A", Volume: "pv"}
	before := Memory{Source: digest(source), Kept: kept}
	for name, c := range map[string]struct {
		memory Memory
		source job.Source
		volume string
		want   Memory
	}{
		"the same ones":   {before, source, "pv", before},
		"another source":  {before, other, "pv", Memory{Source: digest(other), StartsOver: "the disk's source was changed"}},
		"another volume":  {before, source, "pv-2", Memory{Source: digest(source), StartsOver: "the claim has another volume than before"}},
		"nothing is kept": {Memory{Source: digest(source)}, other, "pv", Memory{Source: digest(other)}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.memory.begins(c.source, c.volume)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTheMemoryIsWrittenNoMoreOftenThanNeeded has a worker that tells a checkpoint each second for ten minutes.
func TestTheMemoryIsWrittenNoMoreOftenThanNeeded(t *testing.T) {
	s := newSim(dataVolume(nil), immediateClass)
	s.settle()
	s.bind()
	s.settle()
	before := s.acted
	const seconds = 600
	for i := range int64(seconds) {
		s.show(job.Progress{DoneBytes: i, TotalBytes: seconds, Checkpoint: string(rune('A' + i))})
		s.settle()
		s.now = s.now.Add(time.Second)
	}
	if n := s.acted - before; n != seconds/30 {
		t.Errorf("it was written %d times in %d seconds, want every 30", n, seconds)
	}
}

func TestALongMemoryStaysSmall(t *testing.T) {
	s := newSim(dataVolume(nil), immediateClass)
	long := make([]byte, 1<<10)
	for i := range long {
		long[i] = '"'
	}
	for _, happens := range []func(*sim){created, binds, at(40, string(long)), killed} {
		happens(s)
		s.settle()
	}
	memory := s.world.DataVolume.Annotations[v1alpha1.MemoryAnnotation]
	if len(memory) > 4<<10 || !json.Valid([]byte(memory)) {
		t.Errorf("%d bytes: %s", len(memory), memory)
	}
}

func TestWhichLogsAreRead(t *testing.T) {
	run := []func(*sim){created, binds, at(40, "A")}
	for name, c := range map[string]struct {
		happens []func(*sim)
		want    bool
	}{
		"of no worker":                             {[]func(*sim){created, binds}, false},
		"of one that runs":                         {run, true},
		"of one on a node that doesn't answer":     {append(run[:3:3], node(corev1.ConditionUnknown)), false},
		"of one that has ended with a result":      {append(run[:3:3], fails), false},
		"of one that was killed":                   {append(run[:3:3], killed), true},
		"of one whose end is remembered already":   {append(run[:3:3], func(s *sim) { killed(s); s.settle() }), false},
		"of one that is on its way, still writing": {append(run[:3:3], deleted), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(dataVolume(nil), immediateClass)
			for _, happens := range c.happens {
				s.settle()
				happens(s)
			}
			if got := s.world.WantsLog(); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestALogThatCannotBeReadEndsNoWorker has a cluster in which the API server doesn't reach the kubelets.
func TestALogThatCannotBeReadEndsNoWorker(t *testing.T) {
	s := newSim(dataVolume(nil), immediateClass)
	for _, happens := range []func(*sim){created, binds, half, func(s *sim) { s.world.Log = nil }, later(24 * time.Hour)} {
		happens(s)
		s.settle()
	}
	if s.world.Worker.DeletionTimestamp != nil {
		t.Error("the worker was deleted")
	}
}
