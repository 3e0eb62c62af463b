package control

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
)

const (
	namespace = "tenant-a"
	class     = "replicated"
	node      = "node-a"
	// hands is how many objects are played at once.
	hands = 8
)

// players are who else works in a cluster: the storage, the scheduler, the kubelet and the workers.
type players struct {
	client  client.Client
	pods    kubernetes.Interface
	cache   cache.Cache
	queue   workqueue.TypedRateLimitingInterface[item]
	filling time.Duration
	logs    *httptest.Server
	stop    func()

	mu    sync.Mutex
	ready map[string]bool
	news  chan struct{} // a disk became ready
}

// item is an object that somebody must look at.
type item struct {
	kind string
	key  types.NamespacedName
}

// play begins to play. What is made in the cluster from then on is answered.
func play(ctx context.Context, admin *rest.Config, filling time.Duration) (*players, error) {
	s, err := scheme()
	if err != nil {
		return nil, err
	}
	p := &players{filling: filling, ready: map[string]bool{}, news: make(chan struct{}, 1),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[item]())}
	if p.cache, err = cache.New(admin, cache.Options{Scheme: s}); err != nil {
		return nil, fmt.Errorf("make a cache: %w", err)
	}
	if p.client, err = client.New(admin, client.Options{Scheme: s, Cache: &client.CacheOptions{Reader: p.cache}}); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if p.pods, err = kubernetes.NewForConfig(admin); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	p.logs = serveLogs()
	ctx, cancel := context.WithCancel(ctx)
	p.stop = func() {
		cancel()
		p.queue.ShutDown()
		p.logs.Close()
	}
	if err := p.begin(ctx); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *players) begin(ctx context.Context) error {
	for kind, o := range map[string]client.Object{"claim": &corev1.PersistentVolumeClaim{}, "pod": &corev1.Pod{}, "disk": &v1alpha1.VMDisk{}} {
		informer, err := p.cache.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %Ts: %w", o, err)
		}
		see := func(o any) {
			if o, ok := o.(client.Object); ok {
				p.queue.Add(item{kind, client.ObjectKeyFromObject(o)})
			}
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, now any) { see(now) }}); err != nil {
			return fmt.Errorf("watch %Ts: %w", o, err)
		}
	}
	go func() { _ = p.cache.Start(ctx) }() // that it never got anywhere, the disks tell
	if !p.cache.WaitForCacheSync(ctx) {
		return context.Cause(ctx)
	}
	for range hands {
		go p.work(ctx)
	}
	return p.furnish(ctx)
}

// furnish makes what a disk needs: a namespace, a class and a node.
func (p *players) furnish(ctx context.Context) error {
	address, port, err := addressOf(p.logs)
	if err != nil {
		return err
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, n,
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "linstor.csi.linbit.com", VolumeBindingMode: new(storagev1.VolumeBindingImmediate)},
	} {
		if err := p.client.Create(ctx, o); err != nil {
			return fmt.Errorf("make what a disk needs: %w", err)
		}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	return p.client.Status().Update(ctx, n)
}

// makeDisks makes the disks as quickly as a client of one person can.
func (p *players) makeDisks(ctx context.Context, n int) error {
	for i := range n {
		d := &v1alpha1.VMDisk{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "disk-" + strconv.Itoa(i)},
			Spec:       v1alpha1.VMDiskSpec{Storage: new(resource.MustParse("20Gi")), StorageClass: class},
		}
		if i%2 == 0 {
			d.Spec.Source = &v1alpha1.Source{HTTP: &v1alpha1.HTTPSource{URL: "https://images.example/debian.qcow2"}}
		}
		if err := p.client.Create(ctx, d); err != nil {
			return fmt.Errorf("make a disk: %w", err)
		}
	}
	return nil
}

// waitReady waits until so many disks are ready.
func (p *players) waitReady(ctx context.Context, n int) error {
	for {
		p.mu.Lock()
		ready := len(p.ready)
		p.mu.Unlock()
		if ready == n {
			return nil
		}
		select {
		case <-p.news:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d disks are ready: %w", ready, n, context.Cause(ctx))
		}
	}
}

