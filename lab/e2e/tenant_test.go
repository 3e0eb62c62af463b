//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/lab/cluster"
)

const (
	// soon is how long anything may take that is not the transfer of an image.
	soon = time.Minute
	// filled is how long a small image may take on a machine with other work.
	filled = 2 * time.Minute
	// told is within which time a person must be able to read what is wrong.
	told = 30 * time.Second

	lookEvery = 200 * time.Millisecond
)

// tenant is a namespace of one scenario, and the administrator's client.
type tenant struct {
	client.WithWatch
	t    *testing.T
	name string
}

// connect makes the administrator's client.
func connect() (client.WithWatch, error) {
	access, err := cluster.RESTConfig()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cdi.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make a scheme: %w", err)
		}
	}
	return client.NewWithWatch(access, client.Options{Scheme: scheme})
}

const tenantPrefix = "e2e-tenant-"

func isTenant(namespace string) bool {
	return strings.HasPrefix(namespace, tenantPrefix) || namespace == imageNamespace
}

// newTenant makes a namespace that admits restricted pods only, and that is deleted after the test. A test that failed tells
// the namespace's story first.
func newTenant(t *testing.T) *tenant {
	t.Helper()
	c, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: tenantPrefix,
		Labels:       map[string]string{tenantLabel: "", "pod-security.kubernetes.io/enforce": "restricted"},
		Annotations:  map[string]string{"e2e.vmdisk.io/test": t.Name()},
	}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	n := &tenant{WithWatch: c, t: t, name: namespace.Name}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the story of namespace %s:\n%s", n.name, n.story())
		}
		// Waiting for its end would hold up the next scenario; TestMain waits for all of them.
		if err := c.Delete(context.WithoutCancel(t.Context()), namespace); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete namespace %s: %v", n.name, err)
		}
	})
	n.eventually(soon, "the namespace's service account exists", func() error {
		return c.Get(t.Context(), n.key("default"), &corev1.ServiceAccount{})
	})
	return n
}

func (n *tenant) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: n.name, Name: name}
}

// eventually looks until check returns nil, and ends the test if it doesn't within that time.
func (n *tenant) eventually(within time.Duration, what string, check func() error) {
	n.t.Helper()
	start := time.Now()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Since(start) > within {
			n.t.Fatalf("not within %s: %s: %v", within, what, err)
		}
		time.Sleep(lookEvery)
	}
}

