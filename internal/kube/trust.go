package kube

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KeepSecret creates a Secret, or updates it if it was read before. Of two writers who began from the same one, the API server refuses the
// second: as a conflict, or because it exists.
func (w *Writer) KeepSecret(ctx context.Context, secret *corev1.Secret) error {
	kept := secret.DeepCopy()
	if kept.ResourceVersion == "" {
		if err := w.client.Create(ctx, kept); err != nil {
			return fmt.Errorf("create Secret %s/%s: %w", kept.Namespace, kept.Name, err)
		}
		return nil
	}
	if err := w.client.Update(ctx, kept); err != nil {
		return fmt.Errorf("update Secret %s/%s: %w", kept.Namespace, kept.Name, err)
	}
	return nil
}

// Trust makes the API server trust these authorities, in PEM, when it calls the webhooks of a configuration. Nothing else of it is written,
// and nothing if it has changed since it was read.
func (w *Writer) Trust(ctx context.Context, configuration *admissionv1.ValidatingWebhookConfiguration, bundle []byte) error {
	type entry struct {
		Name         string         `json:"name"`
		ClientConfig map[string]any `json:"clientConfig"`
	}
	var entries []entry
	for _, hook := range configuration.Webhooks {
		entries = append(entries, entry{hook.Name, map[string]any{"caBundle": bundle}})
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": configuration.ResourceVersion},
		"webhooks": entries,
	})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	// A strategic merge finds each webhook by its name.
	if err := w.client.Patch(ctx, configuration.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		return fmt.Errorf("let ValidatingWebhookConfiguration %s trust the webhooks' certificate: %w", configuration.Name, err)
	}
	return nil
}
