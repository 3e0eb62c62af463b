// Package csi is the lab's CSI driver: real block devices and filesystems on one machine, under any number of driver
// names, for two or more nodes that share this machine's kernel.
//
// One host process serves everything: for each driver a controller socket, and for each driver on each node a node
// socket and a registration socket in that kubelet's directory. A volume is a sparse file behind a loop device, so a
// test can hash its bytes and count its allocated blocks from the host (BackingFile). The driver enforces what a real
// one would (topology, multi-attach, capacity) and can be told to fail, delay or refuse any call (SetFaults).
//
// It must not know Kubernetes objects, nor vmdisk: it speaks the CSI specification (v1.11 and later) and the kubelet's
// plugin registration, nothing else.
package csi

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Config says what one process serves. Its JSON form is the file given to lab-csi with --config.
type Config struct {
	// StateDir holds the state file, the volumes' backing files and the faults file. It is made if it is missing.
	StateDir string `json:"stateDir"`
	// Drivers are the names under which the same driver answers.
	Drivers []Driver `json:"drivers"`
	// Nodes are the kubelets that the driver serves.
	Nodes []Node `json:"nodes"`
}

// Driver is one driver name, as in a CSIDriver object and in a StorageClass's provisioner.
type Driver struct {
	// Name is the driver's name, for example "linstor.csi.linbit.com".
	Name string `json:"name"`
	// AttachRequired makes the driver advertise ControllerPublishVolume; it must equal the CSIDriver object's
	// attachRequired.
	AttachRequired bool `json:"attachRequired"`
	// Clones and Snapshots make the driver advertise that it makes volumes from volumes, and snapshots and volumes from them.
	Clones    bool `json:"clones,omitempty"`
	Snapshots bool `json:"snapshots,omitempty"`
	// StuckClones is LINSTOR's way with a clone that is asked for a node without the source's data: it is tried for ever, so
	// that each call ends with its deadline. Other drivers make it where the data is, or answer that there is no room.
	StuckClones bool `json:"stuckClones,omitempty"`
	// ControllerSocket is the path of the unix socket for the sidecars (provisioner, attacher, resizer).
	ControllerSocket string `json:"controllerSocket"`
}

// Node is one kubelet.
type Node struct {
	// Name is the node's name in Kubernetes, and its CSI node ID.
	Name string `json:"name"`
	// KubeletDir is the kubelet's --root-dir.
	KubeletDir string `json:"kubeletDir"`
	// CapacityBytes is what the volumes of all drivers on this node may add up to; a replicated volume counts on
	// every node.
	CapacityBytes int64 `json:"capacityBytes"`
}

// maxSocketPath is how long a unix socket's path may be (sun_path in unix(7), less its ending zero byte).
const maxSocketPath = 107

// LoadConfig reads and checks the JSON file at path.
func LoadConfig(path string) (Config, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read the driver's configuration: %w", err)
	}
	var config Config
	if err := json.Unmarshal(raw, &config); err != nil {
		return Config{}, fmt.Errorf("read the driver's configuration %s: %w", path, err)
	}
	return config, config.Validate()
}

// Validate says everything that is wrong with the configuration, in one error.
func (c Config) Validate() error {
	var problems []error
	if !filepath.IsAbs(c.StateDir) {
		problems = append(problems, fmt.Errorf("stateDir %q is not an absolute path", c.StateDir))
	}
	if len(c.Drivers) == 0 {
		problems = append(problems, errors.New("drivers is empty: there is nothing to serve"))
	}
	sockets := make([]string, 0, len(c.Drivers)*(1+2*len(c.Nodes)))
	for _, driver := range c.Drivers {
		if driver.Name == "" {
			problems = append(problems, errors.New("a driver has no name"))
		}
		sockets = append(sockets, driver.ControllerSocket)
		for _, node := range c.Nodes {
			sockets = append(sockets, node.Socket(driver.Name), node.RegistrationSocket(driver.Name))
		}
	}
	for _, node := range c.Nodes {
		if node.Name == "" {
			problems = append(problems, fmt.Errorf("the node with kubeletDir %q has no name", node.KubeletDir))
		}
		if node.CapacityBytes <= 0 {
			problems = append(problems, fmt.Errorf("node %q has capacityBytes %d; it must be above zero", node.Name, node.CapacityBytes))
		}
	}
	return errors.Join(append(problems, checkSockets(sockets)...)...)
}

func checkSockets(paths []string) []error {
	var problems []error
	seen := make(map[string]bool, len(paths))
	for _, path := range paths {
		switch {
		case !filepath.IsAbs(path):
			problems = append(problems, fmt.Errorf("socket %q is not an absolute path", path))
		case len(path) > maxSocketPath:
			problems = append(problems, fmt.Errorf("socket %s is %d bytes long, more than the %d that a unix socket's path may have: use a shorter directory",
				path, len(path), maxSocketPath))
		case seen[path]:
			problems = append(problems, fmt.Errorf("socket %s is used twice: driver and node names must differ", path))
		}
		seen[path] = true
	}
	return problems
}

// Socket is where the driver's node service listens for this node's kubelet.
func (n Node) Socket(driver string) string {
	return filepath.Join(n.KubeletDir, "plugins", driver, "csi.sock")
}

// RegistrationSocket is where this node's kubelet finds the driver.
func (n Node) RegistrationSocket(driver string) string {
	return filepath.Join(n.KubeletDir, "plugins_registry", driver+"-reg.sock")
}

// linstor is the one driver whose own topology key others rely on.
const linstor = "linstor.csi.linbit.com"

// TopologyKey is the node label, and the key in a volume's node affinity, that the driver uses: its value is the
// node's name.
func TopologyKey(driver string) string {
	if driver == linstor {
		return "linbit.com/hostname"
	}
	return "topology." + driver + "/node"
}
