//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/lab/cluster"
)

// kubectl is what a person sees who types the same. What it can't answer is part of the answer.
func kubectl(args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(cluster.BinDir(), "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s(%v)\n", out, err)
	}
	return string(out)
}

// story tells all that a person would look at: the objects, what they say, and the logs.
func (n *tenant) story() string {
	var s strings.Builder
	section := func(title, text string) { fmt.Fprintf(&s, "--- %s\n%s\n", title, strings.TrimRight(text, "\n")) }
	section("objects", kubectl("-n", n.name, "get", "vmdisk,datavolume,pvc,pod,volumesnapshot,resourcequota", "-o", "wide"))
	section("disks", kubectl("-n", n.name, "describe", "vmdisk,datavolume"))
	section("claims and pods", kubectl("-n", n.name, "describe", "pvc,pod"))
	section("snapshots", kubectl("-n", n.name, "describe", "volumesnapshot"))
	section("events", kubectl("-n", n.name, "get", "events", "--sort-by=.metadata.creationTimestamp"))
	for name := range strings.FieldsSeq(kubectl("-n", n.name, "get", "pods", "-o", "name")) {
		section("log of "+name, kubectl("-n", n.name, "logs", "--tail=20", name))
	}
	section("log of the controller", kubectl("-n", "vmdisk", "logs", "--tail=60", "deployment/vmdisk-controller"))
	return s.String()
}

// tellsOnce checks that the events of a disk tell each thing once, the end last.
func (n *tenant) tellsOnce(disk string) {
	n.t.Helper()
	about := client.MatchingFields{"involvedObject.uid": string(get(n, disk, &v1alpha1.VMDisk{}).UID)}
	var told, repeated []string
	n.eventually(soon, "the events tell of the end", func() error {
		events := list(n, &corev1.EventList{}, about).Items
		slices.SortStableFunc(events, func(a, b corev1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
		told, repeated = nil, nil
		for _, e := range events {
			told = append(told, e.Reason+": "+e.Message)
			if e.Series != nil {
				repeated = append(repeated, fmt.Sprintf("%s: %s (%d times)", e.Reason, e.Message, e.Series.Count))
			}
		}
		if len(events) == 0 || events[len(events)-1].Reason != "Succeeded" {
			return fmt.Errorf("they are %q", told)
		}
		return nil
	})
	if len(repeated) > 0 || len(told) > len(slices.Compact(slices.Sorted(slices.Values(told)))) {
		n.t.Errorf("the events repeat themselves:\n%s", strings.Join(append(told, repeated...), "\n"))
	}
}

// keepStory writes what `kubectl describe vmdisk` tells to the directory that E2E_STORIES names, if it names one.
func (n *tenant) keepStory(disk string) {
	n.t.Helper()
	dir := os.Getenv("E2E_STORIES")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.t.Fatalf("keep the story: %v", err)
	}
	file := filepath.Join(dir, strings.NewReplacer("/", "-").Replace(strings.TrimPrefix(n.t.Name(), "Test"))+".txt")
	text := kubectl("-n", n.name, "get", "vmdisk", disk, "-o", "wide") + "\n" + kubectl("-n", n.name, "describe", "vmdisk", disk)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		n.t.Fatalf("keep the story: %v", err)
	}
}
