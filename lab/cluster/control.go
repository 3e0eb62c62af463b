package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func program(name string) string { return filepath.Join(BinDir(), name) }

// etcd keeps the cluster's objects. A lab's data is worth nothing after a crash of the machine, so it doesn't wait for
// the disk.
func etcd() component {
	return component{
		name: "etcd",
		argv: []string{
			program("etcd"),
			"--name=lab",
			"--data-dir=" + within("etcd"),
			"--listen-client-urls=" + etcdURL,
			"--advertise-client-urls=" + etcdURL,
			"--listen-peer-urls=" + etcdPeerURL,
			"--initial-advertise-peer-urls=" + etcdPeerURL,
			"--initial-cluster=lab=" + etcdPeerURL,
			"--unsafe-no-fsync",
			"--snapshot-count=5000",
			"--log-level=warn",
		},
		ready: httpOK(etcdURL + "/readyz"),
	}
}

func apiServer() component {
	return component{
		name: "kube-apiserver",
		argv: []string{
			program("kube-apiserver"),
			"--etcd-servers=" + etcdURL,
			"--bind-address=0.0.0.0",
			"--advertise-address=" + hostAddress,
			"--secure-port=" + apiPort,
			"--tls-cert-file=" + pki("apiserver.crt"),
			"--tls-private-key-file=" + pki("apiserver.key"),
			"--client-ca-file=" + pki("ca.crt"),
			"--service-cluster-ip-range=" + serviceNet,
			"--service-account-issuer=https://kubernetes.default.svc." + domain,
			"--service-account-key-file=" + pki("service-accounts.pub"),
			"--service-account-signing-key-file=" + pki("service-accounts.key"),
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true",
			"--kubelet-client-certificate=" + pki("kubelet-client.crt"),
			"--kubelet-client-key=" + pki("kubelet-client.key"),
			// A node's name resolves nowhere on this machine.
			"--kubelet-preferred-address-types=InternalIP",
			"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"),
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file=" + pki("front-proxy-client.crt"),
			"--proxy-client-key-file=" + pki("front-proxy-client.key"),
			"--enable-aggregator-routing=true",
			"--endpoint-reconciler-type=lease",
			"--shutdown-delay-duration=0s",
			"--event-ttl=1h",
			"--profiling=false",
		},
		ready: func(ctx context.Context) error { return apiReady(ctx) },
	}
}

func controllerManager() component {
	return component{
		name: "kube-controller-manager",
		argv: []string{
			program("kube-controller-manager"),
			"--kubeconfig=" + kubeconfigOf("controller-manager"),
			"--authentication-kubeconfig=" + kubeconfigOf("controller-manager"),
			"--authorization-kubeconfig=" + kubeconfigOf("controller-manager"),
			"--bind-address=127.0.0.1",
			"--leader-elect=false",
			"--use-service-account-credentials=true",
			"--service-account-private-key-file=" + pki("service-accounts.key"),
			"--root-ca-file=" + pki("ca.crt"),
			"--cluster-signing-cert-file=" + pki("ca.crt"),
			"--cluster-signing-key-file=" + pki("ca.key"),
			"--service-cluster-ip-range=" + serviceNet,
			"--kube-api-qps=100",
			"--kube-api-burst=200",
			"--profiling=false",
		},
		ready: httpOK("https://127.0.0.1:10257/healthz"),
	}
}

func kubeScheduler() component {
	return component{
		name: "kube-scheduler",
		argv: []string{
			program("kube-scheduler"),
			"--kubeconfig=" + kubeconfigOf("scheduler"),
			"--authentication-kubeconfig=" + kubeconfigOf("scheduler"),
			"--authorization-kubeconfig=" + kubeconfigOf("scheduler"),
			"--bind-address=127.0.0.1",
			"--leader-elect=false",
			"--kube-api-qps=100",
			"--kube-api-burst=200",
			"--profiling=false",
		},
		ready: httpOK("https://127.0.0.1:10259/healthz"),
	}
}

// kubeProxy makes Services work. One process is enough, because both nodes share the machine's packet filter. It is ready once the rules are
// there that lead pods to the API server: its own health is good before it has written any. A write that failed is tried again after
// syncPeriod only, unless a Service changes meanwhile.
func kubeProxy() component {
	config := within("kube-proxy.yaml")
	return component{
		name: "kube-proxy",
		argv: []string{program("kube-proxy"), "--config=" + config},
		files: map[string]string{config: fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: %q}
mode: iptables
clusterCIDR: %q
hostnameOverride: %q
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
# Setting the kernel's limit of connections is not the lab's business.
conntrack: {maxPerCore: 0, min: 0}
iptables: {minSyncPeriod: 100ms, syncPeriod: 10s}
`, kubeconfigOf("proxy"), podNetwork, NodeNames()[0])},
		ready: func(ctx context.Context) error {
			if err := httpOK("http://127.0.0.1:10256/healthz")(ctx); err != nil {
				return err
			}
			return leadsToAPI(ctx)
		},
	}
}

// leadsToAPI says why pods don't reach the API server by its Service yet.
func leadsToAPI(ctx context.Context) error {
	rules, err := run(ctx, "", "iptables", "-w", "-t", "nat", "-S", "KUBE-SERVICES")
	if err != nil {
		return fmt.Errorf("there are no rules for Services yet: %w", err)
	}
	if !strings.Contains(rules, " -d "+apiService+"/32 ") {
		return fmt.Errorf("there is no rule for the API server's Service %s yet", apiService)
	}
	return nil
}

// firewall enforces NetworkPolicies. One process is enough: both nodes have the machine's address.
func firewall() component {
	return component{
		name: "kube-router",
		argv: []string{
			program("kube-router"),
			"--kubeconfig=" + kubeconfigOf("firewall"),
			"--run-router=false",
			"--run-service-proxy=false",
			"--run-firewall=true",
			"--hostname-override=" + NodeNames()[0],
			"--service-cluster-ip-range=" + serviceNet,
			"--iptables-sync-period=5m",
			"--health-port=20244",
		},
		respawn: true,
		ready:   httpOK("http://127.0.0.1:20244/healthz"),
	}
}

// gatekeeper keeps pods off the network until the firewall knows them.
func gatekeeper() component {
	return component{
		name:    "lab-gate",
		argv:    []string{program("lab-gate"), "--kubeconfig=" + kubeconfigOf("firewall"), "--chain=" + gateChain},
		respawn: true,
	}
}

// httpOK is a readiness check: the URL answers 200. Certificates aren't checked: nothing secret is sent.
func httpOK(url string) func(ctx context.Context) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: insecureTransport()}
	return func(ctx context.Context) (err error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, response.Body.Close()) }()
		body, err := io.ReadAll(io.LimitReader(response.Body, 300))
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s: %s", url, response.Status, body)
		}
		return nil
	}
}

// RESTConfig is the administrator's access to the lab.
func RESTConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read the lab's kubeconfig: %w: is the lab up?", err)
	}
	config.QPS, config.Burst = 100, 200
	return config, nil
}

func apiReady(ctx context.Context) error {
	config, err := RESTConfig()
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, apiURL+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("/readyz answers %s", response.Status)
	}
	return errors.Join(err, response.Body.Close())
}
