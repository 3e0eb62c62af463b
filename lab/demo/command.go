package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// lastLines is how many lines of a failed command's output its error repeats.
const lastLines = 15

// cleanUp is how long a program may take to end after it was told to.
const cleanUp = 20 * time.Second

// command is a program of the machine that is run to its end.
type command struct {
	name  string
	args  []string
	env   []string  // added to the caller's environment
	stdin io.Reader // nil: nothing
	echo  io.Writer // gets a copy of what the program says; nil: nobody
	hold  *os.File  // a locked file that the program and its children keep locked until they end; nil: none
}

// run returns what the program printed on its standard output. Its error repeats the last lines of what the program
// said, because "exit status 1" explains nothing.
func (c command) run(ctx context.Context) (string, error) {
	var stdout, all bytes.Buffer
	cmd := exec.CommandContext(ctx, c.name, c.args...)
	// SIGTERM, so that a program (mmdebstrap, in the middle of its mounts) cleans up: when the demo is told to end, and
	// when it was killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = cleanUp
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdin = c.stdin
	if c.hold != nil {
		cmd.ExtraFiles = []*os.File{c.hold}
	}
	shared := &lockedWriter{w: &all}
	var echo io.Writer = shared
	if c.echo != nil {
		echo = io.MultiWriter(shared, c.echo)
	}
	cmd.Stdout = io.MultiWriter(&stdout, echo)
	cmd.Stderr = echo
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(err, cause)
		}
		return stdout.String(), fmt.Errorf("%s: %w; it said:\n%s", c.name, err, tail(all.String(), lastLines))
	}
	return stdout.String(), nil
}

// tail returns the last n lines of text, each indented.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\r\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return indent(strings.Join(lines, "\n"))
}

// indent gives each line a margin.
func indent(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if lines[i] = strings.TrimRight(line, "\r"); lines[i] != "" {
			lines[i] = "  " + lines[i]
		}
	}
	return strings.Join(lines, "\n")
}
