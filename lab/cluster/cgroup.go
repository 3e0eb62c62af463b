package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const cgroupMount = "/sys/fs/cgroup"

// cgroupName is the cgroup under which a node's pods run. Everything in it is the lab's, which is how containers are
// found again when nothing else is left of them.
func cgroupName(node string) string { return labName() + "-" + node }

// cgroupHierarchies are the directories that have a tree of cgroups each: one per controller with version 1 (and with
// the hybrid layout), the mount itself with version 2.
func cgroupHierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		return []string{cgroupMount}, nil
	}
	entries, err := os.ReadDir(cgroupMount)
	if err != nil {
		return nil, fmt.Errorf("look at the machine's cgroups: %w", err)
	}
	var dirs []string
	for _, entry := range entries {
		path := filepath.Join(cgroupMount, entry.Name())
		// Names joined by a comma are the real directories, and the single names links to them, or the other way round.
		if entry.IsDir() {
			dirs = append(dirs, path)
		}
	}
	return dirs, nil
}

// makeCgroup makes a node's cgroup in every hierarchy, ready for the kubelet to make pods' cgroups in.
func makeCgroup(node string) error {
	dirs, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, parent := range dirs {
		dir := filepath.Join(parent, cgroupName(node))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make the cgroup of %s: %w", node, err)
		}
		if err := delegate(parent, dir); err != nil {
			return fmt.Errorf("prepare the cgroup %s: %w", dir, err)
		}
	}
	return nil
}

// delegate makes a parent's controllers usable in a child. With version 2 they are switched on; with version 1 only the
// cpuset controller needs something: a group without CPUs and memory nodes takes no process.
func delegate(parent, dir string) error {
	controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err == nil {
		for _, group := range []string{parent, dir} {
			for _, name := range strings.Fields(string(controllers)) {
				if err := os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+name), 0); err != nil {
					return fmt.Errorf("switch on the %s controller: %w", name, err)
				}
			}
		}
		return nil
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		content, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), content, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cgroupRoots are the nodes' cgroups that exist.
func cgroupRoots() ([]string, error) {
	dirs, err := cgroupHierarchies()
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, parent := range dirs {
		for _, node := range NodeNames() {
			root := filepath.Join(parent, cgroupName(node))
			if _, err := os.Stat(root); err == nil {
				roots = append(roots, root)
			}
		}
	}
	return roots, nil
}

// removeCgroups kills everything that runs in the lab's cgroups and removes them.
func removeCgroups() error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(20 * time.Second)
	for len(roots) > 0 {
		var left []string
		var errs []error
		for _, root := range roots {
			if err := removeCgroup(root); err != nil {
				left, errs = append(left, root), append(errs, err)
			}
		}
		if len(left) > 0 && time.Now().After(deadline) {
			return fmt.Errorf("empty the pods' cgroups: %w", errors.Join(errs...))
		}
		if roots = left; len(left) > 0 {
			time.Sleep(50 * time.Millisecond) // killed processes take a moment to go
		}
	}
	return nil
}

// cgroupsFrom lists a cgroup and those below it, each before what is in it.
func cgroupsFrom(root string) (groups []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return err
	})
	return groups, err
}

// processesIn are the processes in a cgroup itself; none if it is gone.
func processesIn(group string) ([]int, error) {
	procs, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var pids []int
	for _, field := range strings.Fields(string(procs)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("read the processes of %s: %w", group, err)
		}
		if pid > 1 { // 0 is one that this namespace can't see
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func removeCgroup(root string) error {
	groups, err := cgroupsFrom(root)
	if err != nil {
		return err
	}
	var errs []error
	for _, group := range slices.Backward(groups) {
		pids, err := processesIn(group)
		errs = append(errs, err)
		for _, pid := range pids {
			errs = append(errs, signal(pid, syscall.SIGKILL))
		}
		if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
