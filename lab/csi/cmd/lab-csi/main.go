// Command lab-csi runs the lab's CSI driver as a host process: lab-csi --config FILE.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"vmdisk.io/vmdisk/lab/csi"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "lab-csi:", err)
		os.Exit(1)
	}
}

func run() error {
	path := flag.String("config", "", "JSON file with the drivers and nodes to serve")
	flag.Parse()
	if *path == "" {
		return fmt.Errorf("--config is missing: name the JSON file with the drivers and nodes to serve")
	}
	config, err := csi.LoadConfig(*path)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return csi.Run(ctx, config)
}
