package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// component is one long-running process of the lab.
type component struct {
	name string
	argv []string
	env  []string
	// respawn starts the process again whenever it ends, as a pod's would be: sidecars end when they lose their driver.
	respawn bool
	// files are written before the start (path to content); a change of one restarts the component.
	files map[string]string
	// prepare runs before the start, after the files are written.
	prepare func() error
	// ready is nil, or says why the component can't be used yet.
	ready func(ctx context.Context) error
	// patience bounds the wait for ready.
	patience time.Duration
}

// record is the content of a pid file. A pid alone may belong to somebody else by now: with its start time it can't.
type record struct {
	PID    int    `json:"pid"`
	Start  uint64 `json:"start"` // in clock ticks since boot, field 22 of /proc/PID/stat, proc(5)
	Digest string `json:"digest"`
}

func pidFile(name string) string { return within("pids", name) }

// running returns the record of a component whose process is alive, or nil.
func running(name string) *record {
	content, err := os.ReadFile(pidFile(name))
	if err != nil {
		return nil
	}
	var r record
	if json.Unmarshal(content, &r) != nil { // half written by a killed run: as good as none
		return nil
	}
	if start, alive := startTime(r.PID); !alive || start != r.Start {
		return nil
	}
	return &r
}

// startTime is when a process started, in clock ticks since boot; a zombie counts as gone.
func startTime(pid int) (ticks uint64, alive bool) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The command's name is in parentheses and may hold anything: the fields are counted from behind it.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return 0, false
	}
	ticks, err = strconv.ParseUint(fields[19], 10, 64)
	return ticks, err == nil
}

// digest names everything that a running process was started from; a difference means that it is out of date.
func (c component) digest() string {
	h := sha256.New()
	encoded, err := json.Marshal(struct {
		Argv, Env []string
		Files     map[string]string
	}{c.argv, c.env, c.files})
	if err != nil { // strings always encode
		panic(err)
	}
	h.Write(encoded)
	h.Write(buildID(c.argv[0]))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// buildID is what the compiler or linker noted in a program to tell its builds apart; empty if there is no such note.
func buildID(path string) []byte {
	file, err := elf.Open(path)
	if err != nil { // starting it will say so
		return nil
	}
	defer func() { _ = file.Close() }() // it was only read
	for _, name := range []string{".note.go.buildid", ".note.gnu.build-id"} {
		if section := file.Section(name); section != nil {
			if id, err := section.Data(); err == nil {
				return id
			}
		}
	}
	return nil
}

// ensure has the component running from its current program, flags and files, and ready. It reports whether it had to
// start it.
func ensure(ctx context.Context, o Options, c component) (started bool, err error) {
	want := c.digest()
	if r := running(c.name); r != nil {
		if r.Digest == want {
			return false, c.wait(ctx)
		}
		o.say("%s: its program or configuration changed; restarting it", c.name)
		if err := stop(c.name, 20*time.Second); err != nil {
			return false, err
		}
	}
	for path, content := range c.files {
		if err := writeFile(path, content, 0o600); err != nil {
			return false, err
		}
	}
	if c.prepare != nil {
		if err := c.prepare(); err != nil {
			return false, fmt.Errorf("prepare %s: %w", c.name, err)
		}
	}
	if err := c.start(want); err != nil {
		return false, fmt.Errorf("start %s: %w", c.name, err)
	}
	return true, c.wait(ctx)
}

// start runs the process in a session of its own, so that it outlives the command that starts it.
func (c component) start(digest string) error {
	for _, dir := range []string{within("pids"), Logs()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(logFile(c.name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	argv := c.argv
	if c.respawn {
		argv = append([]string{"/bin/sh", "-c", `while :; do "$@"; sleep 0.3; done`, c.name}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), envDir+"="+Dir())
	cmd.Env = append(cmd.Env, c.env...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	// While this command lives it is the parent and has to take the exit status; afterwards init is.
	go func() { _ = cmd.Wait() }()
	start, alive := startTime(cmd.Process.Pid)
	if !alive {
		return fmt.Errorf("it ended at once; the end of its log: %s", logTail(c.name))
	}
	encoded, err := json.Marshal(record{PID: cmd.Process.Pid, Start: start, Digest: digest})
	if err != nil {
		return err
	}
	return writeFile(pidFile(c.name), string(encoded), 0o644)
}

// wait returns once the component is ready, or says why it isn't with the end of its log.
func (c component) wait(ctx context.Context) error {
	if c.ready == nil {
		return nil
	}
	patience := c.patience
	if patience == 0 {
		patience = 60 * time.Second
	}
	err := poll(ctx, patience, func(ctx context.Context) error {
		if running(c.name) == nil {
			return permanent{fmt.Errorf("the process ended")}
		}
		return c.ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("%s is not ready: %w; the end of its log (%s): %s", c.name, err, logFile(c.name), logTail(c.name))
	}
	return nil
}

// permanent marks an error that no waiting will cure.
type permanent struct{ error }

// poll calls check until it succeeds, at most for the given time; then it returns check's last error.
func poll(ctx context.Context, patience time.Duration, check func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if p := (permanent{}); errors.As(err, &p) {
			return p.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", patience, err)
		case <-time.After(150 * time.Millisecond):
		}
	}
}

// stop ends a component with its process group: politely, and after the given time by force. One that doesn't run is stopped already.
func stop(name string, polite time.Duration) error {
	r := running(name)
	if r == nil {
		return removeFile(pidFile(name))
	}
	if polite > 0 {
		if err := signal(-r.PID, syscall.SIGTERM); err != nil {
			return fmt.Errorf("stop %s: %w", name, err)
		}
	}
	deadline := time.Now().Add(polite)
	for killed := false; running(name) != nil; time.Sleep(20 * time.Millisecond) {
		if !killed && !time.Now().Before(deadline) {
			killed, deadline = true, time.Now().Add(10*time.Second)
			if err := signal(-r.PID, syscall.SIGKILL); err != nil {
				return fmt.Errorf("kill %s: %w", name, err)
			}
		} else if killed && time.Now().After(deadline) {
			return fmt.Errorf("%s (pid %d) does not end even when killed; it probably hangs in the kernel: look at /proc/%d/stack", name, r.PID, r.PID)
		}
	}
	return removeFile(pidFile(name))
}

// signal sends a signal; a process that is gone already needs none. A negative number is a process group, as in kill(2).
func signal(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// strays are the processes that were started by a lab (or by a process of a lab) and still live, by their environment.
// The map's values are the directories of their labs.
func strays() map[int]string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	found := map[int]string{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if err != nil { // it ended meanwhile
			continue
		}
		for _, variable := range bytes.Split(environ, []byte{0}) {
			if dir, ok := bytes.CutPrefix(variable, []byte(envDir+"=")); ok {
				if _, alive := startTime(pid); alive {
					found[pid] = string(dir)
				}
			}
		}
	}
	return found
}

func logFile(name string) string { return filepath.Join(Logs(), name+".log") }

// logTail is the last lines of a component's log, for error messages.
func logTail(name string) string {
	content, err := os.ReadFile(logFile(name))
	if err != nil {
		return err.Error()
	}
	content = bytes.TrimSpace(content[max(0, len(content)-1500):])
	lines := strings.Split(string(content), "\n")
	return "\n  " + strings.Join(lines[max(0, len(lines)-6):], "\n  ")
}

// writeFile replaces a file in one step, making its directory first.
func writeFile(path, content string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, []byte(content), mode); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// removeFile removes a file; one that isn't there is removed already.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
