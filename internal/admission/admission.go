// Package admission answers the API server when VMDisks and DataVolumes are created, or a DataVolume's spec is changed: it refuses one, or lets
// it in, perhaps with a warning. What it says is decided in internal/plan; admission only reads what that rests on. It also keeps the certificate that the API server knows it by.
// It must not know how disks are made, and changes nothing but that certificate and the trust in it.
package admission

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/clone"
)

// The names of config/manifests.
const (
	// Configuration is the ValidatingWebhookConfiguration.
	Configuration = "vmdisk"
	// Secret keeps the authority and the certificate, in the controller's namespace. The controller makes it.
	Secret = "vmdisk-webhooks"
	// Service is what the API server calls, in the same namespace.
	Service = "vmdisk-webhooks"
	// DisksPath is where VMDisks are answered for.
	DisksPath = "/disks"
	// DataVolumesPath is where DataVolumes are answered for.
	DataVolumesPath = "/datavolumes"
	// AdvicePath is where VMDisks are let in with warnings.
	AdvicePath = "/advice"
)

// Options are an installation's settings.
type Options struct {
	// Namespace is the controller's own.
	Namespace string
	// Hosts are the names that the API server calls the server by; empty: the Service's.
	Hosts []string
	// Address and Port are where the server listens.
	Address string
	Port    int
	// Plan is what disks are judged by.
	Plan clone.Options
}

// Webhooks are the server and what it serves.
type Webhooks struct {
	options Options
	shown   *shown
	server  webhook.Server
}

// New makes the server. It starts with the manager that it is given to.
func New(o Options) *Webhooks {
	if len(o.Hosts) == 0 {
		o.Hosts = []string{fmt.Sprintf("%s.%s.svc", Service, o.Namespace)}
	}
	s := &shown{}
	return &Webhooks{o, s, webhook.NewServer(webhook.Options{
		Host: o.Address, Port: o.Port,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.GetCertificate, c.MinVersion = s.certificate, tls.VersionTLS13 }},
	})}
}

// Server is what the manager is to start.
func (w *Webhooks) Server() webhook.Server { return w.server }

// Cached adds what admission keeps in memory to what is kept anyway: of the Secrets and of the configurations only its own, and
// nothing of a node's images.
func (w *Webhooks) Cached(o cache.Options) cache.Options {
	byName := func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	o.ByObject[&corev1.Secret{}] = cache.ByObject{Namespaces: map[string]cache.Config{w.options.Namespace: {}}, Field: byName(Secret)}
	o.ByObject[&admissionv1.ValidatingWebhookConfiguration{}] = cache.ByObject{Field: byName(Configuration)}
	o.ByObject[&corev1.Node{}] = cache.ByObject{Transform: func(o any) (any, error) {
		if node, ok := o.(*corev1.Node); ok {
			node.ManagedFields, node.Status.Images = nil, nil
		}
		return o, nil
	}}
	return o
}

// Setup registers the webhooks, and what keeps their certificate. The cache holds what they read before they are asked first.
func (w *Webhooks) Setup(ctx context.Context, mgr ctrl.Manager) error {
	for _, kind := range []client.Object{
		&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &corev1.Node{}, &corev1.ResourceQuota{},
		&storagev1.StorageClass{}, &storagev1.CSIDriver{}, &storagev1.CSINode{},
		&cdiv1.DataVolume{}, &cdiv1.CDI{}, &cdiv1.CDIConfig{}, &cdiv1.StorageProfile{}, newSnapshotClass(),
	} {
		if _, err := mgr.GetCache().GetInformer(ctx, kind); err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	// Asking for the server is what makes the manager start it.
	mgr.GetWebhookServer().Register(DisksPath, &admission.Webhook{Handler: &disks{
		reader: mgr.GetCache(), decoder: admission.NewDecoder(mgr.GetScheme()), options: w.options.Plan,
	}})
	mgr.GetWebhookServer().Register(AdvicePath, &admission.Webhook{Handler: &adviser{
		reader: mgr.GetCache(), decoder: admission.NewDecoder(mgr.GetScheme()), defaultClass: w.options.Plan.DefaultClass,
	}})
	mgr.GetWebhookServer().Register(DataVolumesPath, &admission.Webhook{Handler: w.dataVolumes(mgr)})
	k := &keeper{
		namespace: w.options.Namespace, hosts: w.options.Hosts, shown: w.shown,
		reader: mgr.GetAPIReader(), writer: kube.NewWriter(mgr.GetClient(), mgr.GetEventRecorder("vmdisk")),
		now: time.Now, random: rand.Reader,
	}
	return k.setup(mgr)
}

// dataVolumes answers for DataVolumes. With CDI as the engine they are CDI's, and so is what becomes of them.
func (w *Webhooks) dataVolumes(mgr ctrl.Manager) admission.Handler {
	if w.options.Plan.Policy.Engine == clone.EngineCDI {
		return admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })
	}
	return &dataVolumes{reader: mgr.GetCache(), decoder: admission.NewDecoder(mgr.GetScheme())}
}

// Ready is a readiness check: the API server trusts the certificate that is shown, so that disks can be created.
func (w *Webhooks) Ready(r *http.Request) error {
	if err := w.shown.inForce(); err != nil {
		return err
	}
	return w.server.StartedChecker()(r)
}

func newSnapshotClass() *unstructured.Unstructured {
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(clone.SnapshotClass())
	return class
}
