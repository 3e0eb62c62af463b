//go:build apiserver

package controllers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/pod"
)

// waitForEachLimit makes a disk in a namespace of its own for each kind of limit, which has room for nothing and is lifted then.
func waitForEachLimit(p plane) {
	const storage = "requests.storage"
	for name, c := range map[string]struct {
		limit, hard, used string
		worker            bool // the claim passes, and its worker doesn't
		says              string
	}{
		"storage":             {limit: storage, hard: "19Gi", used: "0", says: "it asks requests.storage=20Gi, used are requests.storage=0 of requests.storage=19Gi"},
		"claims":              {limit: "persistentvolumeclaims", hard: "2", used: "2", says: "it asks persistentvolumeclaims=1, used are persistentvolumeclaims=2 of persistentvolumeclaims=2"},
		"claims-as-objects":   {limit: "count/persistentvolumeclaims", hard: "2", used: "2", says: "it asks count/persistentvolumeclaims=1, used are count/persistentvolumeclaims=2 of count/persistentvolumeclaims=2"},
		"storage-of-a-class":  {limit: "replicated.storageclass.storage.k8s.io/" + storage, hard: "1Gi", used: "1Gi", says: "used are replicated.storageclass.storage.k8s.io/requests.storage=1Gi"},
		"claims-of-a-class":   {limit: "replicated.storageclass.storage.k8s.io/persistentvolumeclaims", hard: "1", used: "1", says: "used are replicated.storageclass.storage.k8s.io/persistentvolumeclaims=1"},
		"pods":                {limit: "pods", hard: "3", used: "3", worker: true, says: "it asks pods=1, used are pods=3 of pods=3"},
		"pods-as-objects":     {limit: "count/pods", hard: "3", used: "3", worker: true, says: "it asks count/pods=1, used are count/pods=3 of count/pods=3"},
		"requests-of-cpu":     {limit: "requests.cpu", hard: "50m", used: "0", worker: true, says: "it asks requests.cpu=100m, used are requests.cpu=0 of requests.cpu=50m"},
		"limits-of-cpu":       {limit: "limits.cpu", hard: "4", used: "4", worker: true, says: "it asks limits.cpu=1, used are limits.cpu=4 of limits.cpu=4"},
		"requests-of-memory":  {limit: "requests.memory", hard: "1M", used: "0", worker: true, says: "it asks requests.memory=60M, used are requests.memory=0 of requests.memory=1M"},
		"limits-of-memory":    {limit: "limits.memory", hard: "500M", used: "0", worker: true, says: "it asks limits.memory=600M, used are limits.memory=0 of limits.memory=500M"},
		"the-size-of-a-claim": {says: "maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 20Gi"},
	} {
		p.t.Run(name, func(t *testing.T) {
			p := plane{p.Client, t, p.admin}
			ns := "limit-" + name
			p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
			lift := p.limitSize(ns, c.limit == "")
			if c.limit != "" {
				lift = p.limit(ns, c.limit, c.hard, c.used, c.worker)
			}
			disk := vmdisk("disk")
			disk.Namespace = ns
			p.create(disk)
			if c.worker {
				claim := until(p, named(&corev1.PersistentVolumeClaim{}, ns, "disk"), "claim", there)
				p.status(claim, func() { claim.Status.Phase = corev1.ClaimBound })
			}
			until(p, named(&v1alpha1.VMDisk{}, ns, "disk"), "the limit is named", func(d *v1alpha1.VMDisk) bool {
				ready := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionWorkloadsReady)
				return ready != nil && strings.Contains(ready.Message, c.says) && (c.limit == "" || strings.Contains(ready.Message, `quota "quota"`))
			})
			lifted := time.Now()
			lift()
			claim := until(p, named(&corev1.PersistentVolumeClaim{}, ns, "disk"), "claim, once there is room", there)
			if c.worker {
				until(p, named(&corev1.Pod{}, ns, pod.Name(claim.UID)), "worker, once there is room", there)
			}
			if took := time.Since(lifted); took > 15*time.Second {
				t.Errorf("it went on after %s: it was not woken, but asked again by itself", took)
			}
		})
	}
}

