// Package gate keeps pods off the network until the firewall has their NetworkPolicies in place.
//
// The firewall learns of a pod's address when the kubelet reports it, and the pod's programs run by then. A connection
// that is made before the rules are there is never looked at again, so a policy would hold or not by chance. The lab's
// packet filter therefore sends new connections through a chain that ends by dropping them, and this package puts a rule
// that accepts a pod's address into it once the firewall has rules for the pod. (A chain and not an ipset, because the
// firewall writes every ipset of the machine back as it was a moment before.) It knows pods' addresses and the firewall's chain,
// and must not know any policy.
package gate

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	// firewallChain is where the firewall has rules for each pod that it knows.
	firewallChain = "KUBE-ROUTER-FORWARD"
	// pause is how long to wait before looking again whether the firewall knows a pod. Nothing can wake us for that, and
	// it only happens in the moment after a pod's start.
	pause = 100 * time.Millisecond
)

// Run keeps the rules at the head of a chain of the table mangle equal to the addresses of the pods that the firewall
// knows, until the context ends; then it returns nil. The chain must exist.
func Run(ctx context.Context, client kubernetes.Interface, chain string) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default: // a look is due already
		}
	}
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake() }, UpdateFunc: func(any, any) { wake() }, DeleteFunc: func(any) { wake() },
	})
	if err != nil {
		return fmt.Errorf("follow pods: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), pods.Informer().HasSynced) {
		return nil // only the context's end keeps it from syncing
	}
	for {
		all, err := pods.Lister().List(labels.Everything())
		if err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		waiting, err := look(ctx, chain, addresses(all))
		if err != nil && ctx.Err() == nil {
			return err
		}
		var again <-chan time.Time
		if waiting {
			again = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-again:
		}
	}
}

// look brings the chain up to date once and reports whether a pod still waits for the firewall.
func look(ctx context.Context, chain string, wanted []string) (waiting bool, err error) {
	own, err := iptables(ctx, "-t", "mangle", "-S", chain)
	if err != nil {
		return false, fmt.Errorf("list the addresses that are let through: %w", err)
	}
	have := sources(own)
	rules := ""
	if missing(wanted, have) {
		// The chain is not there until the firewall has started: nobody is known then.
		if rules, err = iptables(ctx, "-S", firewallChain); err != nil {
			slog.Info("the firewall has no rules yet", "reason", err)
			return true, nil
		}
	}
	next := decide(wanted, have, rules)
	for _, address := range next.remove {
		if _, err := iptables(ctx, "-t", "mangle", "-D", chain, "-s", address, "-j", "ACCEPT"); err != nil {
			return false, fmt.Errorf("shut out %s, whose pod is gone: %w", address, err)
		}
	}
	for _, address := range next.add {
		if _, err := iptables(ctx, "-t", "mangle", "-I", chain, "-s", address, "-j", "ACCEPT"); err != nil {
			return false, fmt.Errorf("let %s through: %w", address, err)
		}
		slog.Info("let through", "address", address)
	}
	return next.waiting, nil
}

// decision is what has to be done to the chain.
type decision struct {
	add, remove []string
	waiting     bool // a pod is not known to the firewall yet
}

// decide compares the pods' addresses and those let through, given the rules of the firewall's chain as iptables -S prints them.
func decide(wanted, have []string, rules string) decision {
	var d decision
	for _, address := range have {
		if !slices.Contains(wanted, address) {
			d.remove = append(d.remove, address)
		}
	}
	for _, address := range wanted {
		switch {
		case slices.Contains(have, address):
		case strings.Contains(rules, " -s "+address+"/32 "):
			d.add = append(d.add, address)
		default:
			d.waiting = true
		}
	}
	return d
}

func missing(wanted, have []string) bool {
	return slices.ContainsFunc(wanted, func(address string) bool { return !slices.Contains(have, address) })
}

// addresses are the IPv4 addresses of the pods that have one of their own and aren't finished.
func addresses(pods []*corev1.Pod) []string {
	var list []string
	for _, pod := range pods {
		finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if !finished && !pod.Spec.HostNetwork && pod.Status.PodIP != "" && !strings.Contains(pod.Status.PodIP, ":") {
			list = append(list, pod.Status.PodIP)
		}
	}
	slices.Sort(list)
	return list
}

// sources picks the addresses from a chain as iptables -S prints it: "-A CHAIN -s 10.77.1.2/32 -j ACCEPT".
func sources(printed string) []string {
	var list []string
	for _, line := range strings.Split(printed, "\n") {
		if fields := strings.Fields(line); len(fields) == 6 && fields[2] == "-s" {
			list = append(list, strings.TrimSuffix(fields[3], "/32"))
		}
	}
	return list
}

func iptables(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "iptables", append([]string{"-w"}, args...)...)
	var out, complaint strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("iptables %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}
