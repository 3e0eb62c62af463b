package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"vmdisk.io/vmdisk/lab/mounts"
)

// Down stops the lab and removes everything of it except the built programs and the logs, whatever state it is in. What
// isn't there is removed already.
func Down(ctx context.Context, o Options) error {
	unlock, err := lock(ctx, o)
	if err != nil {
		return err
	}
	defer unlock()
	started := time.Now()
	if err := clean(ctx, o); err != nil {
		return err
	}
	o.say("the lab is down after %s; its programs (%s) and logs (%s) are kept", time.Since(started).Round(100*time.Millisecond), BinDir(), within(oldName))
	return nil
}

// clean removes all traces of a lab. Nothing is asked politely: there is no data to save, and what waits for an answer
// from a process that is gone would wait forever.
func clean(ctx context.Context, o Options) error {
	if err := stopAll(o); err != nil {
		return err
	}
	if err := removeCgroups(); err != nil {
		return err
	}
	if err := mounts.Free(Dir()); err != nil {
		return err
	}
	return errors.Join(removeNetwork(ctx), removeState())
}

// stopAll kills the components by their pid files, and then whatever else carries the lab's mark: the containers'
// shims, and what was started by a run that was killed before it wrote a pid file.
func stopAll(o Options) error {
	files, err := filepath.Glob(pidFile("*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		errs = append(errs, stop(filepath.Base(file), 0))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	deadline := time.Now().Add(20 * time.Second)
	for told := false; ; {
		var left []int
		for pid, dir := range strays() {
			if dir == Dir() {
				left = append(left, pid)
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of the lab do not end even when killed; they probably hang in the kernel: look at /proc/PID/stack", left)
		}
		if !told {
			told = true
			o.say("ending %d more processes of the lab", len(left))
		}
		for _, pid := range left {
			if err := signal(pid, syscall.SIGKILL); err != nil {
				return fmt.Errorf("kill process %d of the lab: %w", pid, err)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// removeState removes the lab's files. Mounts must be gone: what is mounted would be emptied too.
func removeState() error {
	var errs []error
	for _, node := range NodeNames() {
		errs = append(errs, removeShimSockets(within(node, "run")))
	}
	entries, err := os.ReadDir(Dir())
	if err != nil {
		return fmt.Errorf("remove the lab's files: %w", err)
	}
	if _, err := os.Stat(Logs()); err == nil {
		errs = append(errs, os.RemoveAll(within(oldName)), os.Rename(Logs(), within(oldName)))
	}
	for _, entry := range entries {
		switch entry.Name() {
		case binName, lockName, logsName, oldName:
			continue
		}
		errs = append(errs, os.RemoveAll(within(entry.Name())))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the lab's files: %w", err)
	}
	return nil
}

// removeShimSockets removes the sockets that a containerd's shims keep outside of its directories; each container's
// bundle names its own.
func removeShimSockets(state string) error {
	files, err := filepath.Glob(filepath.Join(state, "io.containerd.runtime.v2.task", "*", "*", "address"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		address, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if socket, ok := strings.CutPrefix(string(address), "unix://"); ok && filepath.IsAbs(socket) {
			errs = append(errs, removeFile(socket))
		}
	}
	return errors.Join(errs...)
}