// create makes objects in the tenant's namespace.
func (n *tenant) create(objects ...client.Object) {
	n.t.Helper()
	for _, object := range objects {
		object.SetNamespace(n.name)
		if err := n.Create(n.t.Context(), object); err != nil {
			n.t.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

// get reads an object of the tenant's namespace, which must exist.
func get[T client.Object](n *tenant, name string, into T) T {
	n.t.Helper()
	if err := n.Get(n.t.Context(), n.key(name), into); err != nil {
		n.t.Fatalf("read %T %s: %v", into, name, err)
	}
	return into
}

// list reads all objects of one kind in the tenant's namespace.
func list[T client.ObjectList](n *tenant, into T, options ...client.ListOption) T {
	n.t.Helper()
	if err := n.List(n.t.Context(), into, append(options, client.InNamespace(n.name))...); err != nil {
		n.t.Fatalf("list %T: %v", into, err)
	}
	return into
}

// newDisk is a disk of the usual size. A nil source is a blank disk.
func newDisk(class string, source *v1alpha1.HTTPSource) *v1alpha1.VMDisk {
	size := resource.MustParse(diskSize)
	disk := &v1alpha1.VMDisk{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec:       v1alpha1.VMDiskSpec{StorageClass: class, Storage: &size},
	}
	if source != nil {
		disk.Spec.Source = &v1alpha1.Source{HTTP: source}
	}
	return disk
}

// becomesReady waits until the disk holds its bytes, and checks everything that a user can see of it.
func (n *tenant) becomesReady(name string) {
	n.t.Helper()
	n.eventually(filled, "the disk is ready", func() error {
		disk := get(n, name, &v1alpha1.VMDisk{})
		c := meta.FindStatusCondition(disk.Status.Conditions, v1alpha1.ConditionWorkloadsReady)
		if disk.Status.Phase == string(cdiv1.Failed) {
			n.t.Fatalf("the disk failed: %+v", c)
		}
		if c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("its WorkloadsReady is %+v", c)
		}
		if disk.Status.Phase != string(cdiv1.Succeeded) || disk.Status.Progress != "100.0%" {
			return fmt.Errorf("WorkloadsReady is True, but phase is %q and progress %q", disk.Status.Phase, disk.Status.Progress)
		}
		return nil
	})
}

// succeeds waits until a DataVolume is done. A DataVolume that fails ends the test at once.
func (n *tenant) succeeds(name string) {
	n.t.Helper()
	n.eventually(filled, "the DataVolume succeeds", func() error {
		dv := get(n, name, &cdiv1.DataVolume{})
		switch dv.Status.Phase {
		case cdiv1.Succeeded:
			return nil
		case cdiv1.Failed:
			n.t.Fatalf("the DataVolume failed: %+v", dv.Status.Conditions)
		}
		return fmt.Errorf("its phase is %q: %+v", dv.Status.Phase, dv.Status.Conditions)
	})
}

// workloads is the disk's WorkloadsReady condition; one without status if there is none yet.
func (n *tenant) workloads(name string) metav1.Condition {
	n.t.Helper()
	c := meta.FindStatusCondition(get(n, name, &v1alpha1.VMDisk{}).Status.Conditions, v1alpha1.ConditionWorkloadsReady)
	if c == nil {
		return metav1.Condition{}
	}
	return *c
}

// says waits until the disk's WorkloadsReady condition is False with a message that has all the parts, and keeps the story
// that the disk tells then. The time counts from the start of the first worker, if there comes one: how long the cluster
// takes for that is not vmdisk's to say.
func (n *tenant) says(name string, within time.Duration, parts ...string) {
	n.t.Helper()
	parts = append(parts, "DataVolume "+name+" is ")
	start := time.Now()
	for since, ran := start, false; ; time.Sleep(lookEvery) {
		c := n.workloads(name)
		lacks := slices.IndexFunc(parts, func(part string) bool { return !strings.Contains(c.Message, part) })
		if c.Status == metav1.ConditionFalse && c.Reason == "DataVolumeNotReady" && lacks < 0 {
			break
		}
		worker := n.worker()
		if at := startOf(worker); !ran && !at.IsZero() { // a later one, of the next attempt, buys no time
			since, ran = at, true
		}
		pending := !ran && worker != nil
		if time.Since(since) > within && !pending || time.Since(start) > filled {
			n.t.Fatalf("not within %s: the disk says %q: WorkloadsReady is %s, %s: %s", within, parts, c.Status, c.Reason, c.Message)
		}
	}
	n.keepStory(name)
}

// worker is the importer of this moment; nil if there is none.
func (n *tenant) worker() *corev1.Pod {
	n.t.Helper()
	pods := list(n, &corev1.PodList{}, client.MatchingLabels{cdi.WorkerLabel: cdi.WorkerImporter})
	if len(pods.Items) == 0 {
		return nil
	}
	return &pods.Items[0]
}

// startOf is when a worker began to run; zero if it has not.
func startOf(worker *corev1.Pod) time.Time {
	if worker != nil {
		for _, s := range worker.Status.ContainerStatuses {
			switch {
			case s.State.Running != nil:
				return s.State.Running.StartedAt.Time
			case s.State.Terminated != nil:
				return s.State.Terminated.StartedAt.Time
			}
		}
	}
	return time.Time{}
}

// condition is a DataVolume's condition of a type.
func condition(dv *cdiv1.DataVolume, kind cdiv1.DataVolumeConditionType) cdiv1.DataVolumeCondition {
	for _, c := range dv.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return cdiv1.DataVolumeCondition{Type: kind}
}
