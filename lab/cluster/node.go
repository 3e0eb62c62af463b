package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
)

// pauseImage holds every pod's sandbox.
const pauseImage = "vmdisk-lab/pause:1"

func insecureTransport() *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
}

func containerdSocket(node string) string { return within(node, "containerd.sock") }

// containerd runs a node's containers. Everything that it would keep in the system's directories is the node's own, so
// that two can run side by side, beside Debian's service, and be removed without a trace.
func containerd(node string) component {
	config := within(node, "containerd.toml")
	return component{
		name: "containerd-" + node,
		argv: []string{"containerd", "--config", config},
		files: map[string]string{config: fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.tracing"]
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  # Where the machine lacks CAP_SYS_RESOURCE, no sandbox starts without this.
  restrict_oom_score_adj = true
  # Raw block volumes belong to the container's user, as on a node that is set up for virtual machines.
  device_ownership_from_security_context = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = %q
`, within(node, "containerd"), within(node, "run"), containerdSocket(node), pauseImage, within(node, "cni"), within(node, "runc"))},
		prepare: func() error {
			network, err := cniConfig(node)
			if err != nil {
				return err
			}
			return writeFile(within(node, "cni", "10-lab.conflist"), network, 0o644)
		},
		ready: func(ctx context.Context) error {
			_, err := ctr(ctx, node, "version")
			return err
		},
	}
}

// ctr runs containerd's own command line client against a node, where the kubelet's images and containers are.
func ctr(ctx context.Context, node string, args ...string) (string, error) {
	return run(ctx, "", "ctr", append([]string{"-a", containerdSocket(node), "-n", "k8s.io"}, args...)...)
}

// kubelet runs a node's pods. Ports differ per node because both have the machine's address.
func kubelet(node string) component {
	ports := map[string][2]int{"node-a": {10250, 10248}, "node-b": {10251, 10247}}[node]
	config := within(node, "kubelet.yaml")
	return component{
		name: "kubelet-" + node,
		argv: []string{
			program("kubelet"),
			"--config=" + config,
			"--kubeconfig=" + kubeconfigOf(node),
			"--root-dir=" + KubeletDir(node),
			"--cert-dir=" + within(node, "kubelet-pki"),
			"--hostname-override=" + node,
			"--node-ip=" + hostAddress,
			"--housekeeping-interval=30s",
		},
		files: map[string]string{config: fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
port: %d
healthzPort: %d
containerRuntimeEndpoint: unix://%s
authentication: {x509: {clientCAFile: %q}, webhook: {enabled: true}, anonymous: {enabled: false}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: /%s
failCgroupV1: false
failSwapOn: false
clusterDNS: [%s]
clusterDomain: %s
resolvConf: ""
# Two kubelets in one directory delete each other's logs.
podLogsDir: %q
volumePluginDir: %q
# A full disk of the machine is for people to see, not for kubelets to clean up behind a test's back.
evictionHard: {memory.available: 100Mi, nodefs.available: 1%%, imagefs.available: 1%%}
imageGCHighThresholdPercent: 100
# A kubelet uses an attached volume only after it has told the API server so with its status: this is a pod's wait for
# its disk. Unchanged statuses are not sent.
nodeStatusUpdateFrequency: 2s
nodeStatusReportFrequency: 5m
volumeStatsAggPeriod: 5m
serializeImagePulls: false
registerWithTaints: []
`, ports[0], ports[1], containerdSocket(node), pki("ca.crt"), cgroupName(node), dnsService, domain,
			within(node, "pods"), within(node, "volume-plugins"))},
		prepare: func() error { return makeCgroup(node) },
		ready:   httpOK(fmt.Sprintf("http://127.0.0.1:%d/healthz", ports[1])),
	}
}
