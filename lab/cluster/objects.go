package cluster

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/lab/manifest"
)

//go:embed manifests
var manifests embed.FS

func newClient() (client.Client, error) {
	config, err := RESTConfig()
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{})
}

// applyObjects makes everything that the lab has in the API server.
func applyObjects(ctx context.Context, c client.Client) error {
	image, err := dnsImage()
	if err != nil {
		return err
	}
	kinds, err := os.ReadFile(snapshotKindsFile())
	if err != nil {
		return fmt.Errorf("read the kinds of snapshots: %w", err)
	}
	for _, name := range []string{"cluster.yaml", "snapshot kinds", "storage.yaml"} {
		content := kinds
		if filepath.Ext(name) != "" {
			if content, err = manifests.ReadFile("manifests/" + name); err != nil {
				return fmt.Errorf("read manifest %s: %w", name, err)
			}
		}
		objects, err := manifest.Decode(bytes.ReplaceAll(content, []byte("DNS_IMAGE"), []byte(image)))
		if err != nil {
			return fmt.Errorf("read manifest %s: %w", name, err)
		}
		// A new API server answers before its namespaces and its own rights are all there.
		err = poll(ctx, 30*time.Second, func(ctx context.Context) error { return manifest.Apply(ctx, c, "vmdisk-lab", objects) })
		if err != nil {
			return fmt.Errorf("make the objects of manifest %s: %w", name, err)
		}
	}
	return nil
}

// giveRange notes the range of the node's pod addresses on the Node, where the firewall looks for it. The API server
// lets it be set once.
func giveRange(ctx context.Context, c client.Client, name string) error {
	node := &corev1.Node{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	if node.Spec.PodCIDR != "" {
		return nil
	}
	before := client.MergeFrom(node.DeepCopy())
	node.Spec.PodCIDR = podRanges()[name].cidr
	node.Spec.PodCIDRs = []string{node.Spec.PodCIDR}
	return c.Patch(ctx, node, before)
}

// usable says why the cluster can't be used yet: nodes, drivers on the nodes, DNS.
func usable(ctx context.Context, c client.Client) error {
	for _, name := range NodeNames() {
		node := &corev1.Node{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		if why := notReady(node); why != "" {
			return fmt.Errorf("node %s is not ready: %s", name, why)
		}
		registered := &storagev1.CSINode{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, registered); err != nil {
			return err
		}
		known := map[string]bool{}
		for _, driver := range registered.Spec.Drivers {
			known[driver.Name] = true
		}
		for _, driver := range drivers() {
			if !known[driver.Name] {
				return fmt.Errorf("the CSI driver %s has not registered on %s", driver.Name, name)
			}
		}
	}
	dns := &appsv1.Deployment{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "kube-dns"}, dns); err != nil {
		return err
	}
	if dns.Status.ObservedGeneration < dns.Generation || dns.Status.UpdatedReplicas < 1 || dns.Status.ReadyReplicas < 1 {
		return errors.New("the DNS pod is not ready: see kubectl -n kube-system describe pod -l k8s-app=kube-dns")
	}
	return nil
}

// notReady is the reason why a node takes no pods; empty when it does.
func notReady(node *corev1.Node) string {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			if condition.Status == corev1.ConditionTrue {
				for _, taint := range node.Spec.Taints {
					if taint.Key == corev1.TaintNodeNotReady {
						return "it is still tainted as not ready"
					}
				}
				return ""
			}
			return condition.Message
		}
	}
	return "its kubelet has not reported yet"
}
