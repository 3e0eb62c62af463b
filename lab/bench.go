package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vmdisk.io/vmdisk/lab/bench"
	"vmdisk.io/vmdisk/lab/bench/control"
	"vmdisk.io/vmdisk/lab/bench/unpack"
	"vmdisk.io/vmdisk/lab/demo"
)

// unpackCommand is what bench unpacks with, in CDI's place.
func unpackCommand() *cobra.Command {
	return &cobra.Command{
		Use: bench.UnpackCommand + " FORMAT", Short: "Unpack the standard input as CDI's importer does", Hidden: true,
		Args: cobra.ExactArgs(1), ValidArgs: unpack.Formats(),
		RunE: func(c *cobra.Command, args []string) error { return unpack.Copy(os.Stdout, os.Stdin, args[0]) },
	}
}

// benchCommand measures a built vmdisk. It needs no cluster.
func benchCommand() *cobra.Command {
	o := bench.Options{Out: os.Stdout, CacheDir: demo.CacheDir(), Suite: bench.Suites()[0]}
	var only string
	cmd := &cobra.Command{
		Use: "bench [" + strings.Join(bench.Suites(), "|") + "]", Short: "Compare vmdisk convert with CDI's path and with qemu-img",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if len(args) > 0 {
				o.Suite = args[0]
			}
			if o.Only, err = regexp.Compile(only); err != nil {
				return fmt.Errorf("read --only: %w", err)
			}
			return bench.Run(c.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Vmdisk, "vmdisk", "bin/vmdisk", "the program to measure")
	f.StringVar(&only, "only", "", "measure only the groups whose names match this regular expression, such as 'qcow2|networks'")
	f.BoolVar(&o.ImagesOnly, "images-only", false, "make the images that are missing, and measure nothing")
	f.IntVar(&o.Rounds, "rounds", 0, "how often each way runs (default: as the suite says)")
	cmd.AddCommand(controlCommand())
	return cmd
}

// controlCommand measures the control plane alone. It needs no cluster either: it starts an API server.
func controlCommand() *cobra.Command {
	o := control.Options{Out: os.Stdout}
	cmd := &cobra.Command{
		Use: "control", Short: "Measure what many VMDisks at once cost the API server and the controller", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return control.Run(c.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Vmdisk, "vmdisk", "bin/vmdisk", "the program to measure")
	f.IntVar(&o.Disks, "disks", 500, "how many disks are made, half of them from an image and half of them blank")
	f.DurationVar(&o.Filling, "filling", 10*time.Second, "how long each worker runs")
	f.DurationVar(&o.Patience, "patience", 15*time.Minute, "how long all of it may take")
	return cmd
}
