package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"vmdisk.io/vmdisk/internal/plan/status"
)

// statusOptions are the arguments and flags of "vmdisk status".
type statusOptions struct {
	access
	name       string
	dataVolume bool
	watch      bool
	every      time.Duration
	output     string
	stdout     io.Writer
}

const statusHelp = `Show on one screen what a disk is doing, since when, how far it is, what it waits for, and what to do.

NAME is a VMDisk, else a DataVolume. What you may not read is left out, and said.`

func newStatusCommand() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show what a disk is doing, how far it is, and what it waits for",
		Long:  statusHelp + statusExitHelp(),
		Args:  arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name, o.stdout = args[0], cmd.OutOrStdout()
			return runStatus(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the disk; empty: the kubeconfig's")
	f.BoolVar(&o.dataVolume, "datavolume", false, "NAME is a DataVolume, even if there is a VMDisk of that name")
	f.BoolVarP(&o.watch, "watch", "w", false, "show it again and again, until the disk is ready or has failed")
	f.DurationVar(&o.every, "every", 2*time.Second, "with --watch: how often")
	f.StringVarP(&o.output, "output", "o", "text", "text or json; with --watch a JSON object for each look")
	o.flags(cmd)
	return cmd
}

func runStatus(ctx context.Context, o statusOptions) error {
	switch {
	case o.output != "text" && o.output != "json":
		return usage("--output is %q: set it to text or json", o.output)
	case o.every < time.Second:
		return usage("--every is %s: a worker tells its progress once a second, so set it to 1s or more", o.every)
	}
	cluster, err := o.connect()
	if err != nil {
		return err
	}
	look := func(ctx context.Context) (status.Seen, error) { return o.look(ctx, cluster) }
	return o.show(ctx, look)
}

// show prints what is seen: once, or with --watch until the disk is at rest. Its error tells how the disk is.
func (o *statusOptions) show(ctx context.Context, look func(context.Context) (status.Seen, error)) error {
	var before *status.Seen
	for {
		now, err := look(ctx)
		if err != nil {
			return err
		}
		report := status.Of(now, before)
		if err := o.print(report, before == nil); err != nil {
			return fmt.Errorf("print the status: %w", err)
		}
		if !o.watch || report.State == status.Ready || report.State == status.Failed {
			return stateError(report.State)
		}
		before = &now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(o.every):
		}
	}
}

// print prints a report. On a terminal a later one takes the earlier one's place.
func (o *statusOptions) print(r status.Report, first bool) error {
	if o.output == "json" {
		e := json.NewEncoder(o.stdout)
		if !o.watch {
			e.SetIndent("", "  ")
		}
		e.SetEscapeHTML(false)
		return e.Encode(r)
	}
	between := ""
	if f, ok := o.stdout.(interface{ Fd() uintptr }); o.watch && ok && term.IsTerminal(int(f.Fd())) {
		between = "\033[H\033[2J"
	} else if !first {
		between = "\n"
	}
	_, err := io.WriteString(o.stdout, between+r.Text())
	return err
}

// stateExit is an exit code that says how a disk is. There is nothing to add in words.
type stateExit struct{ code int }

func (e *stateExit) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func stateError(s status.State) error {
	switch s {
	case status.Ready:
		return nil
	case status.Failed:
		return &stateExit{exitDiskFailed}
	default:
		return &stateExit{exitDiskNotReady}
	}
}
