//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/v1alpha1"
)

// A source that fails is named on the disk within half a minute, is tried again, and the disk goes on by itself once the source
// is mended.
func TestSourceThatFails(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// source is what the disk reads, in the tenant's namespace.
		source func(n *tenant) *v1alpha1.HTTPSource
		says   func(n *tenant) []string
		mend   func(n *tenant)
	}{
		"404": {
			source: func(n *tenant) *v1alpha1.HTTPSource {
				return &v1alpha1.HTTPSource{URL: plainURL("switch/" + n.name + "/" + qcow2File)}
			},
			says: func(n *tenant) []string {
				return []string{"404 Not Found from http://" + serverHost + "/switch/" + n.name + "/" + qcow2File, "attempt 1", "the next try is at"}
			},
			mend: func(n *tenant) { n.server().turnOn(n.name) },
		},
		"401": {
			source: func(n *tenant) *v1alpha1.HTTPSource {
				n.create(credentials(wrongPassword))
				return &v1alpha1.HTTPSource{URL: plainURL("auth/" + qcow2File), SecretRef: credentialsName}
			},
			says: func(*tenant) []string {
				return []string{"401 Unauthorized from http://" + serverHost + "/auth/" + qcow2File, "secretRef", "attempt 1"}
			},
			mend: func(n *tenant) {
				secret := get(n, credentialsName, &corev1.Secret{})
				secret.StringData = credentials(password).StringData
				if err := n.Update(n.t.Context(), secret); err != nil {
					n.t.Fatalf("mend the Secret: %v", err)
				}
			},
		},
		"a host that no DNS knows": {
			source: func(n *tenant) *v1alpha1.HTTPSource {
				return &v1alpha1.HTTPSource{URL: "http://later." + n.name + ".svc/" + qcow2File}
			},
			says: func(n *tenant) []string { return []string{`no such host "later.` + n.name + `.svc"`, "attempt 1"} },
			mend: func(n *tenant) { n.lateName(n.server().address) },
		},
		"a port where nobody listens": {
			source: func(n *tenant) *v1alpha1.HTTPSource {
				n.lateServer()
				return &v1alpha1.HTTPSource{URL: "http://later." + n.name + ".svc/" + qcow2File}
			},
			says: func(n *tenant) []string {
				return []string{"connection refused by later." + n.name + ".svc:80", "attempt 1"}
			},
			mend: func(n *tenant) {
				slice := get(n, lateServer, &discoveryv1.EndpointSlice{})
				slice.Endpoints[0].Addresses = []string{n.server().address}
				if err := n.Update(n.t.Context(), slice); err != nil {
					n.t.Fatalf("put the image server behind the name: %v", err)
				}
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			n.create(newDisk(blockNow, test.source(n)))
			n.says("disk", told, append(test.says(n), "DataVolume disk is ImportInProgress")...)
			n.restarts(1)
			text := kubectl("-n", n.name, "describe", "vmdisk,datavolume,pvc,pod")
			if !strings.Contains(text, test.says(n)[0]) || strings.Contains(text, wrongPassword) {
				t.Errorf("whom may see the disk does not read what is wrong, or reads the password:\n%s", text)
			}
			test.mend(n)
			n.becomesReady("disk")
			n.holds("disk", diskBytes, reference(t), -1)
		})
	}
}

// restarts checks that the DataVolume counts its attempts.
func (n *tenant) restarts(atLeast int32) {
	n.t.Helper()
	dv := get(n, "disk", &cdiv1.DataVolume{})
	if dv.Status.RestartCount < atLeast || dv.Status.Phase != cdiv1.ImportInProgress {
		n.t.Errorf("the DataVolume is %s with restartCount %d, want ImportInProgress with at least %d", dv.Status.Phase, dv.Status.RestartCount, atLeast)
	}
	if c := condition(dv, cdiv1.DataVolumeRunning); c.Status == corev1.ConditionFalse && c.Reason != "Error" {
		n.t.Errorf("the DataVolume's Running is %+v, want the reason Error", c)
	}
}

const (
	credentialsName = "images-login"
	wrongPassword   = "battery-staple"
)

func credentials(password string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: credentialsName}, StringData: map[string]string{"accessKeyId": user, "secretKey": password}}
}

// lateServer is the name of a server that comes to be while a disk waits for it.
const lateServer = "later"

// lateServer makes a name for a pod that runs, but does not listen.
func (n *tenant) lateServer() {
	n.t.Helper()
	n.create(restrictedPod(lateServer, n.server().tools, "pause"))
	pod := &corev1.Pod{}
	n.eventually(soon, "the pod has an address", func() error {
		if pod = get(n, lateServer, &corev1.Pod{}); pod.Status.PodIP == "" {
			return fmt.Errorf("its phase is %s", pod.Status.Phase)
		}
		return nil
	})
	n.lateName(pod.Status.PodIP)
}

