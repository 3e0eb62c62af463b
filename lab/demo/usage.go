package demo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// usage remembers the most that the tenant's quota and the claims of some namespaces ever showed. It sees every change,
// so nothing that lasted only a moment is missed.
type usage struct {
	namespaces []string // whose claims count: the tenant's and vmdisk's own, where a helper volume could hide

	mu     sync.Mutex
	quota  map[corev1.ResourceName]amounts
	claims map[string]resource.Quantity // that exist now, by namespace/name
	most   []string                     // the claims at the moment when there were most of them
	bytes  resource.Quantity            // the most that the claims asked for together
}

// amounts are a quota's for one resource.
type amounts struct{ used, most, hard resource.Quantity }

func newUsage(namespaces ...string) *usage {
	return &usage{namespaces: namespaces, quota: map[corev1.ResourceName]amounts{}, claims: map[string]resource.Quantity{}}
}

// during records the usage while do runs, and returns how long that took. It begins to watch before do and goes on for
// a moment after it, in which the last changes arrive.
func (u *usage) during(ctx context.Context, c client.WithWatch, namespace string, do func(context.Context) error) (time.Duration, error) {
	recording, stop := context.WithCancel(ctx)
	var recorder sync.WaitGroup
	recorder.Go(func() { u.record(recording, c, namespace) })
	defer recorder.Wait()
	defer stop()
	start := time.Now()
	if err := do(ctx); err != nil {
		return 0, err
	}
	took := time.Since(start)
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(aMoment):
	}
	return took, nil
}

// aMoment is how long the last changes of a quota may take to arrive.
const aMoment = time.Second

// record follows the namespace's quotas and the claims until ctx ends.
func (u *usage) record(ctx context.Context, c client.WithWatch, namespace string) {
	var both sync.WaitGroup
	both.Go(func() {
		// It ends with the context only, which is how it is meant to end.
		_ = follow(ctx, c, &corev1.ResourceQuotaList{}, []client.ListOption{client.InNamespace(namespace)}, func() {},
			func(_ watch.EventType, object client.Object) error {
				u.seeQuota(object.(*corev1.ResourceQuota))
				return nil
			})
	})
	both.Go(func() {
		_ = follow(ctx, c, &corev1.PersistentVolumeClaimList{}, nil, u.forgetClaims,
			func(event watch.EventType, object client.Object) error {
				u.seeClaim(event, object.(*corev1.PersistentVolumeClaim))
				return nil
			})
	})
	both.Wait()
}

func (u *usage) seeQuota(quota *corev1.ResourceQuota) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, hard := range quota.Status.Hard {
		a := u.quota[name]
		a.hard, a.used = hard, quota.Status.Used[name]
		if a.used.Cmp(a.most) > 0 {
			a.most = a.used
		}
		u.quota[name] = a
	}
}

func (u *usage) seeClaim(event watch.EventType, claim *corev1.PersistentVolumeClaim) {
	if !slices.Contains(u.namespaces, claim.Namespace) {
		return // somebody else's
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	name := claim.Namespace + "/" + claim.Name
	if event == watch.Deleted {
		delete(u.claims, name)
		return
	}
	u.claims[name] = claim.Spec.Resources.Requests[corev1.ResourceStorage]
	var sum resource.Quantity
	names := make([]string, 0, len(u.claims))
	for name, size := range u.claims {
		names = append(names, name)
		sum.Add(size)
	}
	if len(names) > len(u.most) {
		slices.Sort(names)
		u.most = names
	}
	if sum.Cmp(u.bytes) > 0 {
		u.bytes = sum
	}
}

// forgetClaims makes room for the claims of a watch that starts anew. The maxima stay.
func (u *usage) forgetClaims() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.claims)
}

// print writes the table; resources that were never used are left out, except for the quotas that matter.
func (u *usage) print(out io.Writer) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "  QUOTA\tUSED\tMOST SEEN\tHARD\n")
	names := make([]string, 0, len(u.quota))
	for name := range u.quota {
		names = append(names, string(name))
	}
	slices.Sort(names)
	for _, name := range names {
		a := u.quota[corev1.ResourceName(name)]
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", name, &a.used, &a.most, &a.hard)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the quota: %w", err)
	}
	_, err := fmt.Fprintf(out, "  Claims in %s, at most at one time: %d (%s), %s together\n",
		strings.Join(u.namespaces, " and "), len(u.most), strings.Join(u.most, ", "), &u.bytes)
	return err
}

// differs returns what was not exactly the disk's share at the most: one claim, and its size. Less would mean that the
// disk's own claim was not seen.
func (u *usage) differs(size int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, share := range []struct {
		name corev1.ResourceName
		own  int64
	}{{corev1.ResourcePersistentVolumeClaims, 1}, {corev1.ResourceRequestsStorage, size}} {
		a, ok := u.quota[share.name]
		if !ok {
			return fmt.Errorf("the quota says nothing of %s: was it seen at all", share.name)
		}
		if a.most.Value() != share.own {
			return fmt.Errorf("at the most the quota showed %s %s, which is not the disk's own %d", share.name, &a.most, share.own)
		}
	}
	if len(u.most) != 1 {
		return fmt.Errorf("there were %d claims at one time (%s), where the disk's own is one", len(u.most), strings.Join(u.most, ", "))
	}
	return nil
}
