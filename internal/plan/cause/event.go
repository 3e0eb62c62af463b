package cause

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LastSeen is when an event happened last. The two event APIs keep that in different fields.
func LastSeen(e corev1.Event) metav1.Time {
	t := e.LastTimestamp
	if e.Series != nil {
		t = metav1.Time(e.Series.LastObservedTime)
	}
	return cmp.Or(t, metav1.Time(e.EventTime), e.CreationTimestamp)
}
