// Command lab-dns is the DNS of the lab's cluster; package dns says what it answers. It runs as a pod.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vmdisk.io/vmdisk/lab/dns"
)

func main() {
	domain := flag.String("domain", "cluster.local", "the domain of the cluster's names")
	listen := flag.String("listen", ":53", "the address to answer on, over UDP and TCP")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *listen, strings.Trim(*domain, ".")); err != nil {
		fmt.Fprintln(os.Stderr, "lab-dns:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, listen, domain string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w: this program runs as a pod", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	source, err := dns.Follow(ctx, client)
	if err != nil {
		return err
	}
	return dns.Serve(ctx, listen, dns.Zone{Domain: domain, Source: source})
}
