package check

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/plan/profile"
)

var update = flag.Bool("update", false, "write the golden findings anew")

var now = time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)

// certificate makes an authority and a certificate by it, in PEM.
func certificate(t *testing.T, end time.Time) (authority, serving []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issuer := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "serving"}, NotBefore: now.AddDate(-1, 0, 0), NotAfter: end, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	made := func(c *x509.Certificate) []byte {
		der, err := x509.CreateCertificate(rand.Reader, c, issuer, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	return made(issuer), made(leaf)
}

// fit is a cluster in which nothing is wrong.
func fit(t *testing.T) Seen {
	authority, serving := certificate(t, now.AddDate(0, 0, 60))
	controller := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "vmdisk", Name: "vmdisk-controller"}, Status: appsv1.DeploymentStatus{AvailableReplicas: 1}}
	controller.Spec.Template.Spec.Containers = []corev1.Container{{Image: "vmdisk:v1", Args: []string{"controller", "--worker-image=vmdisk:v1"}}}
	hook := admissionv1.ValidatingWebhook{Name: "disks-from-images.vmdisk.io"}
	hook.ClientConfig.CABundle, hook.ClientConfig.Service = authority, &admissionv1.ServiceReference{Namespace: "vmdisk", Name: "vmdisk-webhooks"}
	s := Seen{
		At:          now,
		CRDs:        []CRD{{"vmdisks.vmdisk.io", "v1alpha1", []string{"v1alpha1"}, true, false}},
		Controllers: []appsv1.Deployment{controller},
		CDIs:        []cdiv1.CDI{{ObjectMeta: metav1.ObjectMeta{Name: "cdi"}}},
		Configs:     []cdiv1.CDIConfig{{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Status: cdiv1.CDIConfigStatus{FilesystemOverhead: &cdiv1.FilesystemOverhead{}}}},
		Webhooks:    &admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{hook}},
		Endpoints:   []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}}},
		Serving:     serving,
		Drivers:     []storagev1.CSIDriver{{ObjectMeta: metav1.ObjectMeta{Name: "linstor.csi.linbit.com"}}},
		DriverNodes: []storagev1.CSINode{driverNode("node-a", "linstor.csi.linbit.com"), driverNode("node-b", "linstor.csi.linbit.com")},
		Nodes:       []corev1.Node{{}, {}},
	}
	s.CDIs[0].Status.Phase = "Deployed"
	for i := range s.Nodes {
		s.Nodes[i].Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.0.0"
	}
	s.add("replicated", "linstor.csi.linbit.com", nil)
	s.Classes[0].Annotations = map[string]string{cdi.DefaultClass: "true"}
	return s
}

func driverNode(name string, drivers ...string) storagev1.CSINode {
	n := storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, d := range drivers {
		n.Spec.Drivers = append(n.Spec.Drivers, storagev1.CSINodeDriver{Name: d})
	}
	return n
}

// add adds a class with the profile that the controller makes for it.
func (s *Seen) add(name, provisioner string, parameters map[string]string) {
	mode := storagev1.VolumeBindingImmediate
	class := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, Parameters: parameters, VolumeBindingMode: &mode, AllowVolumeExpansion: new(true)}
	s.Classes = append(s.Classes, class)
	p := cdiv1.StorageProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Status = profile.Status(&p, &class, profile.Cluster{}, metav1.Time{Time: now})
	s.Profiles = append(s.Profiles, p)
}

func (s *Seen) addQuota(name string, hard, used corev1.ResourceList) {
	q := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: name}}
	q.Spec.Hard, q.Status.Used = hard, used
	s.Tenant, s.Quotas = "tenant-a", append(s.Quotas, q)
}

