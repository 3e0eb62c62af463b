package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Status writes what runs and how to use it. It reports whether the lab is usable; a lab that isn't is no error.
func Status(ctx context.Context, out io.Writer) (up bool, err error) {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tPID\tSTATE")
	running := 0
	for _, name := range componentNames() {
		pid, state := componentState(name)
		if pid != "-" {
			running++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", name, pid, state)
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	if running == 0 {
		fmt.Fprintf(out, "\nThe lab is down. Start it with: go run ./lab up\n")
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := clusterStatus(ctx, out); err != nil {
		fmt.Fprintf(out, "\nThe cluster is not usable: %v\nRepair it with: go run ./lab up\nLogs: %s\n", err, Logs())
		return false, nil
	}
	fmt.Fprintf(out, "\nUse it:\n  export KUBECONFIG=%s PATH=%s:$PATH\n  kubectl get pods -A\nLogs: %s\n", Kubeconfig(), BinDir(), Logs())
	return true, nil
}

func componentState(name string) (pid, state string) {
	r := running(name)
	if r == nil {
		return "-", "not running"
	}
	// One that is started again whenever it ends is the child of a shell, which sleeps for a moment in between.
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", r.PID, r.PID))
	if err == nil {
		for _, child := range strings.Fields(string(children)) {
			if command, err := os.ReadFile("/proc/" + child + "/comm"); err == nil && string(command) == "sleep\n" {
				return fmt.Sprint(r.PID), "ended, starting again: see " + logFile(name)
			}
		}
	}
	return fmt.Sprint(r.PID), "running"
}

func clusterStatus(ctx context.Context, out io.Writer) error {
	c, err := newClient()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "\nNODE\tREADY\tPODS")
	for _, name := range NodeNames() {
		node := &corev1.Node{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		pods := &corev1.PodList{}
		if err := c.List(ctx, pods); err != nil {
			return err
		}
		count := 0
		for i := range pods.Items {
			if pods.Items[i].Spec.NodeName == name {
				count++
			}
		}
		ready := "yes"
		if why := notReady(node); why != "" {
			ready = "no: " + why
		}
		fmt.Fprintf(table, "%s\t%s\t%d\n", name, ready, count)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return usable(ctx, c)
}
