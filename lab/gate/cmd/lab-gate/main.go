// Command lab-gate lets pods onto the network once the firewall knows them; package gate says why.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"vmdisk.io/vmdisk/lab/gate"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	chain := flag.String("chain", "", "the chain of the table mangle that lets addresses through")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *chain); err != nil {
		fmt.Fprintln(os.Stderr, "lab-gate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, chain string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	return gate.Run(ctx, client, chain)
}
