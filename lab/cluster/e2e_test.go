//go:build e2e

package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/lab/image"
)

const probeImage = "vmdisk-lab/probe:1"

// lab is a running lab, and a namespace in it that goes when the test ends.
type lab struct {
	client.Client
	t         *testing.T
	namespace string
}

// newLab brings the lab up, if it isn't, and gives it the image of the probe.
func newLab(t *testing.T, namespace, podSecurity string) lab {
	t.Helper()
	if err := Up(t.Context(), Options{Out: testWriter{t}}); err != nil {
		t.Fatalf("bring the lab up: %v", err)
	}
	dir := t.TempDir()
	program, archive := filepath.Join(dir, "probe"), filepath.Join(dir, "probe.tar")
	if err := image.Compile(t.Context(), ".", "./testdata/probe", program); err != nil {
		t.Fatal(err)
	}
	files := []image.File{{Path: "/probe", Source: program, Mode: 0o755}}
	if _, err := image.Build(archive, probeImage, files, image.Config{Entrypoint: []string{"/probe"}}); err != nil {
		t.Fatal(err)
	}
	if err := Load(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	c, err := newClient()
	if err != nil {
		t.Fatal(err)
	}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: namespace + "-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": podSecurity},
	}}
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	l := lab{Client: c, t: t, namespace: object.Name}
	t.Cleanup(func() { // its end is not waited for: it takes a quarter of a minute, and the next test has another one
		if err := c.Delete(context.WithoutCancel(t.Context()), object); err != nil {
			t.Errorf("remove namespace %s: %v", object.Name, err)
		}
	})
	l.wait("the namespace's service account", func(ctx context.Context) error {
		return c.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: "default"}, &corev1.ServiceAccount{})
	})
	return l
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func (l lab) create(object client.Object) {
	l.t.Helper()
	object.SetNamespace(l.namespace)
	if err := l.Create(l.t.Context(), object); err != nil {
		l.t.Fatalf("create %s: %v", object.GetName(), err)
	}
}

func (l lab) wait(what string, check func(ctx context.Context) error) {
	l.t.Helper()
	if err := poll(l.t.Context(), 90*time.Second, check); err != nil {
		l.t.Fatalf("wait for %s: %v", what, err)
	}
}

// pod is a restricted pod that runs the probe once, as the user that vmdisk's workers have.
func pod(name string, args ...string) *corev1.Pod {
	id, yes, no := int64(107), true, false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: &id, RunAsGroup: &id, FSGroup: &id, RunAsNonRoot: &yes,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "probe", Image: probeImage, ImagePullPolicy: corev1.PullNever, Args: args,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no,
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// outcome runs a pod to its end and returns whether it succeeded and what it said, read as kubectl logs does.
func (l lab) outcome(p *corev1.Pod) (ok bool, said string) {
	l.t.Helper()
	l.create(p)
	l.wait("pod "+p.Name+" to end", func(ctx context.Context) error {
		if err := l.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("its phase is %s: %+v", p.Status.Phase, p.Status.Conditions)
		}
		return nil
	})
	said, err := run(l.t.Context(), "", program("kubectl"), "--kubeconfig", Kubeconfig(), "-n", l.namespace, "logs", p.Name)
	if err != nil {
		l.t.Fatal(err)
	}
	return p.Status.Phase == corev1.PodSucceeded, strings.TrimSpace(said)
}

// server runs the probe as a server on the ports and returns its address.
func (l lab) server(node string, ports ...string) string {
	l.t.Helper()
	p := pod("server", append([]string{"serve"}, ports...)...)
	p.Labels = map[string]string{"app": "server"}
	p.Spec.NodeName = node
	p.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
	l.create(p)
	l.wait("the server to run", func(ctx context.Context) error {
		if err := l.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.PodIP == "" {
			return errors.New("it has no address yet")
		}
		return httpOK("http://" + p.Status.PodIP + ":" + ports[0])(ctx)
	})
	return p.Status.PodIP
}

func TestServicesAndTheirNamesWorkFromPodsOfBothNodes(t *testing.T) {
	l := newLab(t, "lab-names", "baseline")
	l.server("node-a", "8080")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "server"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "server"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	l.create(service)
	tests := map[string]struct {
		args []string
		want bool
	}{
		"the API server by its name":      {[]string{"get", "https://kubernetes.default.svc/version"}, true},
		"a Service by its short name":     {[]string{"get", "http://server"}, true},
		"a name outside, refused at once": {[]string{"resolve", "cloud.debian.org"}, false},
		"a Service that there is not":     {[]string{"resolve", "nothing.default.svc.cluster.local"}, false},
	}
	number := 0
	for name, test := range tests {
		for _, node := range NodeNames() {
			number++
			p := pod(fmt.Sprintf("client-%d", number), test.args...)
			p.Spec.NodeName = node
			started := time.Now()
			ok, said := l.outcome(p)
			t.Logf("%s on %s: %s", name, node, said)
			if ok != test.want {
				t.Errorf("%s on %s: success is %t, wanted %t: %s", name, node, ok, test.want, said)
			}
			if !test.want && !strings.Contains(said, "no such host") {
				t.Errorf("%s on %s: it should not exist, after %s: %s", name, node, time.Since(started), said)
			}
		}
	}
}

func TestNetworkPoliciesAreEnforced(t *testing.T) {
	l := newLab(t, "lab-policy", "baseline")
	address := l.server("node-a", "80", "443")
	port := intstr.FromInt32(443)
	l.create(&networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "only-443"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "containerized-data-importer"}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress:      []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}}},
		},
	})
	tests := map[string]struct {
		label, port string
		want        bool
	}{
		"free-80":      {"somebody", "80", true},
		"bound-443":    {"containerized-data-importer", "443", true},
		"bound-not-80": {"containerized-data-importer", "80", false},
	}
	for _, node := range NodeNames() {
		for name, test := range tests {
			p := pod(name+"-"+node, "get", "http://"+address+":"+test.port)
			p.Labels = map[string]string{"app": test.label}
			p.Spec.NodeName = node
			if ok, said := l.outcome(p); ok != test.want {
				t.Errorf("%s on %s: reached is %t, wanted %t: %s", name, node, ok, test.want, said)
			}
		}
	}
}

func TestEveryClassServesBothKindsOfVolumesToARestrictedPod(t *testing.T) {
	l := newLab(t, "lab-volumes", "restricted")
	for _, class := range []string{"replicated", "replicated-wffc", "local", "generic", "generic-immediate", "plain", "plain-immediate"} {
		for _, mode := range []corev1.PersistentVolumeMode{corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem} {
			name := class + "-" + strings.ToLower(string(mode))
			l.create(&corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: &class, VolumeMode: &mode, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}},
				},
			})
			p := pod(name, "write", "/disk")
			p.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}}}
			if mode == corev1.PersistentVolumeBlock {
				p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: "/disk"}}
			} else {
				p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "disk", MountPath: "/volume"}}
				p.Spec.Containers[0].Args = []string{"write", "/volume/disk.img"}
			}
			started := time.Now()
			ok, said := l.outcome(p)
			t.Logf("%s: %s after %s", name, said, time.Since(started).Round(100*time.Millisecond))
			if !ok {
				t.Errorf("%s: %s", name, said)
			}
			if err := l.Delete(t.Context(), p); err != nil {
				t.Error(err)
			}
		}
	}
}
