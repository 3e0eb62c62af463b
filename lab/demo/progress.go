package demo

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
)

// showProgress prints a row whenever the disk's status changes, until its bytes are there. A disk that failed for good
// is an error with its own words.
func showProgress(ctx context.Context, c client.WithWatch, key client.ObjectKey, start time.Time, out io.Writer) (*v1alpha1.VMDisk, error) {
	var last string
	var ready *v1alpha1.VMDisk
	only := []client.ListOption{client.InNamespace(key.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", key.Name)}}
	err := follow(ctx, c, &v1alpha1.VMDiskList{}, only, func() {}, func(event watch.EventType, object client.Object) error {
		disk := object.(*v1alpha1.VMDisk)
		if event == watch.Deleted {
			return fmt.Errorf("somebody deleted the disk %s", key)
		}
		if now := row(disk); now != last {
			last = now
			fmt.Fprintf(out, "  %5.1fs  %s\n", time.Since(start).Seconds(), now)
		}
		switch {
		case meta.IsStatusConditionTrue(disk.Status.Conditions, v1alpha1.ConditionWorkloadsReady):
			ready = disk
			return errEnough
		case disk.Status.Phase == "Failed":
			return fmt.Errorf("the disk %s failed: %s", key, why(disk))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the disk: %w", err)
	}
	return ready, nil
}

// row is what a reader wants to know of a disk at one moment.
func row(disk *v1alpha1.VMDisk) string {
	phase := disk.Status.Phase
	if phase == "" {
		phase = "-"
	}
	text := fmt.Sprintf("%-18s %s %7s", phase, bar(disk.Status.Progress), disk.Status.Progress)
	if reason := why(disk); reason != "" {
		text += "  " + reason
	}
	return strings.TrimRight(text, " ")
}

// why is the disk's own explanation of why it isn't ready.
func why(disk *v1alpha1.VMDisk) string {
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionWorkloadsReady} {
		condition := meta.FindStatusCondition(disk.Status.Conditions, kind)
		if condition != nil && condition.Status != metav1.ConditionTrue {
			return condition.Message
		}
	}
	return ""
}

// barWidth is the bar's width in characters.
const barWidth = 20

// bar draws a progress such as "41.75%"; anything else, also "N/A", is an empty bar.
func bar(progress string) string {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(progress, "%"), 64)
	if err != nil || percent < 0 {
		percent = 0
	}
	full := int(min(percent, 100) / 100 * barWidth)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", barWidth-full) + "]"
}
