package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// podRange is where a node's pods get their addresses from: a part of podNetwork, which is one bridge for both nodes.
type podRange struct{ cidr, first, last string }

func podRanges() map[string]podRange {
	return map[string]podRange{
		"node-a": {"10.77.1.0/24", "10.77.1.2", "10.77.1.254"},
		"node-b": {"10.77.2.0/24", "10.77.2.2", "10.77.2.254"},
	}
}

// sysctls that pods' traffic and two kubelets need, with the least value that will do.
func sysctls() map[string]int64 {
	return map[string]int64{
		"net/ipv4/ip_forward": 1,
		// Pods of both nodes sit on one bridge: without this, traffic between them would pass the firewall unseen.
		"net/bridge/bridge-nf-call-iptables": 1,
		"fs/inotify/max_user_instances":      8192,
		"fs/inotify/max_user_watches":        524288,
	}
}

// raise sets a kernel's parameter, unless it is as high already: what a machine allows beyond that stays as it is.
func raise(path string, least int64) error {
	name := strings.ReplaceAll(path, "/", ".")
	path = filepath.Join("/proc/sys", path)
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the kernel's %s: %w", name, err)
	}
	if now, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && now >= least {
		return nil
	}
	if err := os.WriteFile(path, []byte(strconv.FormatInt(least, 10)), 0); err != nil {
		return fmt.Errorf("set the kernel's %s to %d: %w", name, least, err)
	}
	return nil
}

// makeNetwork makes the pods' bridge with the host's address on it, and lets pods reach the world behind the host.
func makeNetwork(ctx context.Context) error {
	if _, err := os.Stat("/proc/sys/net/bridge"); errors.Is(err, fs.ErrNotExist) {
		if _, err := run(ctx, "", "modprobe", "br_netfilter"); err != nil {
			return fmt.Errorf("make the kernel filter traffic on bridges: %w", err)
		}
	}
	for path, least := range sysctls() {
		if err := raise(path, least); err != nil {
			return err
		}
	}
	if _, err := os.Stat("/sys/class/net/" + bridge); errors.Is(err, fs.ErrNotExist) {
		if _, err := run(ctx, "", "ip", "link", "add", bridge, "type", "bridge"); err != nil {
			return fmt.Errorf("make the pods' bridge: %w", err)
		}
	}
	_, err := run(ctx, "", "ip", "address", "replace", hostAddress+"/16", "dev", bridge)
	if err == nil {
		_, err = run(ctx, "", "ip", "link", "set", bridge, "up")
	}
	if err != nil {
		return fmt.Errorf("set up the pods' bridge: %w", err)
	}
	if _, err := run(ctx, "", "iptables", "-w", "-t", "mangle", "-S", gateChain); err != nil {
		if _, err := run(ctx, "", "iptables", "-w", "-t", "mangle", "-N", gateChain); err != nil {
			return fmt.Errorf("make the chain that keeps new pods back: %w", err)
		}
	}
	for _, rule := range ownRules() {
		if _, err := run(ctx, "", "iptables", append([]string{"-w", "-t", rule[0], "-C"}, rule[1:]...)...); err == nil {
			continue
		}
		if _, err := run(ctx, "", "iptables", append([]string{"-w", "-t", rule[0], "-A"}, rule[1:]...)...); err != nil {
			return fmt.Errorf("set up the lab's packet filter: %w", err)
		}
	}
	return nil
}

// ownRules are the lab's own iptables rules: the table, and what comes after -A.
//
// Pods reach addresses outside of the machine through its own. And new connections of a pod are dropped until package
// gate has put its address before the last rule; TCP tries again after a second. Questions to a DNS are let through,
// because clients try those again only after five. The table mangle comes before the firewall's own rules.
func ownRules() [][]string {
	return [][]string{
		{"nat", "POSTROUTING", "-s", podNetwork, "!", "-d", podNetwork, "-m", "comment", "--comment", firewallMark, "-j", "MASQUERADE"},
		{"mangle", gateChain, "-p", "udp", "-m", "udp", "--dport", "53", "-j", "ACCEPT"},
		{"mangle", gateChain, "-j", "DROP"},
		{"mangle", "FORWARD", "-i", bridge, "-m", "conntrack", "--ctstate", "NEW", "-j", gateChain},
		{"mangle", "INPUT", "-i", bridge, "-m", "conntrack", "--ctstate", "NEW", "-j", gateChain},
	}
}

// cniConfig is the network configuration of one node's containerd.
func cniConfig(node string) (string, error) {
	r := podRanges()[node]
	encoded, err := json.MarshalIndent(map[string]any{
		"cniVersion": "0.4.0",
		"name":       networkName(node),
		"plugins": []map[string]any{{
			"type":        "bridge",
			"bridge":      bridge,
			"isGateway":   true,
			"hairpinMode": true, // a pod may reach itself through its Service
			"ipam": map[string]any{
				"type":    "host-local",
				"dataDir": within(node, "addresses"),
				"ranges":  [][]map[string]string{{{"subnet": podNetwork, "rangeStart": r.first, "rangeEnd": r.last, "gateway": hostAddress}}},
				"routes":  []map[string]string{{"dst": "0.0.0.0/0"}},
			},
		}},
	}, "", "  ")
	return string(encoded), err
}

func networkName(node string) string { return labName() + "-" + node }

// removeNetwork takes away what makeNetwork, the network plugins, kube-proxy, the firewall and the kubelets left in the
// kernel and in the plugins' own directory. The sysctls stay: others may rely on them by now.
func removeNetwork(ctx context.Context) error {
	var errs []error
	if _, err := os.Stat("/sys/class/net/" + bridge); err == nil {
		if _, err := run(ctx, "", "ip", "link", "del", bridge); err != nil {
			errs = append(errs, fmt.Errorf("remove the pods' bridge: %w", err))
		}
	}
	errs = append(errs, cleanFirewall(ctx))
	for _, node := range NodeNames() {
		results, err := filepath.Glob("/var/lib/cni/results/" + networkName(node) + "-*")
		errs = append(errs, err)
		for _, path := range results {
			errs = append(errs, removeFile(path))
		}
	}
	// The kubelets also link their containers' logs here.
	links, err := filepath.Glob("/var/log/containers/*.log")
	errs = append(errs, err)
	for _, path := range links {
		if to, err := os.Readlink(path); err == nil && strings.HasPrefix(to, Dir()+"/") {
			errs = append(errs, removeFile(path))
		}
	}
	return errors.Join(errs...)
}

// run runs a program to its end and returns what it wrote. The error holds what it complained about.
func run(ctx context.Context, stdin string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, complaint strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(complaint.String()+out.String()))
	}
	return out.String(), nil
}
