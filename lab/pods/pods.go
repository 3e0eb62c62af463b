// Package pods tells what pods say of themselves, for whoever has waited for them in vain. It must not know what is waited for.
package pods

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// lines is how much of each log is told.
const lines = 10

// Explain is what the pods of a selector, the warnings about them, and their last words say. It begins with a line's end; it is empty where
// there is nothing to say. It also works when the context has ended, as it has where the time has run out.
func Explain(ctx context.Context, c kubernetes.Interface, namespace, selector string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	found, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Sprintf("\nlist its pods: %v", err)
	}
	if len(found.Items) == 0 {
		return "\nit has no pods"
	}
	events, err := c.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		events = &corev1.EventList{} // the rest is worth telling without them
	}
	var out strings.Builder
	for i := range found.Items {
		pod := &found.Items[i]
		out.WriteString(state(pod))
		for _, e := range events.Items {
			if e.InvolvedObject.UID == pod.UID && e.Type == corev1.EventTypeWarning {
				fmt.Fprintf(&out, "\n%s: %s", e.Reason, e.Message)
			}
		}
		log, err := c.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: new(int64(lines))}).DoRaw(ctx)
		if err != nil {
			fmt.Fprintf(&out, "\nits log can't be read: %v", err)
		} else if len(log) > 0 {
			fmt.Fprintf(&out, "\n%s", log)
		}
	}
	return out.String()
}

// state is a line with what a pod's status has to say.
func state(pod *corev1.Pod) string {
	var out strings.Builder
	fmt.Fprintf(&out, "\npod %s: %s", pod.Name, pod.Status.Phase)
	if pod.Spec.NodeName != "" {
		fmt.Fprintf(&out, " on %s", pod.Spec.NodeName)
	}
	if pod.Status.PodIP != "" {
		fmt.Fprintf(&out, " at %s", pod.Status.PodIP)
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Status != corev1.ConditionTrue && condition.Message != "" {
			fmt.Fprintf(&out, "; %s", condition.Message)
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil {
			fmt.Fprintf(&out, "; %s %s", waiting.Reason, waiting.Message)
		}
		if container.RestartCount > 0 {
			fmt.Fprintf(&out, "; %s was started again %d times", container.Name, container.RestartCount)
		}
	}
	return out.String()
}
