package cluster

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

const (
	// firewallMark is the comment on the lab's own iptables rules.
	firewallMark = "vmdisk-lab"
	// gateChain decides which pods may make connections already.
	gateChain = "VMDISK-LAB"
)

// cleanFirewall removes the iptables rules, ipsets and tracked connections of a lab, whoever made them. It takes every
// rule of Kubernetes for the lab's: a machine that is a node of another cluster can't be a lab.
func cleanFirewall(ctx context.Context) error {
	var errs []error
	for _, family := range []string{"iptables", "ip6tables"} {
		if _, err := exec.LookPath(family); err != nil { // never installed: the lab never ran here
			continue
		}
		for _, table := range []string{"filter", "nat", "mangle"} {
			errs = append(errs, cleanTable(ctx, family, table))
		}
	}
	if _, err := exec.LookPath("ipset"); err == nil {
		errs = append(errs, cleanSets(ctx))
	}
	if _, err := exec.LookPath("conntrack"); err == nil {
		// Old entries would send a new cluster's packets to an old pod's address. It fails when there are none.
		_, _ = run(ctx, "", "conntrack", "-D", "-s", podNetwork)
	}
	return errors.Join(errs...)
}

func cleanTable(ctx context.Context, family, table string) error {
	saved, err := run(ctx, "", family+"-save", "-c", "-t", table)
	if err != nil && family == "ip6tables" { // a kernel without IPv6 has no such table, and so nothing in it
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the %s table %s: %w", family, table, err)
	}
	kept, changed := withoutLab(saved)
	if !changed {
		return nil
	}
	if _, err := run(ctx, kept, family+"-restore", "-w", "-c", "-T", table); err != nil {
		return fmt.Errorf("remove the lab's rules from the %s table %s: %w", family, table, err)
	}
	return nil
}

// withoutLab drops the chains and rules of a lab from the text of iptables-save.
func withoutLab(saved string) (kept string, changed bool) {
	var lines []string
	for _, line := range strings.SplitAfter(saved, "\n") {
		if strings.Contains(line, "KUBE-") || strings.Contains(line, gateChain) || strings.Contains(line, "--comment "+firewallMark+" ") {
			changed = true
			continue
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ""), changed
}

// cleanSets removes the address sets of the firewall. One that is still referred to by another needs the other to go
// first, so it goes around until nothing changes.
func cleanSets(ctx context.Context) error {
	for {
		out, err := run(ctx, "", "ipset", "list", "-n")
		if err != nil {
			return fmt.Errorf("list address sets: %w", err)
		}
		var errs []error
		removed := 0
		for _, name := range labSets(out) {
			if _, err := run(ctx, "", "ipset", "destroy", name); err != nil {
				errs = append(errs, fmt.Errorf("remove address set %s: %w", name, err))
				continue
			}
			removed++
		}
		if len(errs) == 0 || removed == 0 {
			return errors.Join(errs...)
		}
	}
}

// labSets picks the firewall's sets from the output of ipset list -n.
func labSets(listed string) []string {
	var names []string
	for _, name := range strings.Fields(listed) {
		plain := strings.TrimPrefix(strings.TrimPrefix(name, "inet6:"), "TMP-")
		if strings.HasPrefix(plain, "KUBE-") || strings.HasPrefix(plain, "kube-router-") {
			names = append(names, name)
		}
	}
	return names
}
