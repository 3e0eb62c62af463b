package pods

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

func TestWhatIsToldOfPods(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns", UID: "u", Labels: map[string]string{"app": "dns"}}, Spec: corev1.PodSpec{NodeName: "node-a"}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.77.1.2",
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: "containers with unready status: [dns]"}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "dns", RestartCount: 2,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 20s"}}}},
	}
	event := func(uid types.UID, kind, reason string) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: reason}, Type: kind, Reason: reason, Message: "said",
			InvolvedObject: corev1.ObjectReference{UID: uid}}
	}
	client := fake.NewClientset(pod,
		event(pod.UID, corev1.EventTypeWarning, "FailedMount"), event(pod.UID, corev1.EventTypeNormal, "Pulled"), event("another", corev1.EventTypeWarning, "BackOff"))
	want := "\npod dns: Running on node-a at 10.77.1.2; containers with unready status: [dns]; CrashLoopBackOff back-off 20s; dns was started again 2 times\nFailedMount: said\nfake logs"
	if diff := cmp.Diff(want, Explain(t.Context(), client, "kube-system", "app=dns")); diff != "" {
		t.Error(diff)
	}
	if got := Explain(t.Context(), client, "kube-system", "app=other"); got != "\nit has no pods" {
		t.Errorf("of no pods it says %q", got)
	}
}
