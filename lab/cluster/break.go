package cluster

import (
	"context"
	"fmt"
	"strings"
)

// StopKubelet ends a node's kubelet as a crash would. Its containers run on, as they do on a real node.
func StopKubelet(node string) error { return stop(kubelet(node).name, 0) }

// StartKubelet starts a node's kubelet again, and returns once it is ready.
func StartKubelet(ctx context.Context, o Options, node string) error {
	_, err := ensure(ctx, o, kubelet(node))
	return err
}

// KillContainer ends the processes of a container with SIGKILL. The id is as a pod's status has it.
func KillContainer(ctx context.Context, node, id string) error {
	name, found := strings.CutPrefix(id, "containerd://")
	if !found {
		return fmt.Errorf("kill container %q: it is none of containerd's", id)
	}
	_, err := ctr(ctx, node, "tasks", "kill", "--all", "--signal", "SIGKILL", name)
	return err
}
