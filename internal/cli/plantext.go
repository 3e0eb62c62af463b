package cli

import (
	"fmt"
	"io"
	"strings"

	"vmdisk.io/vmdisk/internal/plan/clone"
)

// writePlan explains one plan. A disk that is made already is explained as if it were made now.
func writePlan(out io.Writer, r clone.Request, cluster clone.Cluster, o clone.Options) error {
	plan := clone.Of(r, cluster, o)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s (%s)\n", plan.Disk, headline(plan), plan.Reason)
	fmt.Fprintf(&b, "  %s.\n", sentence(plan.Message))
	if plan.Reason == clone.DiskExists {
		r.AsNew = true
		if plan = clone.Of(r, cluster, o); plan.Reason == clone.NotAClone {
			_, err := io.WriteString(out, b.String())
			return err
		}
		fmt.Fprintf(&b, "\nWere it made now: %s (%s)\n  %s.\n", headline(plan), plan.Reason, sentence(plan.Message))
	}
	details(&b, plan)
	writeAdmission(&b, plan, o.Policy)
	section(&b, "It rests on", len(plan.Facts), func(i int) string {
		return fmt.Sprintf("%-9s %s", plan.Facts[i].Name, plan.Facts[i].Text)
	})
	section(&b, "What could be changed", len(plan.Remedies), func(i int) string { return "- " + sentence(plan.Remedies[i]) + "." })
	_, err := io.WriteString(out, b.String())
	return err
}

// headline is the strategy in words.
func headline(p clone.Plan) string {
	switch p.Strategy {
	case clone.HostAssisted:
		return "host-assisted copy"
	case clone.Wait:
		if p.RestsReady {
			return "rests until its consumer comes"
		}
		return "waits"
	case clone.Reject:
		return "can't be made"
	case clone.None:
		return "no clone"
	default:
		return string(p.Strategy)
	}
}

// details are what follows from the strategy, and what it was preferred to.
func details(b *strings.Builder, p clone.Plan) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, "  %-22s %s\n", name, value)
		}
	}
	line("then:", string(p.Then))
	line("if that fails:", string(p.Fallback))
	line("kept on nodes:", strings.Join(p.Nodes, ", "))
	line("best of all on:", preferred(p.Placement))
	line("StorageClass:", p.StorageClass)
	line("VolumeSnapshotClass:", p.VolumeSnapshotClass)
	section(b, "Passed over", len(p.Trace), func(i int) string {
		return fmt.Sprintf("%-9s %s: %s.", p.Trace[i].Strategy, p.Trace[i].Reason, p.Trace[i].Message)
	})
}

// preferred are the nodes that the disk's workers had better run on, the best first.
func preferred(p clone.Placement) string {
	var nodes []string
	for _, n := range p.Preferred {
		nodes = append(nodes, n.Node)
	}
	if nodes == nil {
		return ""
	}
	return strings.Join(nodes, ", ") + " (room for the volume, or fewer clones of the same source)"
}

// writeAdmission prints what the API server answers when the disk is created, here and where the policy is the other one.
func writeAdmission(b *strings.Builder, p clone.Plan, policy clone.Policy) {
	if policy.Engine == clone.EngineCDI && p.Strategy != clone.Reject {
		fmt.Fprint(b, "\nWith --engine=cdi CDI makes the disk: this is what vmdisk would do, and CDI falls back in fewer cases.\n")
	}
	if p.Finding == nil || policy.Refuses {
		return
	}
	refusing := clone.Policy{Engine: clone.EngineVMDisk, Refuses: true}
	fmt.Fprintf(b, "\nAt admission (%s) it is let in with a warning:\n  %s.\nWith --cross-class-clone=refuse, or --engine=cdi, it is refused:\n  %s.\n",
		p.Refusal, sentence(p.Admission(policy).Message), sentence(p.Admission(refusing).Message))
}

func section(b *strings.Builder, title string, n int, line func(int) string) {
	if n == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for i := range n {
		fmt.Fprintf(b, "  %s\n", line(i))
	}
}

// sentence is a text with a capital, and without a full stop.
func sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".")
}