// lateName makes the name, for an address.
func (n *tenant) lateName(address string) {
	n.t.Helper()
	n.create(
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: lateServer}, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}}},
		&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: lateServer, Labels: map[string]string{discoveryv1.LabelServiceName: lateServer}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
			Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(80)), Protocol: new(corev1.ProtocolTCP)}},
		})
}

// A server may lack what a good one has, as long as it delivers in the end.
func TestServerThatIsPoor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path func(n *tenant) string
		// restarts is the number of attempts that fail.
		restarts int32
	}{
		"without Range and HEAD":             {path: func(n *tenant) string { return "norange/" + gate(n) }},
		"without Content-Length":             {path: func(n *tenant) string { return "nolength/" + gate(n) }},
		"that answers 302 to another port":   {path: func(n *tenant) string { return "redirect/8080/" + gate(n) }},
		"that answers 302 from http to TLS":  {path: func(n *tenant) string { return "redirect/https:8443/" + gate(n) }},
		"that fails at first":                {path: func(n *tenant) string { return "flaky/2/" + gate(n) }, restarts: 1},
		"that drops the connection at times": {path: func(n *tenant) string { return "cut/5000000/" + gate(n) }},
	} {
		for _, file := range []string{qcow2File, rawFile} {
			if file == rawFile && !strings.HasPrefix(name, "without") {
				continue // what is read differs only where it can't be read twice
			}
			t.Run(fmt.Sprintf("%s, %s", name, file), func(t *testing.T) {
				t.Parallel()
				n := newTenant(t)
				n.trustServer()
				n.server().turnOn(n.name)
				n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: plainURL(test.path(n) + file), CertConfigMap: authorityName}))
				n.becomesReady("disk")
				n.holds("disk", diskBytes, reference(t), dataBytes(n))
				if got := get(n, "disk", &cdiv1.DataVolume{}).Status.RestartCount; got < test.restarts {
					t.Errorf("restartCount is %d, want at least %d", got, test.restarts)
				}
			})
		}
	}
}

// gate makes a path the tenant's own, so that what the server counts for it is this tenant's alone.
func gate(n *tenant) string { return "switch/" + n.name + "/" }

// What can never become the disk is refused: Failed, with the reason on the VMDisk, and not one byte of another file read.
func TestImageThatIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		class    string // empty: blockNow
		path     string
		checksum string
		says     []string
		reason   string
		// touched says that the volume may have been written before it was known.
		touched bool
	}{
		"an image larger than its file can be": {class: filesNow, path: largerFile, says: []string{fmt.Sprint(largerBytes), fmt.Sprint(diskBytes)}},
		"an image larger than the disk":        {path: largerFile, says: []string{fmt.Sprint(largerBytes), fmt.Sprint(diskBytes)}},
		"an HTML page in place of an image":    {path: "html/" + qcow2File, says: []string{"this is a web page"}},
		"a backing file beside the image":      {path: backingFile, says: []string{"backing file", otherFile}},
		"a backing file on the worker's node":  {path: passwdFile, says: []string{"backing file", "/etc/passwd"}},
		"an image that is not the one expected": {path: qcow2File, checksum: "sha256:" + strings.Repeat("0123456789abcdef", 4),
			says: []string{"sha256"}, reason: "ChecksumError", touched: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			n.server().turnOn(n.name)
			n.create(newDisk(cmp.Or(test.class, blockNow), &v1alpha1.HTTPSource{URL: plainURL(gate(n) + test.path), Checksum: test.checksum}))
			n.says("disk", told, append(test.says, "DataVolume disk is Failed")...)
			dv := get(n, "disk", &cdiv1.DataVolume{})
			want := test.reason
			if want == "" {
				want = "Error"
			}
			if c := condition(dv, cdiv1.DataVolumeRunning); c.Status != corev1.ConditionFalse || c.Reason != want {
				t.Errorf("the DataVolume's Running is %+v, want False with reason %s", c, want)
			}
			if v := n.volume("disk"); v.mode() == corev1.PersistentVolumeBlock && !test.touched {
				if occupied := allocated(t, v.file); occupied > 0 {
					t.Errorf("%d bytes were written for an image that is refused", occupied)
				}
			}
			if stat := n.server().stat("/" + gate(n) + otherFile); stat.Requests > 0 {
				t.Errorf("the backing file was asked for: %+v", stat)
			}
			n.eventually(soon, "there is no worker any more", func() error {
				if worker := n.worker(); worker != nil {
					return fmt.Errorf("pod %s is there", worker.Name)
				}
				return nil
			})
		})
	}
}
