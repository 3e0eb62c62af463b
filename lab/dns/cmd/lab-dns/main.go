// Command lab-dns is the DNS of the lab's cluster; package dns says what it answers. It runs as a pod.
package main

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vmdisk.io/vmdisk/lab/daemon"
	"vmdisk.io/vmdisk/lab/dns"
)

func main() {
	domain := flag.String("domain", "cluster.local", "the domain of the cluster's names")
	listen := flag.String("listen", ":53", "the address to answer on, over UDP and TCP")
	flag.Parse()
	daemon.Run("lab-dns", func(ctx context.Context) error {
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
		return dns.Serve(ctx, *listen, dns.Zone{Domain: strings.Trim(*domain, "."), Source: source})
	})
}
