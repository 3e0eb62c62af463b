package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"vmdisk.io/vmdisk/config"
	"vmdisk.io/vmdisk/lab/apiserver"
	"vmdisk.io/vmdisk/lab/deploy"
)

const (
	// account is whose calls are counted.
	account  = "system:serviceaccount:vmdisk:vmdisk-controller"
	auditLog = "audit.jsonl"
)

// auditPolicy writes down that the controller has asked for something, once it is answered.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: ["` + account + `"]
- level: None
`

// plane is an API server with vmdisk's kinds and objects.
type plane struct {
	environment *envtest.Environment
	admin       *rest.Config
}

func startPlane(ctx context.Context, dir string) (*plane, error) {
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, fmt.Errorf("write the audit policy: %w", err)
	}
	environment, err := apiserver.Run(
		[2]string{"audit-policy-file", policy}, [2]string{"audit-log-path", filepath.Join(dir, auditLog)},
		// A node's name resolves nowhere on this machine, and logs are read from the node.
		[2]string{"kubelet-preferred-address-types", "InternalIP"})
	if err != nil {
		return nil, err
	}
	p := &plane{environment: environment, admin: environment.Config}
	if err := p.install(ctx); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *plane) stop() error { return p.environment.Stop() }

// install makes vmdisk's kinds and objects. The configuration of webhooks stays, for the controller that looks after it, but is empty: no
// Service leads to the controller here.
func (p *plane) install(ctx context.Context) error {
	if err := deploy.Apply(ctx, p.admin, config.DefaultImage); err != nil {
		return fmt.Errorf("install vmdisk's kinds and objects: %w", err)
	}
	s, err := scheme()
	if err != nil {
		return err
	}
	c, err := client.New(p.admin, client.Options{Scheme: s})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	var all admissionv1.ValidatingWebhookConfigurationList
	if err := c.List(ctx, &all); err != nil {
		return fmt.Errorf("list vmdisk's webhooks: %w", err)
	}
	for _, w := range all.Items {
		w.Webhooks = nil
		if err := c.Update(ctx, &w); err != nil {
			return fmt.Errorf("turn vmdisk's webhooks off: %w", err)
		}
	}
	return nil
}

// controller is a running "vmdisk controller".
type controller struct {
	command *exec.Cmd
	ended   chan error
	address string // of its metrics
	log     string
}

func (p *plane) startController(ctx context.Context, program, dir string) (*controller, error) {
	user, err := p.environment.AddUser(envtest.User{Name: account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:vmdisk"}}, nil)
	if err != nil {
		return nil, fmt.Errorf("make the controller's credentials: %w", err)
	}
	access, err := user.KubeConfig()
	if err != nil {
		return nil, fmt.Errorf("make the controller's kubeconfig: %w", err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, access, 0o600); err != nil {
		return nil, fmt.Errorf("write the controller's kubeconfig: %w", err)
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	c := &controller{address: "127.0.0.1:" + ports[0], log: filepath.Join(dir, "controller.log"), ended: make(chan error, 1)}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, fmt.Errorf("make the controller's log: %w", err)
	}
	defer log.Close() // the controller has its own
	c.command = exec.Command(program, "controller", "--worker-image="+config.DefaultImage,
		"--metrics-address="+c.address, "--probe-address=0", "--webhook-port="+ports[1])
	c.command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	c.command.Stdout, c.command.Stderr = log, log
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() { c.ended <- c.command.Wait() }()
	for !c.leads(ctx) {
		select {
		case err := <-c.ended:
			c.ended <- err
			return nil, fmt.Errorf("the controller ended: %w; it said: %s", err, c.lastWords())
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), c.stop())
		case <-time.After(100 * time.Millisecond):
		}
	}
	return c, nil
}

// leads says whether the controller holds the lease, and has begun to work.
func (c *controller) leads(ctx context.Context) bool {
	text, err := c.metrics(ctx)
	return err == nil && strings.Contains(text, `leader_election_master_status{name="vmdisk-controller"} 1`) &&
		strings.Contains(text, `controller_runtime_max_concurrent_reconciles{controller="datavolume"}`)
}

// stop tells the controller to end, and waits for that.
func (c *controller) stop() error {
	if err := c.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the controller: %w", err)
	}
	select {
	case <-c.ended: // how it ends is not what is measured
		return nil
	case <-time.After(time.Minute):
		return errors.Join(errors.New("the controller did not end within a minute of being told to, and was killed"), c.command.Process.Kill())
	}
}

// metrics is what Prometheus would read.
func (c *controller) metrics(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+"/metrics", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("read the controller's metrics: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// peakMemory is the most that the controller has had in memory, in bytes.
func (c *controller) peakMemory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.command.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the controller's memory: %w", err)
	}
	found := regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`).FindSubmatch(text)
	if found == nil {
		return 0, errors.New("the kernel doesn't say how much memory the controller has had")
	}
	kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	return kilobytes << 10, err
}

// lastWords are the end of the controller's log.
func (c *controller) lastWords() string {
	const most = 2000
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// freePorts are ports of this machine that nobody listens on just now.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // only at the end, so that each is another one
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
