//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// vmdiskNamespace is where vmdisk itself runs.
const vmdiskNamespace = "vmdisk"

// quotaName is the quota with the tenant's share, as the report names it.
const quotaName = "quota"

// reportsQuotas gives the tenant the two quotas of the report, with exactly so much storage, in one claim.
func (n *tenant) reportsQuotas(storage string) {
	n.t.Helper()
	n.quota("default-zero-quota", map[corev1.ResourceName]string{
		"count/poddisruptionbudgets.policy":             "0",
		"count/volumesnapshots.snapshot.storage.k8s.io": "0",
		"requests.nvidia.com/gpu":                       "0",
		"services.loadbalancers":                        "0",
	})
	n.quota(quotaName, map[corev1.ResourceName]string{
		"count/jobs.batch":       "100",
		"persistentvolumeclaims": "1",
		"pods":                   "64",
		"requests.cpu":           "5",
		"requests.memory":        "5Gi",
		"requests.storage":       storage,
		"limits.cpu":             "10",
		"limits.memory":          "10Gi",
	})
}

// quota makes a quota and waits until it is counted: until then the API server refuses everything.
func (n *tenant) quota(name string, hard map[corev1.ResourceName]string) {
	n.t.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: amounts(hard)}}
	n.create(q)
	n.eventually(soon, "quota "+name+" is counted", func() error {
		q := get(n, name, &corev1.ResourceQuota{})
		if !equality.Semantic.DeepEqual(q.Spec.Hard, q.Status.Hard) {
			return fmt.Errorf("its status has %v", q.Status.Hard)
		}
		return nil
	})
}

// raise changes what a quota allows of one resource.
func (n *tenant) raise(quota string, what corev1.ResourceName, to string) {
	n.t.Helper()
	q := get(n, quota, &corev1.ResourceQuota{})
	before := client.MergeFrom(q.DeepCopy())
	q.Spec.Hard[what] = resource.MustParse(to)
	if err := n.Patch(n.t.Context(), q, before); err != nil {
		n.t.Fatalf("raise quota %s: %v", quota, err)
	}
}

func amounts(of map[corev1.ResourceName]string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for name, amount := range of {
		l[name] = resource.MustParse(amount)
	}
	return l
}

// usage is the most that a tenant ever used, by its quota's own count and by the claims that there were.
type usage struct {
	mu   sync.Mutex
	live map[types.UID]int64 // the claims that exist, and what they ask for
	seen seen
	rest []string // claims in vmdisk's own namespace: there must be none
}

// seen are maxima.
type seen struct{ QuotaClaims, QuotaBytes, Claims, Bytes int64 }

// measure watches the tenant's quota and claims until the test ends. A watch sees every change, so that nothing which lasted
// only a moment is missed, as a sample might.
func (n *tenant) measure() *usage {
	n.t.Helper()
	u := &usage{live: map[types.UID]int64{}}
	n.watch(n.name, &corev1.ResourceQuotaList{}, u.seeQuota)
	n.watch(n.name, &corev1.PersistentVolumeClaimList{}, u.seeClaim)
	n.watch(vmdiskNamespace, &corev1.PersistentVolumeClaimList{}, u.seeRest)
	return u
}

// watch calls see with each change of a namespace's objects until the test ends. It returns once the watch is open.
func (n *tenant) watch(namespace string, list client.ObjectList, see func(watch.EventType, client.Object)) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	var watcher sync.WaitGroup
	n.t.Cleanup(watcher.Wait)
	n.t.Cleanup(cancel)
	started := make(chan struct{}, 1)
	watcher.Go(func() { n.follow(ctx, namespace, list, started, see) })
	<-started
}

// follow calls see with each change until ctx ends; a watch that the server ends is opened again.
func (n *tenant) follow(ctx context.Context, namespace string, list client.ObjectList, started chan<- struct{}, see func(watch.EventType, client.Object)) {
	tell := sync.OnceFunc(func() { started <- struct{}{} })
	for ctx.Err() == nil {
		changes, err := n.Watch(ctx, list, client.InNamespace(namespace))
		tell()
		if err != nil {
			if ctx.Err() == nil {
				n.t.Errorf("watch %T: %v", list, err)
			}
			return
		}
		for change := range changes.ResultChan() {
			if object, ok := change.Object.(client.Object); ok && change.Type != watch.Error && change.Type != watch.Bookmark {
				see(change.Type, object)
			}
		}
	}
}

func (u *usage) seeQuota(_ watch.EventType, object client.Object) {
	quota := object.(*corev1.ResourceQuota)
	if quota.Name != quotaName {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	claims, bytes := quota.Status.Used[corev1.ResourcePersistentVolumeClaims], quota.Status.Used[corev1.ResourceRequestsStorage]
	u.seen.QuotaClaims = max(u.seen.QuotaClaims, claims.Value())
	u.seen.QuotaBytes = max(u.seen.QuotaBytes, bytes.Value())
}

func (u *usage) seeClaim(event watch.EventType, object client.Object) {
	claim := object.(*corev1.PersistentVolumeClaim)
	u.mu.Lock()
	defer u.mu.Unlock()
	if event == watch.Deleted {
		delete(u.live, claim.UID)
		return
	}
	u.live[claim.UID] = claim.Spec.Resources.Requests.Storage().Value()
	u.seen.Claims = max(u.seen.Claims, int64(len(u.live)))
	sum := int64(0)
	for bytes := range maps.Values(u.live) {
		sum += bytes
	}
	u.seen.Bytes = max(u.seen.Bytes, sum)
}

func (u *usage) seeRest(_ watch.EventType, object client.Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.Contains(u.rest, object.GetName()) {
		u.rest = append(u.rest, object.GetName())
	}
}

// wasExactly checks that the most that was ever used is one claim of so many bytes: not more, and, so that a measurement that
// saw nothing is no proof, not less.
func (u *usage) wasExactly(n *tenant, bytes int64) {
	n.t.Helper()
	want := seen{QuotaClaims: 1, QuotaBytes: bytes, Claims: 1, Bytes: bytes}
	n.eventually(10*time.Second, "the quota has counted the claim", func() error {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.seen != want {
			return fmt.Errorf("the most that was used is %+v, want %+v", u.seen, want)
		}
		return nil
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.rest) > 0 {
		n.t.Errorf("vmdisk made claims in its own namespace: %v", u.rest)
	}
}
