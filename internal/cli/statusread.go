package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/cause"
	"vmdisk.io/vmdisk/internal/plan/status"
	"vmdisk.io/vmdisk/internal/pod"
)

// gatherer reads what there is of one disk, with whatever rights it is given.
type gatherer struct {
	connected
	seen status.Seen
}

// look reads everything about a disk. What may not be read is noted, and no failure as long as the disk itself can be.
func (o *statusOptions) look(ctx context.Context, cluster connected) (status.Seen, error) {
	g := gatherer{connected: cluster, seen: status.Seen{Namespace: o.namespace, Name: o.name, At: time.Now()}}
	if !o.dataVolume {
		disk, err := read[v1alpha1.VMDisk](ctx, &g, "VMDisk", o.name)
		if err != nil {
			return g.seen, err
		}
		g.seen.Disk = disk
	}
	unread := len(g.seen.Unread)
	dv, err := read[cdiv1.DataVolume](ctx, &g, "DataVolume", o.name)
	if err != nil {
		return g.seen, err
	}
	g.seen.DataVolume, g.seen.DataVolumeUnread = dv, len(g.seen.Unread) > unread
	if g.seen.Disk == nil && dv == nil {
		return g.seen, g.nothing()
	}
	if err := g.parts(ctx); err != nil {
		return g.seen, err
	}
	return g.seen, nil
}

// nothing says why there is nothing to tell.
func (g *gatherer) nothing() error {
	text := fmt.Sprintf("no VMDisk or DataVolume %s was found in namespace %s: name another namespace with -n", g.seen.Name, g.seen.Namespace)
	for _, u := range g.seen.Unread {
		text += "; " + u
	}
	return errors.New(text)
}

// parts reads the claim, the worker, its log, and the events about all of them.
func (g *gatherer) parts(ctx context.Context) (err error) {
	if g.seen.Claim, err = read[corev1.PersistentVolumeClaim](ctx, g, "claim", g.seen.Name); err != nil {
		return err
	}
	if g.seen.Claim != nil {
		if g.seen.Worker, err = read[corev1.Pod](ctx, g, "worker", pod.Name(g.seen.Claim.UID)); err != nil {
			return err
		}
	}
	if w := g.seen.Worker; w != nil && w.Status.Phase == corev1.PodRunning {
		log, err := kube.LastLog(ctx, g.pods, w)
		if err := g.note("the worker's log, and so its bytes and its rate", err); err != nil {
			return err
		}
		if log != nil && log.Progress != (job.Progress{}) {
			g.seen.Progress = &log.Progress
		}
	}
	return g.events(ctx)
}

// events reads the events about each object. They are told by UID: an earlier object of the name is another one.
func (g *gatherer) events(ctx context.Context) error {
	var objects []client.Object
	if g.seen.Disk != nil {
		objects = append(objects, g.seen.Disk)
	}
	if g.seen.DataVolume != nil {
		objects = append(objects, g.seen.DataVolume)
	}
	if g.seen.Claim != nil {
		objects = append(objects, g.seen.Claim)
	}
	if g.seen.Worker != nil {
		objects = append(objects, g.seen.Worker)
	}
	for _, o := range objects {
		var list corev1.EventList
		err := g.reader.List(ctx, &list, client.InNamespace(o.GetNamespace()), client.MatchingFields{"involvedObject.uid": string(o.GetUID())})
		if err != nil {
			return g.note("events", err)
		}
		g.seen.Events = append(g.seen.Events, list.Items...)
	}
	slices.SortStableFunc(g.seen.Events, func(a, b corev1.Event) int {
		return cmp.Or(cause.LastSeen(a).Compare(cause.LastSeen(b).Time), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

// read reads one object; nil if there is none, or it may not be read, which is noted.
func read[T any, P kube.Object[T]](ctx context.Context, g *gatherer, what, name string) (P, error) {
	o, err := kube.Find[T, P](ctx, g.reader, client.ObjectKey{Namespace: g.seen.Namespace, Name: name})
	if err != nil {
		return nil, g.note("the "+what, err)
	}
	return o, nil
}

// note takes note of what can't be read, for lack of rights or because the cluster doesn't serve it. Any other error is a failure.
func (g *gatherer) note(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err):
		g.seen.Unread = append(g.seen.Unread, fmt.Sprintf("%s: the cluster doesn't serve such objects", what))
	case apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err), apierrors.IsInternalError(err), errors.Is(err, context.DeadlineExceeded):
		g.seen.Unread = append(g.seen.Unread, fmt.Sprintf("%s: %s", what, serversWords(err)))
	default:
		return fmt.Errorf("read %s: %w", what, err)
	}
	return nil
}

// serversWords are the API server's own, without what was said of them on the way.
func serversWords(err error) string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}
