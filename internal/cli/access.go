package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/internal/controllers"
	"vmdisk.io/vmdisk/internal/kube"
)

// access is how a command for people reaches a cluster: as kubectl would.
type access struct {
	kubeconfig string
	context    string
	// namespace is the one that was asked for; once connected, the one in force.
	namespace string
}

// flags adds the flags but for --namespace, whose meaning each command tells.
func (a *access) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: as kubectl finds it")
	f.StringVar(&a.context, "context", "", "context in the kubeconfig file; empty: the current one")
}

// connected are the clients for a cluster.
type connected struct {
	reader client.Reader
	pods   corev1client.PodsGetter
	writer *kube.Writer // tells no events
}

// connect finds the cluster and the namespace. It reads nothing from the cluster yet.
func (a *access) connect() (connected, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: a.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return connected{}, fmt.Errorf("find the cluster: %w", err)
	}
	if a.namespace == "" {
		if a.namespace, _, err = loader.Namespace(); err != nil {
			return connected{}, fmt.Errorf("find the namespace: %w", err)
		}
	}
	scheme, err := controllers.Scheme()
	if err != nil {
		return connected{}, err
	}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return connected{}, fmt.Errorf("reach the cluster: %w", err)
	}
	pods, err := corev1client.NewForConfig(config)
	if err != nil {
		return connected{}, fmt.Errorf("reach the cluster: %w", err)
	}
	return connected{reader, pods, kube.NewWriter(reader, nil)}, nil
}