func (p *players) work(ctx context.Context) {
	for {
		i, over := p.queue.Get()
		if over {
			return
		}
		if err := p.look(ctx, i); err != nil {
			p.queue.AddRateLimited(i) // somebody else has changed it: once more
		} else {
			p.queue.Forget(i)
		}
		p.queue.Done(i)
	}
}

// look does what is next for an object. One that is gone needs nothing.
func (p *players) look(ctx context.Context, i item) error {
	switch i.kind {
	case "claim":
		claim := &corev1.PersistentVolumeClaim{}
		if err := p.client.Get(ctx, i.key, claim); err != nil {
			return client.IgnoreNotFound(err)
		}
		return p.bind(ctx, claim)
	case "pod":
		worker := &corev1.Pod{}
		if err := p.client.Get(ctx, i.key, worker); err != nil {
			return client.IgnoreNotFound(err)
		}
		return p.run(ctx, i, worker)
	}
	d := &v1alpha1.VMDisk{}
	if err := p.client.Get(ctx, i.key, d); err != nil {
		return client.IgnoreNotFound(err)
	}
	if meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionWorkloadsReady) {
		p.mu.Lock()
		p.ready[d.Name] = true
		p.mu.Unlock()
		select {
		case p.news <- struct{}{}:
		default: // who waits has not looked yet, and will see this one, too
		}
	}
	return nil
}

// bind is the storage: a volume is made for a claim, and the two are bound, in the same three writes that Kubernetes needs.
func (p *players) bind(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.Status.Phase == corev1.ClaimBound {
		return nil
	}
	name := "pvc-" + string(claim.UID)
	switch {
	case claim.Annotations["volume.kubernetes.io/storage-provisioner"] == "":
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "volume.kubernetes.io/storage-provisioner", "linstor.csi.linbit.com")
		return p.client.Update(ctx, claim)
	case claim.Spec.VolumeName == "":
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode,
			ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "linstor.csi.linbit.com", VolumeHandle: name}},
		}}
		if err := p.client.Create(ctx, volume); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
		claim.Spec.VolumeName = name
		return p.client.Update(ctx, claim)
	default:
		claim.Status.Phase, claim.Status.Capacity, claim.Status.AccessModes = corev1.ClaimBound, claim.Spec.Resources.Requests, claim.Spec.AccessModes
		return p.client.Status().Update(ctx, claim)
	}
}

// run is the scheduler, the kubelet and the worker.
func (p *players) run(ctx context.Context, i item, worker *corev1.Pod) error {
	state := corev1.ContainerState{}
	if len(worker.Status.ContainerStatuses) > 0 {
		state = worker.Status.ContainerStatuses[0].State
	}
	now := metav1.Now()
	switch {
	case worker.DeletionTimestamp != nil:
		return client.IgnoreNotFound(p.client.Delete(ctx, worker, client.GracePeriodSeconds(0)))
	case worker.Spec.NodeName == "":
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: worker.Name, Namespace: worker.Namespace}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
		return p.pods.CoreV1().Pods(worker.Namespace).Bind(ctx, b, metav1.CreateOptions{})
	case state.Waiting == nil && state.Running == nil && state.Terminated == nil:
		state.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	case state.Waiting != nil:
		worker.Status.Phase = corev1.PodRunning
		state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	case state.Running != nil && time.Since(state.Running.StartedAt.Time) < p.filling:
		p.queue.AddAfter(i, time.Until(state.Running.StartedAt.Add(p.filling)))
		return nil
	case state.Running != nil:
		worker.Status.Phase = corev1.PodSucceeded
		state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Completed", StartedAt: state.Running.StartedAt, FinishedAt: now,
			Message: string(job.Result{Outcome: job.Succeeded, ReadBytes: 1 << 30, WrittenBytes: 1 << 30}.Encode()),
		}}
	default:
		return nil
	}
	worker.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: worker.Spec.Containers[0].Name, Image: worker.Spec.Containers[0].Image, State: state}}
	return p.client.Status().Update(ctx, worker)
}
