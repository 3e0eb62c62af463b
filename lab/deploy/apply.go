package deploy

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/config"
	"vmdisk.io/vmdisk/lab/manifest"
)

// fieldOwner is who owns the fields that are applied: kubectl's own name for it, so that a person who applies the same
// files by hand afterwards meets no conflict.
const fieldOwner = "kubectl"

// Apply installs vmdisk's kinds and objects in a cluster, or brings them up to date. It returns once the kinds are
// served and the objects written; it does not wait for the controller.
func Apply(ctx context.Context, to *rest.Config, image string) error {
	scheme := runtime.NewScheme()
	if err := apiextensions.AddToScheme(scheme); err != nil {
		return fmt.Errorf("make a scheme: %w", err)
	}
	cluster, err := client.New(to, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	crds, err := config.CRDs()
	if err != nil {
		return err
	}
	if err := manifest.Apply(ctx, cluster, fieldOwner, crds); err != nil {
		return err
	}
	for _, crd := range crds {
		if err := waitServed(ctx, cluster, crd.GetName()); err != nil {
			return err
		}
	}
	objects, err := config.Manifests(image)
	if err != nil {
		return err
	}
	return manifest.Apply(ctx, cluster, fieldOwner, objects)
}

// waitServed waits until the API server serves a kind. Nothing but its status tells, hence the polling.
func waitServed(ctx context.Context, from client.Reader, name string) error {
	var why error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		crd := &apiextensions.CustomResourceDefinition{}
		if why = from.Get(ctx, client.ObjectKey{Name: name}, crd); why != nil {
			return false, nil // an API server that has just started may refuse for a moment
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensions.Established && condition.Status == apiextensions.ConditionTrue {
				return true, nil
			}
			if condition.Status == apiextensions.ConditionFalse {
				why = fmt.Errorf("%s: %s", condition.Reason, condition.Message)
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("wait until %s is served: %w", name, errors.Join(err, why))
	}
	return nil
}
