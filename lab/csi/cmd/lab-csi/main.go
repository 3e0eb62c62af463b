// Command lab-csi runs the lab's CSI driver as a host process: lab-csi --config FILE.
package main

import (
	"context"
	"errors"
	"flag"

	"vmdisk.io/vmdisk/lab/csi"
	"vmdisk.io/vmdisk/lab/daemon"
)

func main() {
	path := flag.String("config", "", "JSON file with the drivers and nodes to serve")
	flag.Parse()
	daemon.Run("lab-csi", func(ctx context.Context) error {
		if *path == "" {
			return errors.New("--config is missing: name the JSON file with the drivers and nodes to serve")
		}
		config, err := csi.LoadConfig(*path)
		if err != nil {
			return err
		}
		return csi.Run(ctx, config)
	})
}
