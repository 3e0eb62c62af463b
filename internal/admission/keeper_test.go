package admission

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vmdisk.io/vmdisk/internal/kube"
)

func newKeeper(c client.Client, now time.Time) *keeper {
	return &keeper{
		namespace: "vmdisk", hosts: []string{"vmdisk-webhooks.vmdisk.svc"}, shown: &shown{},
		reader: c, writer: kube.NewWriter(c, nil), now: func() time.Time { return now }, random: rand.Reader,
	}
}

func configuration() *admissionv1.ValidatingWebhookConfiguration {
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: Configuration}, Webhooks: []admissionv1.ValidatingWebhook{{Name: "disks-from-images.vmdisk.io"}},
	}
}

func cluster(calls interceptor.Funcs, objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).WithInterceptorFuncs(calls).Build()
}

func TestOfTwoControllersThatWriteAtOnceTheSecondTakesTheFirstsCertificate(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var first *keeper
	c := cluster(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		if first == nil { // the second is about to write: now the first one does
			first = newKeeper(c, now)
			if _, err := first.Reconcile(ctx, reconcile.Request{}); err != nil {
				return err
			}
		}
		return c.Create(ctx, o, options...)
	}}, configuration())
	second := newKeeper(c, now)
	result, err := second.Reconcile(t.Context(), reconcile.Request{})
	if err != nil || result.RequeueAfter != yield {
		t.Fatalf("the second's try answers %v, %v, want that it yields", result, err)
	}
	if second.shown.inForce() == nil {
		t.Error("the second shows a certificate that it could not keep")
	}
	if _, err := second.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	a, b := first.shown.state.Load().certificate, second.shown.state.Load().certificate
	if !a.Leaf.Equal(b.Leaf) {
		t.Error("the two show different certificates")
	}
}

func TestACertificateIsShownOnceItIsTrusted(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	refused := errors.New("not now")
	refuse := true
	c := cluster(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
		if refuse {
			return refused
		}
		return c.Patch(ctx, o, p, options...)
	}}, configuration())
	k := newKeeper(c, now)
	try := func() error { _, err := k.Reconcile(t.Context(), reconcile.Request{}); return err }

	if err := try(); !errors.Is(err, refused) {
		t.Fatalf("the first try answers %v", err)
	}
	if _, err := k.shown.certificate(nil); err == nil || !errors.Is(k.shown.inForce(), refused) {
		t.Errorf("what nobody trusts is shown, or ready without a reason: %v, %v", err, k.shown.inForce())
	}
	refuse = false
	if err := try(); err != nil || k.shown.inForce() != nil {
		t.Fatalf("once the API server lets it, it is not in force: %v, %v", err, k.shown.inForce())
	}
	before, err := k.shown.certificate(nil)
	if err != nil {
		t.Fatal(err)
	}

	refuse = true
	if err := c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "vmdisk", Name: Secret}}); err != nil {
		t.Fatal(err)
	}
	if err := try(); !errors.Is(err, refused) {
		t.Fatalf("with the certificate lost, a try answers %v", err)
	}
	if after, err := k.shown.certificate(nil); err != nil || after != before {
		t.Errorf("while the next one is not trusted, the last one is not shown: %v", err)
	}
}

func TestWithoutAConfigurationNothingIsInForce(t *testing.T) {
	k := newKeeper(cluster(interceptor.Funcs{}), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	const says = "the webhooks' certificate may not be in force: read ValidatingWebhookConfiguration vmdisk, which comes with vmdisk's manifests: " +
		`validatingwebhookconfigurations.admissionregistration.k8s.io "vmdisk" not found`
	if _, err := k.Reconcile(t.Context(), reconcile.Request{}); err == nil {
		t.Error("the keeper says that all is well")
	}
	if err := k.shown.inForce(); err == nil || err.Error() != says {
		t.Errorf("readiness says %v, want %s", err, says)
	}
}
