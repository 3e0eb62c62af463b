package deploy

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vmdisk.io/vmdisk/lab/pods"
)

const (
	namespace  = "vmdisk"
	deployment = "vmdisk-controller"
	selector   = "app.kubernetes.io/name=vmdisk,app.kubernetes.io/component=controller"
	patience   = 3 * time.Minute
)

// waitAvailable waits until every replica of the controller is of the newest revision and available, and the ones before
// are gone. If that does not come, the error says what the pods say.
func waitAvailable(ctx context.Context, access *rest.Config) error {
	c, err := kubernetes.NewForConfig(access)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	state := "it was not seen"
	err = wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		d, err := c.AppsV1().Deployments(namespace).Get(ctx, deployment, metav1.GetOptions{})
		if err != nil {
			state = err.Error()
			return false, nil // an API server under load may refuse for a moment; the time runs out if it goes on
		}
		state = fmt.Sprintf("%d of %d replicas are new, %d available, %d there", d.Status.UpdatedReplicas, *d.Spec.Replicas,
			d.Status.AvailableReplicas, d.Status.Replicas)
		return complete(d), nil
	})
	if err != nil {
		return fmt.Errorf("wait for the controller: %w: %s%s", err, state, pods.Explain(ctx, c, namespace, selector))
	}
	return nil
}

// complete says whether a deployment has rolled out.
func complete(d *appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == *d.Spec.Replicas &&
		s.AvailableReplicas == s.UpdatedReplicas && s.Replicas == s.UpdatedReplicas
}
