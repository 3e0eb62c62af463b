// Command lab builds, starts and stops the two-node Kubernetes that vmdisk is tested in. It holds no logic: package
// cluster does the work.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"vmdisk.io/vmdisk/lab/cluster"
	"vmdisk.io/vmdisk/lab/suite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)  // whoever asks twice does not want to wait for what is being cleaned up
	log.SetLogger(logr.Discard()) // the libraries' own chatter; what matters comes as errors
	if err := command().ExecuteContext(ctx); err != nil {
		if !errors.Is(err, suite.ErrFailed) { // that one has told everything, and its count is to be the last line
			fmt.Fprintln(os.Stderr, "lab:", err)
		}
		os.Exit(1)
	}
}

func command() *cobra.Command {
	options := cluster.Options{Out: os.Stdout}
	root := &cobra.Command{
		Use:           "lab",
		Short:         "A real two-node Kubernetes on this machine, for tests and the demo",
		Long:          "A real two-node Kubernetes on this machine, for tests and the demo.\nIts files are in " + cluster.Dir() + " (set LAB_DIR for another place).",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	simple := func(use, short string, do func(ctx context.Context, o cluster.Options) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			return do(c.Context(), options)
		}}
	}
	root.AddCommand(
		simple("build", "Install the Debian packages that are missing and build the lab's programs", cluster.Build),
		simple("up", "Have the lab running; a healthy one stays as it is", cluster.Up),
		simple("down", "Stop the lab and remove everything of it but the built programs and the logs", cluster.Down),
		simple("status", "Say what runs and how to use it", func(ctx context.Context, _ cluster.Options) error {
			_, err := cluster.Status(ctx, os.Stdout)
			return err
		}),
		&cobra.Command{
			Use: "load ARCHIVE", Short: "Import a docker-style image archive into both nodes", Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error { return cluster.Load(c.Context(), args[0]) },
		},
		&cobra.Command{
			Use: "kubectl [arguments]", Short: "Run kubectl against the lab", DisableFlagParsing: true,
			RunE: func(_ *cobra.Command, args []string) error { return kubectl(args) },
		},
	)
	root.AddCommand(productCommands()...)
	root.AddCommand(benchCommand(), unpackCommand())
	return root
}

// kubectl becomes kubectl, so that its exit status and its terminal are the caller's.
func kubectl(args []string) error {
	path := filepath.Join(cluster.BinDir(), "kubectl")
	// Set, and not put behind the others: of two KUBECONFIGs kubectl takes the first, which would be another cluster's.
	if err := os.Setenv("KUBECONFIG", cluster.Kubeconfig()); err != nil {
		return fmt.Errorf("give kubectl the lab's kubeconfig: %w", err)
	}
	err := syscall.Exec(path, append([]string{"kubectl"}, args...), os.Environ())
	if errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("%s is not there: build the lab first with: go run ./lab build", path)
	}
	return fmt.Errorf("run %s: %w", path, err)
}
