// Package cluster runs a real two-node Kubernetes on one machine, as host processes: etcd, API server, controllers,
// scheduler, kube-proxy, a NetworkPolicy firewall, two kubelets with a containerd each, a DNS for Services, and the CSI
// sidecars with the lab's own driver. It is for tests and for the demo: it is quick to start, keeps nothing, and can
// always be brought up again, whatever state an earlier run was left in. It must know nothing of vmdisk.
//
// Everything about a running cluster lies under one directory of the machine (Dir), never in a clone of the repository,
// so that any clone finds, uses and cleans what another clone left behind. There is one lab per machine, because the
// bridge, the addresses and the ports are fixed.
package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"vmdisk.io/vmdisk/lab/lockfile"
)

const (
	defaultDir = "/var/lib/vmdisk-lab"

	// envDir marks every process of a lab with the directory that it belongs to, so that strays are found even when
	// their pid files are gone.
	envDir = "VMDISK_LAB_DIR"

	bridge      = "vmdisklab0"
	podNetwork  = "10.77.0.0/16"
	hostAddress = "10.77.0.1" // the bridge's: pods reach the API server and servers of the host here
	serviceNet  = "10.96.0.0/16"
	apiService  = "10.96.0.1"
	dnsService  = "10.96.0.10"
	domain      = "cluster.local"

	etcdURL     = "http://127.0.0.1:12379"
	etcdPeerURL = "http://127.0.0.1:12380"
	apiPort     = "6443"
)

// NodeNames are the lab's nodes.
func NodeNames() []string { return []string{"node-a", "node-b"} }

// Options says how a command of the lab talks and where it takes the sources from.
type Options struct {
	// Out receives one line per step; nil drops them.
	Out io.Writer
	// Source is the root of the clone whose sources are built; empty means the module around the working directory.
	Source string
}

func (o Options) say(format string, args ...any) {
	if o.Out != nil {
		// A terminal that went away must not stop the lab: the error has no reader.
		_, _ = fmt.Fprintf(o.Out, format+"\n", args...)
	}
}

// Dir is the directory that holds everything of the lab: LAB_DIR, or /var/lib/vmdisk-lab.
func Dir() string {
	dir := os.Getenv("LAB_DIR")
	if dir == "" {
		return defaultDir
	}
	absolute, err := filepath.Abs(dir)
	if err != nil { // the working directory is gone
		return dir
	}
	return absolute
}

// BinDir holds the built programs: etcd, kube-apiserver and kubectl among them, so that controller-runtime's envtest can
// take it as its BinaryAssetsDirectory.
func BinDir() string { return filepath.Join(Dir(), binName) }

// Kubeconfig is the path of the administrator's kubeconfig; the file exists while a lab is up.
func Kubeconfig() string { return filepath.Join(Dir(), "kubeconfig") }

// KubeletDir is the kubelet's root directory on the named node.
func KubeletDir(node string) string { return filepath.Join(Dir(), node, "kubelet") }

// CSIDir is the state directory of the lab's CSI driver.
func CSIDir() string { return filepath.Join(Dir(), "csi") }

// Logs is the directory of the components' logs; the ones of the run before are in logs.old beside it.
func Logs() string { return filepath.Join(Dir(), logsName) }

// labName begins the names of what a lab has outside of its directory. A lab in another directory has another one, so
// that it can run inside of namespaces of its own (for processes, mounts and the network) beside the machine's.
func labName() string {
	if Dir() == defaultDir {
		return "vmdisk-lab"
	}
	sum := sha256.Sum256([]byte(Dir()))
	return "vmdisk-lab-" + hex.EncodeToString(sum[:3])
}

// within is a path below the lab's directory.
func within(parts ...string) string {
	return filepath.Join(append([]string{Dir()}, parts...)...)
}

// lock makes the caller the only command that changes the lab, until it calls the returned function or ends.
func lock(ctx context.Context, o Options) (unlock func(), err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab needs root (it mounts, makes network devices and runs containers): run it as root or with sudo -E")
	}
	if err := requireOwn(Dir()); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(Dir(), 0o755); err != nil {
		return nil, fmt.Errorf("make the lab's directory: %w", err)
	}
	path := within(lockName)
	f, err := lockfile.Take(ctx, path, func() { o.say("waiting for another lab command to end (it holds %s)", path) })
	if err != nil {
		return nil, fmt.Errorf("keep other lab commands away: %w", err)
	}
	return func() { _ = f.Close() }, nil // closing gives the lock back; nothing was written
}

// What stays in the lab's directory while no lab is up.
const (
	lockName = "lock"
	binName  = "bin"
	logsName = "logs"
	oldName  = "logs.old"
)

// requireOwn refuses a directory that holds other things than a lab's: taking the lab down removes all that is in it. A lab's
// directory is known by its lock, which comes first and always stays; one that holds nothing but programs can become one.
func requireOwn(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look into the lab's directory: %w", err)
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == lockName }) {
		return nil
	}
	for _, entry := range entries {
		if entry.Name() != binName {
			return fmt.Errorf("LAB_DIR is %s, which holds other things (%s) that the lab would remove: name an empty or a new directory", dir, entry.Name())
		}
	}
	return nil
}
