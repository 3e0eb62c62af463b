package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"vmdisk.io/vmdisk/internal/plan/check"
)

// checkOptions are the flags of "vmdisk check".
type checkOptions struct {
	access
	tenant string
	output string
	stdout io.Writer
}

const checkHelp = `Say whether a cluster is fit for disks: its kinds, vmdisk's controller and webhooks, another controller of the same API, StorageClasses
and what is known of them, and with -n the quotas and limits of a namespace.

It only reads. What you may not read is told as unknown. The exit code is 1 if there is a problem; warnings don't count.`

func newCheckCommand() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether a cluster is fit for disks",
		Long:  checkHelp,
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.stdout = cmd.OutOrStdout()
			return runCheck(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.tenant, "namespace", "n", "", "namespace whose quotas and limits are checked, too")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	o.flags(cmd)
	return cmd
}

// checked is what is printed as JSON.
type checked struct {
	Problems int             `json:"problems"`
	Warnings int             `json:"warnings"`
	Unknown  int             `json:"unknown"`
	Findings []check.Finding `json:"findings"`
}

func runCheck(ctx context.Context, o checkOptions) error {
	if o.output != "text" && o.output != "json" {
		return usage("--output is %q: set it to text or json", o.output)
	}
	cluster, err := o.connect()
	if err != nil {
		return err
	}
	i := inspector{reader: cluster.reader, seen: check.Seen{At: time.Now(), Tenant: o.tenant, Unread: map[check.Kind]string{}}}
	if err := i.inspect(ctx); err != nil {
		return err
	}
	findings := check.Of(i.seen)
	if err := o.print(findings); err != nil {
		return fmt.Errorf("print the findings: %w", err)
	}
	if check.Count(findings, check.Problem) > 0 {
		return &stateExit{exitFailed}
	}
	return nil
}

func (o *checkOptions) print(findings []check.Finding) error {
	if o.output == "text" {
		_, err := io.WriteString(o.stdout, check.Text(findings))
		return err
	}
	e := json.NewEncoder(o.stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(checked{
		Problems: check.Count(findings, check.Problem), Warnings: check.Count(findings, check.Warning),
		Unknown: check.Count(findings, check.Unknown), Findings: findings,
	})
}
