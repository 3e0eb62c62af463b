// Package daemon is the frame of the lab's own programs that run until they are told to end. It must not know what they do.
package daemon

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Run runs a program until it ends by itself or, told by SIGINT or SIGTERM, by its context. An error is the program's last
// word, and its exit status 1: a main function calls Run last.
func Run(name string, run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
