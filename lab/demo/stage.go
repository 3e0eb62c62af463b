package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
)

// The names in manifests/.
const (
	tenant       = "tenant-a"
	web          = "web"
	system       = "vmdisk" // where vmdisk runs
	serverHost   = "images.web.svc"
	diskName     = "debian"
	storageClass = "replicated"
)

// settled is how long the stage's objects may take to get ready, or to be gone.
const settled = 2 * time.Minute

// connect makes a client for the cluster of a kubeconfig file.
func connect(kubeconfig string) (client.WithWatch, error) {
	access, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %w", kubeconfig, err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("make a scheme: %w", err)
	}
	c, err := client.NewWithWatch(access, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster of %s: %w", kubeconfig, err)
	}
	return c, nil
}

// clearStage deletes the disk that an earlier run left, and waits until its claim is gone from the quota.
func clearStage(ctx context.Context, c client.WithWatch) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settled, errors.New("an earlier run's disk doesn't go away: look at "+
		"kubectl -n "+tenant+" get vmdisk,datavolume,pvc,pod"))
	defer cancel()
	disk := &v1alpha1.VMDisk{}
	disk.Namespace, disk.Name = tenant, diskName
	if err := c.Delete(ctx, disk); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the disk of an earlier run: %w", err)
	}
	if err := gone(ctx, c, disk); err != nil {
		return err
	}
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name = tenant, diskName
	return gone(ctx, c, claim)
}

// gone waits until an object doesn't exist. Its deletion may have happened before a watch could see it, so it asks.
func gone(ctx context.Context, c client.Client, object client.Object) error {
	for {
		err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("see whether %s is gone: %w", client.ObjectKeyFromObject(object), err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// setStage makes the tenant's namespace, with its quotas and policies, and the image server. The server is made anew,
// since its certificate and its directory may have changed.
func setStage(ctx context.Context, c client.WithWatch, image Built, tools string) error {
	identity, err := newCertificate(serverHost, serverHost+".cluster.local")
	if err != nil {
		return err
	}
	server := &corev1.Pod{}
	server.Namespace, server.Name = web, "images"
	if err := c.Delete(ctx, server); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the image server of an earlier run: %w", err)
	}
	if err := gone(ctx, c, server); err != nil {
		return err
	}
	for name, values := range map[string]map[string]string{
		"tenant.yaml": {"CA": identity.authority},
		"web.yaml": {"CERTIFICATE": identity.server, "KEY": identity.key, "TOOLS": tools,
			"IMAGES": image.Dir},
	} {
		objects, err := render(name, values)
		if err != nil {
			return err
		}
		if err := apply(ctx, c, objects); err != nil {
			return err
		}
	}
	if err := serving(ctx, c); err != nil {
		return err
	}
	return quotaCounted(ctx, c)
}

// serving waits until the image server is ready.
func serving(ctx context.Context, c client.WithWatch) error {
	var state string
	err := followNamed(ctx, c, &corev1.PodList{}, web, "images", func(_ watch.EventType, object client.Object) error {
		pod := object.(*corev1.Pod)
		state = podState(pod)
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return errEnough
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for the image server (pod %s/images is %s): %w", web, state, err)
	}
	return nil
}

// podState is a pod's phase and what its containers wait for.
func podState(pod *corev1.Pod) string {
	parts := []string{string(pod.Status.Phase)}
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil {
			parts = append(parts, waiting.Reason, waiting.Message)
		}
		if ended := container.State.Terminated; ended != nil {
			parts = append(parts, ended.Reason, ended.Message)
		}
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// quotaCounted waits until the tenant's quota has no claim in it: the counting of deleted ones lags.
func quotaCounted(ctx context.Context, c client.WithWatch) error {
	err := followNamed(ctx, c, &corev1.ResourceQuotaList{}, tenant, "quota", func(_ watch.EventType, object client.Object) error {
		status := object.(*corev1.ResourceQuota).Status
		used, counted := status.Used[corev1.ResourcePersistentVolumeClaims]
		if counted && used.IsZero() {
			return errEnough
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait until the tenant's quota shows no claim: %w", err)
	}
	return nil
}

// followNamed follows one object, for as long as the stage may take to settle.
func followNamed(ctx context.Context, c client.WithWatch, list client.ObjectList, namespace, name string,
	see func(watch.EventType, client.Object) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settled, fmt.Errorf("not within %s", settled))
	defer cancel()
	only := []client.ListOption{client.InNamespace(namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)}}
	return follow(ctx, c, list, only, func() {}, see)
}

// requireClass says what to do where the lab has no such StorageClass, before anything is waited for.
func requireClass(ctx context.Context, c client.Reader) error {
	err := c.Get(ctx, client.ObjectKey{Name: storageClass}, &storagev1.StorageClass{})
	if err != nil {
		return fmt.Errorf("look for the StorageClass %s, which the lab has: %w", storageClass, err)
	}
	list := &v1alpha1.VMDiskList{}
	if err := c.List(ctx, list, client.InNamespace(tenant)); err != nil {
		if meta.IsNoMatchError(err) {
			return fmt.Errorf("the cluster doesn't know VMDisk: vmdisk isn't installed in it: %w", err)
		}
		return fmt.Errorf("list the tenant's disks: %w", err)
	}
	return nil
}
