package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// pipeline is programs that run at once, each with its arguments; what one prints is what the next reads. What the last
// one prints is dropped.
type pipeline [][]string

// cleanUp is how long a program may take to end after it was told to.
const cleanUp = 20 * time.Second

// run runs the pipelines one after the other and measures them as one.
func run(ctx context.Context, steps []pipeline) (usage, error) {
	m := newMeter()
	defer m.stop()
	began := time.Now()
	for _, step := range steps {
		if err := step.run(ctx, m); err != nil {
			return usage{}, err
		}
	}
	m.stop()
	m.usage.wall = time.Since(began)
	return m.usage, nil
}

// run runs the programs to their ends and counts them in the meter.
func (p pipeline) run(ctx context.Context, m *meter) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	said := make([]bytes.Buffer, len(p))
	commands := make([]*exec.Cmd, len(p))
	for i, args := range p {
		c := exec.CommandContext(ctx, args[0], args[1:]...)
		c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
		c.WaitDelay = cleanUp
		c.Stderr = &said[i]
		commands[i] = c
	}
	pipes, err := connect(commands)
	var errs []error
	for i, c := range commands {
		if err == nil {
			err = c.Start()
		}
		if err != nil { // neither this one runs, nor those after it
			commands = commands[:i]
			errs = append(errs, fmt.Errorf("start %s: %w", p[i][0], err))
			stop()
			break
		}
		m.begin(c.Process.Pid)
	}
	for _, end := range pipes {
		errs = append(errs, end.Close()) // the programs have their own
	}
	for i, c := range commands {
		err := c.Wait()
		m.end(c.Process.Pid, c.ProcessState)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w; it said: %s", strings.Join(p[i], " "), err, lastLine(said[i].String())))
		}
	}
	return errors.Join(errs...)
}

// connect joins the programs with pipes and returns our ends of them.
func connect(commands []*exec.Cmd) ([]*os.File, error) {
	var ends []*os.File
	for i := range len(commands) - 1 {
		r, w, err := os.Pipe()
		if err != nil {
			return ends, fmt.Errorf("make a pipe: %w", err)
		}
		commands[i].Stdout, commands[i+1].Stdin = w, r
		ends = append(ends, r, w)
	}
	return ends, nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
