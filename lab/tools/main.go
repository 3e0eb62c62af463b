// Command lab-tools is the one program in the image of the lab's test pods:
//
//	lab-tools pause                 wait for a signal
//	lab-tools sleep DURATION        end after that time
//	lab-tools serve --dir DIR ...   lab/serve's HTTP server
//	lab-tools get URL ...           fetch it, to standard output
//	lab-tools hash PATH...          SHA-256 and bytes of files or block devices
//
// Every command takes --help. It must not know Kubernetes, nor vmdisk.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// command runs with its arguments until it is done or ctx is.
type command func(ctx context.Context, arguments []string, out io.Writer) error

func commands() map[string]command {
	return map[string]command{"pause": pause, "sleep": sleep, "serve": serveCommand, "get": get, "hash": hash}
}

const usage = "usage: lab-tools pause | sleep DURATION | serve --dir DIR | get URL | hash PATH"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "lab-tools:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, out io.Writer) error {
	if len(arguments) == 0 {
		return errors.New("no command is given: " + usage)
	}
	do, ok := commands()[arguments[0]]
	if !ok {
		return fmt.Errorf("there is no command %q: %s", arguments[0], usage)
	}
	if err := do(ctx, arguments[1:], out); err != nil {
		return fmt.Errorf("%s: %w", arguments[0], err)
	}
	return nil
}

// pause ends, with success, when it is told to.
func pause(ctx context.Context, _ []string, _ io.Writer) error {
	<-ctx.Done()
	return nil
}

// sleep ends after a duration ("90s"), or early, with success, when it is told to.
func sleep(ctx context.Context, arguments []string, _ io.Writer) error {
	if len(arguments) != 1 {
		return errors.New("give one duration, like 90s")
	}
	duration, err := time.ParseDuration(arguments[0])
	if err != nil {
		return fmt.Errorf("read the duration: %w", err)
	}
	select {
	case <-time.After(duration):
	case <-ctx.Done():
	}
	return nil
}
