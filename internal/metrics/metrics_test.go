package metrics

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/measure"
	"vmdisk.io/vmdisk/internal/plan/populate"
)

// cluster is a cache with one of everything.
type cluster struct{ client.Reader }

func (cluster) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	meta := metav1.ObjectMeta{Name: "a", UID: "uid"}
	switch list := into.(type) {
	case *cdiv1.CDIList:
		list.Items = []cdiv1.CDI{{ObjectMeta: meta}}
	case *cdiv1.DataVolumeList:
		list.Items = []cdiv1.DataVolume{{ObjectMeta: meta, Status: cdiv1.DataVolumeStatus{Phase: cdiv1.ImportInProgress, Progress: "41.75%"}}}
	case *storagev1.StorageClassList:
		list.Items = []storagev1.StorageClass{{ObjectMeta: meta}}
	case *cdiv1.StorageProfileList:
		list.Items = []cdiv1.StorageProfile{{ObjectMeta: meta}}
	default:
		return fmt.Errorf("%T is not expected", into)
	}
	return nil
}

func leads() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// served is what Prometheus gets: each metric as a row of docs/metrics.md without its meaning.
func served(t *testing.T, registry *prometheus.Registry) map[measure.Name]string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	rows := map[measure.Name]string{}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		rows[measure.Name(f.GetName())] = row(f.GetName(), strings.ToLower(f.GetType().String()), labels, f.GetHelp())
	}
	return rows
}

func row(name, kind string, labels []string, help string) string {
	labels = slices.Sorted(slices.Values(labels))
	quoted := "–"
	if len(labels) > 0 {
		quoted = "`" + strings.Join(labels, "`, `") + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |", name, kind, quoted, help)
}

func succeeded(pod string) populate.Attempt {
	return populate.Attempt{Pod: types.UID(pod), Source: "http", Outcome: job.Succeeded, ReadBytes: 10, WrittenBytes: 20, Took: 3 * time.Second, Whole: 5 * time.Second}
}

// TestTheDocsHaveEveryMetric: what is served, what is defined and what docs/metrics.md lists are the same.
func TestTheDocsHaveEveryMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	attempts, err := NewAttempts(registry)
	if err != nil {
		t.Fatal(err)
	}
	registry.MustRegister(&Disks{Reader: cluster{}, Leads: leads()})
	attempts.Count(succeeded("p"))
	defined := map[measure.Name]string{}
	for _, d := range Definitions() {
		defined[d.Name] = row(string(d.Name), d.Type, d.Labels, d.Help)
	}
	if diff := cmp.Diff(defined, served(t, registry)); diff != "" {
		t.Errorf("what is served isn't what is defined (-defined +served):\n%s", diff)
	}
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[measure.Name]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:vmdisk|kubevirt_cdi)_[a-z_]+)` \\|.*$").FindAllStringSubmatch(string(text), -1) {
		listed[measure.Name(m[1])] = m[0]
	}
	if diff := cmp.Diff(defined, listed); diff != "" {
		t.Errorf("what docs/metrics.md lists isn't what is defined (-defined +listed):\n%s", diff)
	}
}

type alert struct {
	Alert, Expr string
	Annotations map[string]string
}

// alerts are those of the PrometheusRule.
func alerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile("../../config/alerts/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rule struct {
		Spec struct {
			Groups []struct{ Rules []alert }
		}
	}
	if err := yaml.Unmarshal(text, &rule); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, g := range rule.Spec.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// TestAlertsRestOnWhatIsServed: each alert asks for metrics that exist, says what to do, and is in the docs.
func TestAlertsRestOnWhatIsServed(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"workqueue_depth": true} // controller-runtime's
	for _, d := range Definitions() {
		known[string(d.Name)] = true
	}
	documented := regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\|").FindAllStringSubmatch(string(text), -1)
	var listed, made []string
	for _, m := range documented {
		listed = append(listed, m[1])
	}
	for _, a := range alerts(t) {
		made = append(made, a.Alert)
		names := regexp.MustCompile(`\b(?:vmdisk|kubevirt_cdi|workqueue)_[a-z_]+`).FindAllString(a.Expr, -1)
		if len(names) == 0 {
			t.Errorf("alert %s asks for no metric", a.Alert)
		}
		for _, name := range names {
			if !known[name] {
				t.Errorf("alert %s asks for %s, which nobody serves", a.Alert, name)
			}
		}
		want := fmt.Sprintf("| `%s` | %s | %s |", a.Alert, strings.TrimSuffix(a.Annotations["summary"], "."), a.Annotations["runbook"])
		if a.Annotations["runbook"] == "" || !strings.Contains(string(text), want) {
			t.Errorf("docs/metrics.md has no row that says what alert %s means and what to do:\n%s", a.Alert, want)
		}
	}
	if diff := cmp.Diff(made, listed); diff != "" {
		t.Errorf("the alerts that docs/metrics.md lists (-made +listed):\n%s", diff)
	}
}

func TestAnAttemptIsCountedOnceThoughToldTwice(t *testing.T) {
	registry := prometheus.NewRegistry()
	attempts, err := NewAttempts(registry)
	if err != nil {
		t.Fatal(err)
	}
	attempts.Count(succeeded("p"))
	attempts.Count(succeeded("p"))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		got[f.GetName()] = m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
	}
	want := map[string]float64{string(attemptsTotal): 1, string(readTotal): 10, string(writtenTotal): 20, string(attemptDuration): 3, string(readyDuration): 5}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyTheLeaderMeasures(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&Disks{Reader: cluster{}, Leads: make(chan struct{})})
	if rows := served(t, registry); len(rows) != 0 {
		t.Errorf("a controller that doesn't lead serves %v", rows)
	}
}

// TestWhatIsCountedIsForgotten: a controller that runs for a year doesn't remember every pod.
func TestWhatIsCountedIsForgotten(t *testing.T) {
	attempts, err := NewAttempts(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * mostCounted {
		attempts.Count(succeeded(fmt.Sprint(i)))
	}
	if len(attempts.counted) != mostCounted || len(attempts.order) != mostCounted {
		t.Errorf("%d pods are remembered", len(attempts.counted))
	}
}
