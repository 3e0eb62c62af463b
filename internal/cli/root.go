// Package cli is vmdisk's command line: one file per command, each an options struct and a function that runs it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs the command line and returns the process's exit code. The first signal ends the command in good order, the
// second at once.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// run runs a command line and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if v := recover(); v != nil {
			fmt.Fprintf(stderr, "vmdisk: failed by a fault of its own: please report this.\n%v\n%s\n", v, debug.Stack())
			code = exitFailed
		}
	}()
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if state := (*stateExit)(nil); err != nil && !errors.As(err, &state) {
		fmt.Fprintln(stderr, "vmdisk:", explain(err))
	}
	return exitCode(err)
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "vmdisk",
		Short:         "Disks for virtual machines on Kubernetes",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usage("there is no command %q: these are %s", args[0], strings.Join(commandNames(cmd), ", "))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%v: see '%s --help'", err, cmd.CommandPath())
	})
	root.AddCommand(newConvertCommand(), newInspectCommand(), newMapCommand(), newPlanCommand(), newStatusCommand(), newRetryCommand(), newCheckCommand(),
		newControllerCommand(), newPopulatorCommand(), newWorkerCommand())
	return root
}

func commandNames(root *cobra.Command) []string {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// version is what the Go toolchain knows of this build.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}
