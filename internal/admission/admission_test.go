//go:build apiserver

package admission_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/config"
	"vmdisk.io/vmdisk/internal/admission"
	"vmdisk.io/vmdisk/internal/controllers"
	"vmdisk.io/vmdisk/internal/plan/clone"
	"vmdisk.io/vmdisk/lab/apiserver"
)

// plane is a real API server that asks one of two controllers about new disks. They have no more rights than their ServiceAccount, and share
// a Secret.
type plane struct {
	client.Client
	t        *testing.T
	warnings *warnings
}

// warnings are those that the API server sends, as kubectl would print them.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

func startPlane(t *testing.T) (plane, *rest.Config) {
	ctrl.SetLogger(logr.Discard())
	scheme, err := controllers.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	admin := apiserver.Start(t)
	p := plane{t: t, warnings: &warnings{}}
	person := rest.CopyConfig(admin)
	person.WarningHandler = p.warnings
	if p.Client, err = client.New(person, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	account := rest.CopyConfig(admin)
	account.Impersonate.UserName = "system:serviceaccount:vmdisk:vmdisk-controller"
	account.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:vmdisk", "system:authenticated"}
	return p, account
}

// serve starts a controller's webhooks, and returns the port that they listen on.
func (p plane) serve(account *rest.Config, crossClass string) (*admission.Webhooks, int) {
	p.t.Helper()
	policy, err := clone.NewPolicy("vmdisk", crossClass)
	if err != nil {
		p.t.Fatal(err)
	}
	port := freePort(p.t)
	hooks := admission.New(admission.Options{
		Namespace: "vmdisk", Hosts: []string{"localhost"}, Address: "localhost", Port: port,
		Plan: clone.Options{ImageNamespace: "images", Policy: policy},
	})
	mgr, err := ctrl.NewManager(account, ctrl.Options{
		Scheme: p.Scheme(), Cache: hooks.Cached(cache.Options{ByObject: map[client.Object]cache.ByObject{}}), WebhookServer: hooks.Server(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)}, // the test has two of each
	})
	if err != nil {
		p.t.Fatal(err)
	}
	if err := hooks.Setup(p.t.Context(), mgr); err != nil {
		p.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(p.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	p.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			p.t.Errorf("the manager ended: %v", err)
		}
	})
	return hooks, port
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // the port is free again, which is all that it was for
	return l.Addr().(*net.TCPAddr).Port
}

// configuration is that of the manifests.
func (p plane) configuration() *admissionv1.ValidatingWebhookConfiguration {
	p.t.Helper()
	objects, err := config.Manifests(config.DefaultImage)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() != "ValidatingWebhookConfiguration" {
			continue
		}
		c := &admissionv1.ValidatingWebhookConfiguration{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, c); err != nil {
			p.t.Fatal(err)
		}
		return c
	}
	p.t.Fatal("the manifests have no ValidatingWebhookConfiguration")
	return nil
}

// ask makes the API server ask at a port: there is no Service here. What it trusts stays.
func (p plane) ask(port int) {
	p.t.Helper()
	c := p.configuration()
	var paths []string
	for _, w := range c.Webhooks {
		paths = append(paths, *w.ClientConfig.Service.Path)
	}
	err := p.Get(p.t.Context(), client.ObjectKeyFromObject(c), c)
	for i, path := range paths {
		c.Webhooks[i].ClientConfig.Service, c.Webhooks[i].ClientConfig.URL = nil, new(fmt.Sprintf("https://localhost:%d%s", port, path))
	}
	switch {
	case apierrors.IsNotFound(err):
		err = p.Create(p.t.Context(), c)
	case err == nil:
		err = p.Update(p.t.Context(), c)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p plane) create(objects ...client.Object) {
	p.t.Helper()
	for _, o := range objects {
		if err := p.Create(p.t.Context(), o); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p plane) eventually(what string, is func() error) {
	p.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(p.t.Context(), 50*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		last = is()
		return last == nil, nil
	})
	if err != nil {
		p.t.Fatalf("%s: %v: %v", what, err, last)
	}
}

func class(name string, parameters map[string]string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "linstor.csi.linbit.com", Parameters: parameters, AllowVolumeExpansion: new(true),
	}
}

// furnish makes two LINSTOR classes and an image in the first of them. From the second, volumes can't be reached from everywhere.
func (p plane) furnish() {
	p.t.Helper()
	for _, name := range []string{"images", "tenant-a"} {
		p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	profile := &cdiv1.StorageProfile{ObjectMeta: metav1.ObjectMeta{Name: "local"}}
	p.create(class("replicated", nil), class("local", map[string]string{"linstor.csi.linbit.com/allowRemoteVolumeAccess": "false"}), profile)
	profile.Status = cdiv1.StorageProfileStatus{
		CloneStrategy:     new(cdiv1.CloneStrategyCsiClone),
		ClaimPropertySets: []cdiv1.ClaimPropertySet{{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, VolumeMode: new(corev1.PersistentVolumeBlock)}},
	}
	if err := p.Status().Update(p.t.Context(), profile); err != nil {
		p.t.Fatal(err)
	}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}
	p.create(
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-debian"}, Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, VolumeMode: new(corev1.PersistentVolumeBlock),
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "linstor.csi.linbit.com", VolumeHandle: "pv-debian"}},
			StorageClassName:       "replicated",
		}},
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "images", Name: "debian"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, VolumeMode: new(corev1.PersistentVolumeBlock), VolumeName: "pv-debian",
			StorageClassName: new("replicated"), Resources: corev1.VolumeResourceRequirements{Requests: size},
		}},
	)
}

func disk(name, class string, source *v1alpha1.Source) *v1alpha1.VMDisk {
	return &v1alpha1.VMDisk{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: name},
		Spec:       v1alpha1.VMDiskSpec{Storage: new(resource.MustParse("20Gi")), StorageClass: class, Source: source},
	}
}

