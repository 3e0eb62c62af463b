package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"vmdisk.io/vmdisk/lab/csi"
)

// nodeCapacity is what a node's volumes may add up to, in bytes. The files behind them are sparse.
const nodeCapacity = 200 << 30

// drivers are the names that the lab's CSI driver answers to. The short name is for files and logs.
func drivers() []struct {
	short string
	csi.Driver
} {
	return []struct {
		short string
		csi.Driver
	}{
		{"linstor", csi.Driver{
			Name: "linstor.csi.linbit.com", AttachRequired: true, Clones: true, Snapshots: true, StuckClones: true, ControllerSocket: within("csi-linstor.sock"),
		}},
		{"generic", csi.Driver{Name: "generic.csi.lab", Clones: true, Snapshots: true, ControllerSocket: within("csi-generic.sock")}},
		{"plain", csi.Driver{Name: "plain.csi.lab", ControllerSocket: within("csi-plain.sock")}},
	}
}

func csiConfig() csi.Config {
	config := csi.Config{StateDir: CSIDir()}
	for _, d := range drivers() {
		config.Drivers = append(config.Drivers, d.Driver)
	}
	for _, node := range NodeNames() {
		config.Nodes = append(config.Nodes, csi.Node{Name: node, KubeletDir: KubeletDir(node), CapacityBytes: nodeCapacity})
	}
	return config
}

// csiDriver is the driver itself, for all names and both nodes.
func csiDriver() (component, error) {
	encoded, err := json.MarshalIndent(csiConfig(), "", "  ")
	if err != nil {
		return component{}, fmt.Errorf("write the CSI driver's configuration: %w", err)
	}
	config := within("csi.json")
	return component{
		name:    "csi-driver",
		argv:    []string{program("lab-csi"), "--config", config},
		files:   map[string]string{config: string(encoded)},
		respawn: true,
		ready: func(ctx context.Context) error {
			var errs []error
			for _, d := range drivers() {
				connection, err := new(net.Dialer).DialContext(ctx, "unix", d.ControllerSocket)
				if err == nil {
					err = connection.Close()
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}, nil
}

// sidecars are the processes that carry claims, attachments, resizes and snapshots from the API server to the driver.
func sidecars() []component {
	list := []component{{
		name: "snapshot-controller", respawn: true,
		argv: []string{program("snapshot-controller"), "--kubeconfig=" + kubeconfigOf("csi"), "--kube-api-qps=50", "--kube-api-burst=100", "--retry-interval-start=500ms"},
	}}
	for _, d := range drivers() {
		common := []string{
			"--csi-address=" + d.ControllerSocket,
			"--kubeconfig=" + kubeconfigOf("csi"),
			"--kube-api-qps=50",
			"--kube-api-burst=100",
			"--retry-interval-start=500ms",
			"--retry-interval-max=10s",
			"--timeout=60s",
		}
		add := func(program string, args ...string) {
			list = append(list, component{
				name: program + "-" + d.short, argv: append(append([]string{BinDir() + "/" + program}, common...), args...), respawn: true,
			})
		}
		add("csi-provisioner", "--extra-create-metadata", "--default-fstype=ext4", "--feature-gates=Topology=true")
		add("csi-resizer")
		if d.AttachRequired {
			add("csi-attacher", "--default-fstype=ext4")
		}
		if d.Snapshots {
			add("csi-snapshotter", "--extra-create-metadata")
		}
	}
	return list
}
