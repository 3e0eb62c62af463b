package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/lab/pods"
)

// Up has the lab running from the current sources when it returns nil. A lab that is healthy stays as it is; one that
// lacks a process gets it back; whatever else is found (half built, killed, other sources) ends in a new, empty cluster.
func Up(ctx context.Context, o Options) error {
	unlock, err := lock(ctx, o)
	if err != nil {
		return err
	}
	defer unlock()
	for pid, dir := range strays() {
		if dir != Dir() && sameNetwork(pid) {
			return fmt.Errorf("another lab runs on this machine (process %d belongs to %s): take it down first with LAB_DIR=%s and the command down", pid, dir, dir)
		}
	}
	started := time.Now()
	if err := build(ctx, o); err != nil {
		return err
	}
	resume := running("etcd") != nil && running("kube-apiserver") != nil
	if resume {
		changed, err := bring(ctx, o)
		switch {
		case err == nil && changed:
			o.say("the lab is up again after %s", time.Since(started).Round(100*time.Millisecond))
			return nil
		case err == nil:
			o.say("the lab is up already")
			return nil
		case ctx.Err() != nil:
			return err
		}
		o.say("this cluster does not come back (%v); starting a new one", err)
	}
	if err := clean(ctx, o); err != nil {
		return err
	}
	if _, err := bring(ctx, o); err != nil {
		return err
	}
	o.say("the lab is up after %s: export KUBECONFIG=%s PATH=%s:$PATH", time.Since(started).Round(100*time.Millisecond), Kubeconfig(), BinDir())
	return nil
}

// sameNetwork reports whether a process is in this one's network namespace. A lab in another one disturbs nobody.
func sameNetwork(pid int) bool {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return true
	}
	its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	return err == nil && its == own // an error: it ended meanwhile
}

// bring starts what doesn't run and waits until all of it is ready; it reports whether there was anything to do.
func bring(ctx context.Context, o Options) (changed bool, err error) {
	if err := makePKI(); err != nil {
		return false, err
	}
	if err := makeNetwork(ctx); err != nil {
		return false, err
	}
	s := &starter{options: o}
	if err := s.groundwork(ctx); err != nil {
		return s.changed(), err
	}
	c, err := newClient()
	if err != nil {
		return s.changed(), err
	}
	if err := s.rest(ctx, c); err != nil {
		return s.changed(), err
	}
	err = poll(ctx, 2*time.Minute, func(ctx context.Context) error { return usable(ctx, c) })
	if err != nil {
		return s.changed(), fmt.Errorf("the cluster runs but is not usable: %w%s", err, explain(ctx))
	}
	return s.changed(), nil
}

// explain is what bears on a cluster whose pods don't come up: the DNS, which is the first of them, and what leads it to the API server.
func explain(ctx context.Context) string {
	var out strings.Builder
	if config, err := RESTConfig(); err == nil {
		if c, err := kubernetes.NewForConfig(config); err == nil {
			out.WriteString(pods.Explain(ctx, c, "kube-system", "k8s-app=kube-dns"))
		}
	}
	if err := leadsToAPI(context.WithoutCancel(ctx)); err != nil {
		fmt.Fprintf(&out, "\n%v", err)
	}
	for _, name := range []string{kubeProxy().name, firewall().name, gatekeeper().name} {
		fmt.Fprintf(&out, "\nthe end of %s: %s", logFile(name), logTail(name))
	}
	return out.String()
}

// starter starts components, several at a time, and remembers whether it had to.
type starter struct {
	options Options
	started atomic.Bool
}

func (s *starter) changed() bool { return s.started.Load() }

func (s *starter) ensure(ctx context.Context, c component) error {
	began := time.Now()
	started, err := ensure(ctx, s.options, c)
	if started {
		s.started.Store(true)
		if err == nil {
			s.options.say("%s (%s)", c.name, time.Since(began).Round(100*time.Millisecond))
		}
	}
	return err
}

// groundwork is what everything else stands on: the API server with the lab's objects, and beside it the containerds
// with the cluster's own images.
func (s *starter) groundwork(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for _, c := range []component{etcd(), apiServer()} {
			if err := s.ensure(ctx, c); err != nil {
				return err
			}
		}
		c, err := newClient()
		if err != nil {
			return err
		}
		return applyObjects(ctx, c)
	})
	group.Go(func() error {
		containerds, within := errgroup.WithContext(ctx)
		for _, node := range NodeNames() {
			containerds.Go(func() error { return s.ensure(within, containerd(node)) })
		}
		if err := containerds.Wait(); err != nil {
			return err
		}
		return loadOwnImages(ctx)
	})
	return group.Wait()
}

func (s *starter) rest(ctx context.Context, c client.Client) error {
	driver, err := csiDriver()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, component := range []component{controllerManager(), kubeScheduler()} {
		group.Go(func() error { return s.ensure(ctx, component) })
	}
	group.Go(func() error {
		for _, component := range append([]component{driver}, sidecars()...) {
			if err := s.ensure(ctx, component); err != nil {
				return err
			}
		}
		return nil
	})
	nodes, nodesCtx := errgroup.WithContext(ctx)
	nodes.Go(func() error { return s.ensure(nodesCtx, kubeProxy()) })
	for _, node := range NodeNames() {
		nodes.Go(func() error {
			if err := s.ensure(nodesCtx, kubelet(node)); err != nil {
				return err
			}
			return poll(nodesCtx, time.Minute, func(ctx context.Context) error { return giveRange(ctx, c, node) })
		})
	}
	group.Go(func() error {
		// The firewall wants to know every node's addresses. And it writes the whole table filter from what it read a moment before: a chain
		// that kube-proxy makes in between would be gone when kube-proxy refers to it.
		if err := nodes.Wait(); err != nil {
			return err
		}
		if err := s.ensure(ctx, firewall()); err != nil {
			return err
		}
		return s.ensure(ctx, gatekeeper())
	})
	return group.Wait()
}

// componentNames lists the components in the order in which a reader looks for them.
func componentNames() []string {
	names := []string{etcd().name, apiServer().name, controllerManager().name, kubeScheduler().name, kubeProxy().name, firewall().name, gatekeeper().name}
	for _, node := range NodeNames() {
		names = append(names, containerd(node).name, kubelet(node).name)
	}
	names = append(names, "csi-driver")
	for _, sidecar := range sidecars() {
		names = append(names, sidecar.name)
	}
	return names
}
