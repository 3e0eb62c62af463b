//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/lab/serve"
)

// The image server: one pod for all scenarios, in a namespace of its own. How it behaves is in the URL's path (package serve).
const (
	web        = "e2e-web"
	serverName = "images"
	serverHost = "images.e2e-web.svc"
	user       = "tenant"
	password   = "correct-horse"
)

// serverPorts are where it listens; the second of each scheme is where redirects lead.
func serverPorts() []int32 { return []int32{80, 8080, 443, 8443} }

// startServer makes the image server anew.
func startServer(ctx context.Context, tools string) error {
	c, err := connect()
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: web}}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, namespace)); err != nil {
		return fmt.Errorf("make namespace %s: %w", web, err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: web, Name: serverName}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": serverName}}}
	for _, port := range serverPorts() {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("port-", port), Port: port})
	}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, service)); err != nil {
		return fmt.Errorf("make the image server's Service: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, soon, fmt.Errorf("the image server does not run: see kubectl -n %s describe pod", web))
	defer cancel()
	pod := serverPod(tools)
	if err := c.Delete(ctx, pod.DeepCopy()); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the image server of an earlier run: %w", err)
	}
	// It is refused as long as the old pod is there, and as a new namespace lacks its service account.
	refused := errors.New("it was not made")
	err = poll(ctx, func() (bool, error) {
		if refused != nil {
			refused = c.Create(ctx, pod.DeepCopy())
			return false, nil
		}
		err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return err == nil && podReady(pod), err
	})
	return errors.Join(err, refused)
}

// stopServer deletes the image server; its namespace and its name stay for the next run.
func stopServer(ctx context.Context) error {
	c, err := connect()
	if err != nil {
		return err
	}
	if err := c.Delete(ctx, serverPod("")); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the image server: %w", err)
	}
	return nil
}

// poll asks until the answer is yes, an error, or ctx ends.
func poll(ctx context.Context, ask func() (bool, error)) error {
	for {
		done, err := ask()
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookEvery):
		}
	}
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func serverPod(tools string) *corev1.Pod {
	directory := corev1.HostPathDirectory
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: web, Name: serverName, Labels: map[string]string{"app": serverName}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			AutomountServiceAccountToken:  new(false),
			Containers: []corev1.Container{{
				Name: "serve", Image: tools, ImagePullPolicy: corev1.PullNever,
				Args: []string{"serve", "--dir=/images", "--listen=:80,:8080", "--tls-listen=:443,:8443",
					"--tls-names=" + serverHost, "--user=" + user + ":" + password},
				VolumeMounts: []corev1.VolumeMount{{Name: "images", MountPath: "/images", ReadOnly: true}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{Path: "/stats", Port: intstr.FromInt32(80)}}},
			}},
			Volumes: []corev1.Volume{{Name: "images", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: imagesDir(), Type: &directory}}}},
		},
	}
}

// server is the image server as the test sees it, which is on the host.
type server struct {
	t       *testing.T
	address string
	tools   string
}

func (n *tenant) server() server {
	n.t.Helper()
	pod := &corev1.Pod{}
	if err := n.Get(n.t.Context(), client.ObjectKey{Namespace: web, Name: serverName}, pod); err != nil {
		n.t.Fatalf("look for the image server: %v", err)
	}
	return server{t: n.t, address: pod.Status.PodIP, tools: pod.Spec.Containers[0].Image}
}

func (s server) ask(method, path string) []byte {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.address+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatalf("ask the image server: %v", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode/100 != 2 {
		s.t.Fatalf("%s %s of the image server: %s, %v", method, path, response.Status, err)
	}
	return body
}

// turnOn lets the paths with /switch/NAME/ be served.
func (s server) turnOn(name string) { s.ask(http.MethodPost, "/switch/"+name+"/on") }

// stat is what was asked and sent for a path.
func (s server) stat(path string) serve.Stat {
	s.t.Helper()
	var stats serve.Stats
	if err := json.Unmarshal(s.ask(http.MethodGet, "/stats"), &stats); err != nil {
		s.t.Fatalf("read the image server's statistics: %v", err)
	}
	return stats[path]
}

// authorityName is the ConfigMap with the certificate authority of the image server.
const authorityName = "images-ca"

// trustServer gives the tenant the ConfigMap that its https disks name.
func (n *tenant) trustServer() {
	n.t.Helper()
	authority := string(n.server().ask(http.MethodGet, "/ca.pem"))
	n.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: authorityName}, Data: map[string]string{"ca.crt": authority}})
}

// plainURL and secureURL are of a path on the image server; the path begins without a slash.
func plainURL(path string) string {
	return "http://" + serverHost + "/" + strings.TrimPrefix(path, "/")
}
func secureURL(path string) string {
	return "https://" + serverHost + "/" + strings.TrimPrefix(path, "/")
}
