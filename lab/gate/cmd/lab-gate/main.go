// Command lab-gate lets pods onto the network once the firewall knows them; package gate says why.
package main

import (
	"context"
	"flag"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"vmdisk.io/vmdisk/lab/daemon"
	"vmdisk.io/vmdisk/lab/gate"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	chain := flag.String("chain", "", "the chain of the table mangle that lets addresses through")
	flag.Parse()
	daemon.Run("lab-gate", func(ctx context.Context) error {
		config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
		if err != nil {
			return fmt.Errorf("find the API server: %w", err)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("connect to the API server: %w", err)
		}
		return gate.Run(ctx, client, *chain)
	})
}