func (s *Seen) addLimit(item corev1.LimitRangeItem) {
	r := corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "limits"}}
	r.Spec.Limits = []corev1.LimitRangeItem{item}
	s.Tenant, s.Limits = "tenant-a", append(s.Limits, r)
}

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// clusters are what is changed in a fit cluster.
func clusters() map[string]func(*testing.T, *Seen) {
	waits := func(s *Seen, i int) {
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		s.Classes[i].VolumeBindingMode = &mode
	}
	return map[string]func(*testing.T, *Seen){
		"fit": func(*testing.T, *Seen) {},
		"nothing-installed": func(_ *testing.T, s *Seen) {
			*s = Seen{At: now, CRDs: []CRD{{Name: "vmdisks.vmdisk.io", Wanted: "v1alpha1"}}, NoSnapshots: true}
		},
		"kinds": func(_ *testing.T, s *Seen) {
			s.CRDs = []CRD{{"a", "v1", []string{"v1"}, false, false}, {"b", "v1", []string{"v1beta1"}, true, true}, {"c", "v1", []string{"v1"}, true, true}}
		},
		"controller-down":   func(_ *testing.T, s *Seen) { s.Controllers[0].Status.AvailableReplicas, s.Endpoints = 0, nil },
		"two-controllers":   func(_ *testing.T, s *Seen) { s.Controllers = append(s.Controllers, s.Controllers[0]) },
		"cdi-beside":        func(_ *testing.T, s *Seen) { s.others("cdi-deployment", "cdi-operator") },
		"cdi-engine":        func(_ *testing.T, s *Seen) { s.others("cdi-deployment"); s.flag("--engine=cdi") },
		"cdi-engine-no-cdi": func(_ *testing.T, s *Seen) { s.flag("--engine=cdi"); s.Configs = nil },
		"two-cdi-objects": func(_ *testing.T, s *Seen) {
			s.CDIs = append(s.CDIs, s.CDIs[0])
			s.Configs[0].Status.FilesystemOverhead = nil
		},
		"cdi-object-phase":   func(_ *testing.T, s *Seen) { s.CDIs[0].Status.Phase = "Error" },
		"no-webhooks":        func(_ *testing.T, s *Seen) { s.Webhooks = nil },
		"webhook-untrusting": func(_ *testing.T, s *Seen) { s.Webhooks.Webhooks[0].ClientConfig.CABundle = nil },
		"webhook-url":        func(_ *testing.T, s *Seen) { s.Webhooks.Webhooks[0].ClientConfig.Service = nil },
		"webhook-elsewhere":  func(_ *testing.T, s *Seen) { s.Webhooks.Webhooks[0].ClientConfig.Service.Namespace = "other" },
		"certificate-other":  func(t *testing.T, s *Seen) { _, s.Serving = certificate(t, now.AddDate(0, 0, 60)) },
		"certificate-expired": func(t *testing.T, s *Seen) {
			s.Webhooks.Webhooks[0].ClientConfig.CABundle, s.Serving = certificate(t, now.AddDate(0, 0, -1))
		},
		"certificate-ends": func(t *testing.T, s *Seen) {
			s.Webhooks.Webhooks[0].ClientConfig.CABundle, s.Serving = certificate(t, now.AddDate(0, 0, 5))
		},
		"certificate-broken": func(_ *testing.T, s *Seen) { s.Serving = nil },
		"no-default":         func(_ *testing.T, s *Seen) { s.Classes[0].Annotations = nil },
		"several-defaults": func(_ *testing.T, s *Seen) {
			s.add("second", "linstor.csi.linbit.com", nil)
			s.Classes[1].Annotations = map[string]string{cdi.DefaultClass: "true", cdi.DefaultVirtClass: "true"}
		},
		"default-by-flag": func(_ *testing.T, s *Seen) {
			s.Classes[0].Annotations = nil
			s.flag("--default-storage-class=replicated")
		},
		"default-flag-is-wrong": func(_ *testing.T, s *Seen) { s.flag("--default-storage-class=gone") },
		"profile-missing":       func(_ *testing.T, s *Seen) { s.Profiles = nil },
		"profile-incomplete":    func(_ *testing.T, s *Seen) { s.Profiles[0].Status.ClaimPropertySets = nil },
		"provisioner-unknown": func(_ *testing.T, s *Seen) {
			s.add("plain", "plain.csi.lab", nil)
			s.Classes[1].AllowVolumeExpansion = nil
		},
		"classes-of-one-node": func(_ *testing.T, s *Seen) {
			s.add("local", "linstor.csi.linbit.com", map[string]string{"linstor.csi.linbit.com/allowRemoteVolumeAccess": "false"})
			s.add("path", "rancher.io/local-path", nil)
			waits(s, 2)
			s.add("hand", "kubernetes.io/no-provisioner", nil)
			s.add("broken", "linstor.csi.linbit.com", map[string]string{"linstor.csi.linbit.com/allowRemoteVolumeAccess": "{"})
		},
		"driver-on-no-node": func(_ *testing.T, s *Seen) {
			s.DriverNodes = []storagev1.CSINode{driverNode("node-a"), driverNode("node-b", "other")}
		},
		"driver-on-some-nodes": func(_ *testing.T, s *Seen) { s.DriverNodes = append(s.DriverNodes, driverNode("node-c")) },
		"snapshots": func(_ *testing.T, s *Seen) {
			s.Profiles[0].Status.SnapshotClass = new("gone")
			s.add("hostpath", "hostpath.csi.k8s.io", nil)
		},
		"cri-o":      func(_ *testing.T, s *Seen) { s.Nodes[0].Status.NodeInfo.ContainerRuntimeVersion = "cri-o://1.33" },
		"files-only": func(_ *testing.T, s *Seen) { s.Classes, s.Profiles = nil, nil; s.add("nfs", "nfs.csi.k8s.io", nil) },
		"quota-never": func(_ *testing.T, s *Seen) {
			s.addQuota("tight", amounts("requests.storage", "0", "limits.cpu", "500m", "pods", "5"), nil)
			s.addQuota("others", amounts("pods", "0"), nil)
			s.Quotas[1].Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
		},
		"quota-full": func(_ *testing.T, s *Seen) {
			s.addQuota("full", amounts("requests.storage", "20Gi", "persistentvolumeclaims", "2"), amounts("requests.storage", "20Gi", "persistentvolumeclaims", "1"))
		},
		"quota-room": func(_ *testing.T, s *Seen) {
			s.addQuota("fine", amounts("requests.storage", "20Gi"), amounts("requests.storage", "1Gi"))
		},
		"quota-class": func(_ *testing.T, s *Seen) {
			s.addQuota("classes", amounts("replicated.storageclass.storage.k8s.io/requests.storage", "0"), nil)
		},
		"limit-range": func(_ *testing.T, s *Seen) {
			s.addLimit(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: amounts("memory", "512Mi"), Min: amounts("cpu", "200m"), MaxLimitRequestRatio: amounts("cpu", "4")})
			s.addLimit(corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Max: amounts("storage", "0")})
		},
		"few-rights": func(_ *testing.T, s *Seen) {
			s.Unread = map[Kind]string{Certificate: "you may not", Deployments: "you may not", Kinds: "you may not"}
			s.Controllers, s.CRDs, s.Serving = nil, nil, nil
		},
	}
}

func (s *Seen) others(names ...string) {
	for _, name := range names {
		s.Others = append(s.Others, appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "cdi", Name: name}})
	}
}

func (s *Seen) flag(flag string) {
	c := &s.Controllers[0].Spec.Template.Spec.Containers[0]
	c.Args = append(c.Args, flag)
}

// TestFindings shows the findings that a change adds to those of a fit cluster, which "fit" has in full.
func TestFindings(t *testing.T) {
	usual := map[Finding]bool{}
	for _, f := range Of(fit(t)) {
		usual[f] = true
	}
	for name, change := range clusters() {
		t.Run(name, func(t *testing.T) {
			s := fit(t)
			change(t, &s)
			var findings []Finding
			for _, f := range Of(s) {
				if name == "fit" || !usual[f] {
					findings = append(findings, f)
				}
			}
			got, file := Text(findings), filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
