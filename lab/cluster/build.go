package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// module is a directory with a go.mod of its own whose programs are built once and kept until its files change. They are
// outside of the root module because they need other versions of Kubernetes than vmdisk does.
type module struct {
	dir      string
	packages []string
	ldflags  string
	links    []string // further names for the one program
}

func modules() []module {
	const version = "k8s.io/component-base/version."
	return []module{
		{
			dir:      "lab/kubernetes",
			packages: []string{"."},
			ldflags:  "-s -w -X " + version + "gitVersion=v1.36.3 -X " + version + "gitMajor=1 -X " + version + "gitMinor=36",
			links:    []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"},
		},
		{
			dir: "lab/sidecars",
			packages: []string{
				"github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner",
				"github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher",
				"github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer",
				"github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter",
				"github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller",
			},
			ldflags: "-s -w",
		},
		{
			dir:      "lab/kuberouter",
			packages: []string{"github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"},
			ldflags:  "-s -w",
		},
		{
			dir:      "lab/helm",
			packages: []string{"helm.sh/helm/v3/cmd/helm"},
			ldflags:  "-s -w",
		},
	}
}

// ownPrograms are packages of the root module; the compiler's cache makes building them again cheap.
func ownPrograms() []string {
	return []string{"./lab/cluster/pause", "./lab/dns/cmd/lab-dns", "./lab/csi/cmd/lab-csi", "./lab/gate/cmd/lab-gate"}
}

// Build installs the Debian packages that are missing and builds every program of the lab into BinDir. The first time
// takes about a quarter of an hour on two cores; after that, seconds.
func Build(ctx context.Context, o Options) error {
	unlock, err := lock(ctx, o)
	if err != nil {
		return err
	}
	defer unlock()
	return build(ctx, o)
}

func build(ctx context.Context, o Options) error {
	if err := installPackages(ctx, o); err != nil {
		return err
	}
	root, err := sourceRoot(ctx, o)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(BinDir(), 0o755); err != nil {
		return fmt.Errorf("make the directory for the lab's programs: %w", err)
	}
	for _, m := range modules() {
		if err := m.build(ctx, o, root); err != nil {
			return fmt.Errorf("build %s: %w", m.dir, err)
		}
	}
	if err := snapshotKinds(ctx, root); err != nil {
		return err
	}
	if err := goBuild(ctx, root, 0, "-s -w", ownPrograms()); err != nil {
		return fmt.Errorf("build the lab's own programs: %w", err)
	}
	return nil
}

// build builds a module's programs, unless they were built from the same files by the same compiler before.
func (m module) build(ctx context.Context, o Options, root string) error {
	dir := filepath.Join(root, m.dir)
	stamp, err := m.stamp(dir)
	if err != nil {
		return err
	}
	stampFile := filepath.Join(BinDir(), "."+filepath.Base(m.dir)+".stamp")
	if content, err := os.ReadFile(stampFile); err == nil && string(content) == stamp && m.built() {
		return nil
	}
	// Else a build that is cut short in the middle of a program would leave the stamp of the one before.
	if err := removeFile(stampFile); err != nil {
		return err
	}
	o.say("building %s (minutes the first time)", m.dir)
	started := time.Now()
	stop := every(time.Minute, func() { o.say("still building %s (%s)", m.dir, time.Since(started).Round(time.Second)) })
	err = goBuild(ctx, dir, 10, m.ldflags, m.packages)
	stop()
	if err != nil {
		return err
	}
	for _, link := range m.links {
		path := filepath.Join(BinDir(), link)
		if err := removeFile(path); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Base(m.dir), path); err != nil {
			return err
		}
	}
	o.say("built %s in %s", m.dir, time.Since(started).Round(time.Second))
	return writeFile(stampFile, stamp, 0o644)
}

// every calls a function again and again, until the returned function is called; that one waits for the last call.
func every(interval time.Duration, call func()) (stop func()) {
	ticker, end := time.NewTicker(interval), make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-ticker.C:
				call()
			case <-end:
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(end)
		done.Wait()
	}
}

// built reports whether every program of the module is there.
func (m module) built() bool {
	names := append([]string{}, m.links...)
	for _, pkg := range m.packages {
		if pkg == "." {
			pkg = m.dir
		}
		names = append(names, filepath.Base(pkg))
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(BinDir(), name)); err != nil {
			return false
		}
	}
	return true
}

// stamp names everything that the module's programs are built from.
func (m module) stamp(dir string) (string, error) {
	var files []string
	for _, pattern := range []string{"*.go", "go.mod", "go.sum"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return "", fmt.Errorf("%s holds no Go files: is the clone complete?", dir)
	}
	sort.Strings(files)
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), m.ldflags, m.packages, m.links)
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, filepath.Base(path))
		_, err = io.Copy(h, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// goBuild builds static programs into BinDir. A program that is running is replaced, not written over. Long builds are
// nice (1 to 19, see nice(1)), so that the machine stays usable meanwhile.
func goBuild(ctx context.Context, dir string, nice int, ldflags string, packages []string) error {
	args := []string{"-n", strconv.Itoa(nice), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", BinDir() + "/"}
	cmd := exec.CommandContext(ctx, "nice", append(args, packages...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s in %s: %w\n%s", strings.Join(packages, " "), dir, err, out)
	}
	return nil
}

// sourceRoot is the root of the clone whose sources are built.
func sourceRoot(ctx context.Context, o Options) (string, error) {
	if o.Source != "" {
		return o.Source, nil
	}
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the sources of the lab: go env GOMOD: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(out)))
	if _, err := os.Stat(filepath.Join(root, "lab", "kubernetes", "go.mod")); err != nil {
		return "", fmt.Errorf("find the sources of the lab: %w: run this inside a clone of vmdisk", err)
	}
	return root, nil
}
