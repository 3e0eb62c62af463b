package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"vmdisk.io/vmdisk/internal/admission/certificate"
	"vmdisk.io/vmdisk/internal/kube"
)

// keeper keeps the certificate: the Secret holds a good one, the configuration trusts it, and only then the server shows it. Each of several
// controllers runs one, and they agree on what the Secret holds: who writes it last of two is refused, and takes the other's.
type keeper struct {
	namespace string
	hosts     []string
	shown     *shown
	// reader reads from the API server itself: what is trusted must be what was agreed on, not what it was a moment ago.
	reader client.Reader
	writer *kube.Writer
	now    func() time.Time
	random io.Reader
}

const (
	// lookAgain is how long a timer is trusted, which may stand still with its machine.
	lookAgain = 12 * time.Hour
	// yield is how long the controller that wrote at the same time has to be the first.
	yield = time.Second
)

// setup says what wakes the keeper: the start, the Secret, and the configuration.
func (k *keeper) setup(mgr ctrl.Manager) error {
	atStart := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{})
		return nil
	})
	always := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} })
	return ctrl.NewControllerManagedBy(mgr).
		Named("admission").
		WithOptions(controller.Options{NeedLeaderElection: new(false)}). // each controller serves
		WatchesRawSource(atStart).
		Watches(&corev1.Secret{}, always).
		Watches(&admissionv1.ValidatingWebhookConfiguration{}, always).
		Complete(k)
}

// Reconcile brings the Secret, the configuration and the server up to date, in this order.
func (k *keeper) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	held, err := k.agree(ctx)
	if err == nil {
		err = k.trust(ctx, held.Bundle())
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: yield}, nil
	case err != nil:
		k.shown.broken(err)
		return reconcile.Result{}, err
	}
	k.shown.set(&held.Serving)
	return reconcile.Result{RequeueAfter: min(max(certificate.Due(held).Sub(k.now()), 0)+time.Second, lookAgain)}, nil
}

// agree makes what the Secret lacks, and answers what it holds then.
func (k *keeper) agree(ctx context.Context) (certificate.Held, error) {
	secret := &corev1.Secret{}
	err := k.reader.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: Secret}, secret)
	if client.IgnoreNotFound(err) != nil {
		return certificate.Held{}, fmt.Errorf("read the webhooks' certificate from Secret %s/%s: %w", k.namespace, Secret, err)
	}
	logger := log.FromContext(ctx)
	held, err := certificate.Read(secret.Data)
	if err != nil {
		logger.Info("the webhooks' certificate is made anew", "why", err.Error())
	}
	made := false
	for {
		step, why := certificate.Next(held, k.hosts, k.now())
		if step == certificate.Keep {
			break
		}
		logger.Info("the webhooks' certificate changes", "step", step, "why", why)
		if held, err = certificate.Do(step, held, k.hosts, k.now(), k.random); err != nil {
			return certificate.Held{}, err
		}
		made = true
	}
	if !made {
		return held, nil
	}
	if secret.Data, err = held.Data(); err != nil {
		return certificate.Held{}, err
	}
	if secret.ResourceVersion == "" {
		secret.ObjectMeta = metav1.ObjectMeta{
			Namespace: k.namespace, Name: Secret,
			Labels: map[string]string{"app.kubernetes.io/name": "vmdisk", "app.kubernetes.io/component": "controller"},
		}
		secret.Type = corev1.SecretTypeTLS
	}
	return held, k.writer.KeepSecret(ctx, secret)
}

// trust makes the API server trust the authorities.
func (k *keeper) trust(ctx context.Context, bundle []byte) error {
	found := &admissionv1.ValidatingWebhookConfiguration{}
	if err := k.reader.Get(ctx, client.ObjectKey{Name: Configuration}, found); err != nil {
		return fmt.Errorf("read ValidatingWebhookConfiguration %s, which comes with vmdisk's manifests: %w", Configuration, err)
	}
	for _, w := range found.Webhooks {
		if !bytes.Equal(w.ClientConfig.CABundle, bundle) {
			return k.writer.Trust(ctx, found, bundle)
		}
	}
	return nil
}

// shown is the certificate that the server shows.
type shown struct {
	state atomic.Pointer[state]
}

type state struct {
	certificate *tls.Certificate
	// err is why the certificate may not be in force.
	err error
}

func (s *shown) set(c *tls.Certificate) { s.state.Store(&state{certificate: c}) }

// broken keeps the last certificate: the API server may well trust it.
func (s *shown) broken(err error) {
	next := state{err: err}
	if now := s.state.Load(); now != nil {
		next.certificate = now.certificate
	}
	s.state.Store(&next)
}

func (s *shown) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if now := s.state.Load(); now != nil && now.certificate != nil {
		return now.certificate, nil
	}
	return nil, errors.New("the webhooks' certificate is not made yet")
}

// inForce is nil once the API server trusts the certificate that is shown.
func (s *shown) inForce() error {
	switch now := s.state.Load(); {
	case now == nil:
		return errors.New("the webhooks' certificate is not made yet")
	case now.err != nil:
		return fmt.Errorf("the webhooks' certificate may not be in force: %w", now.err)
	default:
		return nil
	}
}