func image(name string) *v1alpha1.Source {
	return &v1alpha1.Source{Image: &v1alpha1.NamedSource{Name: name}}
}

func url() *v1alpha1.Source {
	return &v1alpha1.Source{HTTP: &v1alpha1.HTTPSource{URL: "https://images.example/debian.qcow2"}}
}

const (
	classes = `image debian (PersistentVolumeClaim images/debian) lives in StorageClass replicated, and the disk is asked for in local: `
	because = `by the csi-clone strategy (cloneStrategy of StorageProfile local) LINSTOR makes the clone next to the image's data, and local does not allow remote volume access from every node, so the clone may never bind`
	refusal = `admission webhook "disks-from-images.vmdisk.io" denied the request: ` + classes + because +
		`. Use StorageClass replicated, or ask the platform administrator to set cloneStrategyOverride: copy in the CDI resource (in Cozystack: in the kubevirt-cdi package), or to run vmdisk with --cross-class-clone=copy`
	noSuchClass = "StorageClass none does not exist yet: the disk waits for it. There are local, replicated. To name another one, delete the disk and create it again"
	warning     = classes + `vmdisk copies the disk, which takes longer than a clone, because ` + because
)

func TestAdmission(t *testing.T) {
	p, account := startPlane(t)
	p.furnish()
	in := func(t *testing.T) plane { return plane{p.Client, t, p.warnings} }

	refuses, refusesAt := p.serve(account, "refuse")
	if err := refuses.Ready(nil); err == nil {
		t.Error("before anything asks it, the controller says that it is ready")
	}
	p.ask(refusesAt)
	copies, copiesAt := p.serve(account, "copy")
	p.eventually("both controllers are ready", func() error {
		for _, w := range []*admission.Webhooks{refuses, copies} {
			if err := w.Ready(nil); err != nil {
				return err
			}
		}
		return nil
	})
	p.eventually("the API server reaches the webhooks", func() error { return p.tried("replicated") })

	t.Run("refusing", func(t *testing.T) { in(t).testAnswers("refused", refusal, nil) })
	t.Run("the other controller has the same certificate, and copying", func(t *testing.T) {
		p := in(t)
		p.ask(copiesAt)
		p.eventually("the API server asks the other one", func() error { return p.tried("local") })
		p.warnings.take()
		p.testAnswers("copied", "", []string{warning})
	})
	t.Run("advice", func(t *testing.T) { in(t).testAdvice(copiesAt) })
	t.Run("DataVolumes", func(t *testing.T) { in(t).testDataVolumes(copiesAt) })
	t.Run("trust that somebody took away comes back", func(t *testing.T) {
		p := in(t)
		before := p.trusted()
		c := p.configuration()
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			t.Fatal(err)
		}
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig.CABundle = nil
		}
		if err := p.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		p.eventually("it comes back", func() error {
			if now := p.trusted(); !bytes.Equal(now, before) {
				return fmt.Errorf("trusted is %q", now)
			}
			return p.tried("replicated")
		})
	})
	t.Run("a certificate that somebody deleted is made again, and shown without a restart", func(t *testing.T) {
		p := in(t)
		before := p.trusted()
		if err := p.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "vmdisk", Name: admission.Secret}}); err != nil {
			t.Fatal(err)
		}
		p.eventually("there is another one", func() error {
			if now := p.trusted(); len(now) == 0 || bytes.Equal(now, before) {
				return fmt.Errorf("trusted is %q, as before", now)
			}
			return p.tried("replicated")
		})
	})
}

// testAnswers creates disks of each kind, and compares what is said. One that is refused must not exist.
func (p plane) testAnswers(prefix, refused string, warned []string) {
	type answer struct {
		Error    string
		Warnings []string
	}
	for name, c := range map[string]struct {
		disk *v1alpha1.VMDisk
		want answer
	}{
		"an image into a class whose volumes can't be used from everywhere": {disk(prefix+"-1", "local", image("debian")), answer{refused, warned}},
		"an image into its own class is left alone":                         {disk(prefix+"-2", "replicated", image("debian")), answer{}},
		"an image that isn't there is left alone":                           {disk(prefix+"-3", "local", image("none")), answer{}},
		"a URL is left alone":                                               {disk(prefix+"-4", "local", url()), answer{}},
		"a blank disk is left alone":                                        {disk(prefix+"-5", "local", nil), answer{}},
		"a disk of a class that isn't there is let in, and told so":         {disk(prefix+"-6", "none", image("debian")), answer{"", []string{noSuchClass}}},
	} {
		p.t.Run(name, func(t *testing.T) {
			var got answer
			err := p.Create(t.Context(), c.disk)
			if err != nil {
				got.Error = err.Error()
				if !apierrors.IsForbidden(err) {
					t.Errorf("the refusal is %s, want Forbidden", apierrors.ReasonForError(err))
				}
			}
			got.Warnings = p.warnings.take()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			found := p.Get(t.Context(), client.ObjectKeyFromObject(c.disk), &v1alpha1.VMDisk{})
			if apierrors.IsNotFound(found) != (c.want.Error != "") {
				t.Errorf("reading it answers %v", found)
			}
		})
	}
}

// tried creates a disk without leaving a trace.
func (p plane) tried(class string) error {
	return p.Create(p.t.Context(), disk("tried", class, image("debian")), client.DryRunAll)
}

func (p plane) trusted() []byte {
	p.t.Helper()
	c := p.configuration()
	if err := p.Get(p.t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		p.t.Fatal(err)
	}
	var all []byte
	for _, w := range c.Webhooks {
		all = append(all, w.ClientConfig.CABundle...)
	}
	return all
}