// limit makes a quota, waits until it is enforced, and answers how to lift it. It plays the controller that counts usage.
func (p plane) limit(namespace, name, hard, used string, ofPods bool) (lift func()) {
	p.t.Helper()
	list := func(q string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(q)}
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "quota"}, Spec: corev1.ResourceQuotaSpec{Hard: list(hard)}}
	p.create(quota)
	p.status(quota, func() { quota.Status = corev1.ResourceQuotaStatus{Hard: list(hard), Used: list(used)} })
	p.enforced(namespace, ofPods, "exceeded quota")
	return func() {
		until(p, quota, "the quota", there)
		p.status(quota, func() { quota.Status.Hard = list("1Ti") })
	}
}

// limitSize bounds the size of claims by a LimitRange.
func (p plane) limitSize(namespace string, wanted bool) (lift func()) {
	p.t.Helper()
	if !wanted {
		return nil
	}
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sizes"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypePersistentVolumeClaim, Max: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
	}}}
	p.create(limits)
	p.enforced(namespace, false, "maximum storage usage")
	return func() {
		if err := p.Delete(p.t.Context(), limits); err != nil {
			p.t.Fatal(err)
		}
	}
}

// enforced waits until the API server, whose view of limits is a moment old, refuses what the disk will need.
func (p plane) enforced(namespace string, aPod bool, says string) {
	p.t.Helper()
	var probe client.Object = target("probe")
	if aPod {
		list := func(cpu, memory string) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		}
		probe = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "probe", Image: "none", Resources: corev1.ResourceRequirements{Requests: list("100m", "60M"), Limits: list("1", "600M")}}}}}
	}
	probe.SetNamespace(namespace)
	var last error
	err := wait.PollUntilContextTimeout(p.t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		last = p.Create(ctx, probe.DeepCopyObject().(client.Object), client.DryRunAll)
		return apierrors.IsForbidden(last) && strings.Contains(last.Error(), says), nil
	})
	if err != nil {
		p.t.Fatalf("the limit is not enforced: the last answer was: %v", last)
	}
}

// oldestFirst lets three disks wait for one quota: of 40Gi, of 20Gi, and of 20Gi, in this order. Room for 20Gi is the second's: it passes the
// first, which doesn't fit, and the third doesn't take it away.
func oldestFirst(p plane) {
	const ns = "oldest-first"
	p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	p.limit(ns, "requests.storage", "1Gi", "1Gi", false)
	for i, size := range []string{"40Gi", "20Gi", "20Gi"} {
		disk := vmdisk(fmt.Sprintf("disk-%d", i))
		disk.Namespace, disk.Spec.Storage = ns, new(resource.MustParse(size))
		p.create(disk)
		until(p, disk, "it waits", func(d *v1alpha1.VMDisk) bool {
			ready := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionWorkloadsReady)
			return ready != nil && strings.Contains(ready.Message, `quota "quota"`)
		})
		p.nextSecond(disk)
	}
	quota := until(p, named(&corev1.ResourceQuota{}, ns, "quota"), "quota", there)
	p.status(quota, func() { quota.Status.Hard["requests.storage"] = resource.MustParse("21Gi") })
	until(p, named(&corev1.PersistentVolumeClaim{}, ns, "disk-1"), "the second's claim", there)
	var claims corev1.PersistentVolumeClaimList
	if err := p.List(p.t.Context(), &claims, client.InNamespace(ns)); err != nil || len(claims.Items) != 1 {
		p.t.Errorf("there are %d claims, %v", len(claims.Items), err)
	}
}

// nextSecond waits until objects are younger than this one: creation times are whole seconds.
func (p plane) nextSecond(o client.Object) {
	p.t.Helper()
	time.Sleep(time.Until(o.GetCreationTimestamp().Add(time.Second)))
}
