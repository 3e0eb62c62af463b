//go:build apiserver

package kube_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/lab/apiserver"
)

// world is a namespace on a real API server, and a writer.
type world struct {
	client.Client
	writer   *kube.Writer
	recorder *events.FakeRecorder
}

func start(t *testing.T) world {
	c, err := client.New(apiserver.Start(t), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	recorder := events.NewFakeRecorder(10)
	w := world{Client: c, writer: kube.NewWriter(c, recorder), recorder: recorder}
	w.must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant-a"}}))
	return w
}

func (w world) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// carry does actions on behalf of a claim, whose status is left as it is.
func (w world) carry(t *testing.T, on *corev1.PersistentVolumeClaim, actions ...action.Action) error {
	t.Helper()
	target := kube.Target[corev1.PersistentVolumeClaimStatus]{Object: on, Status: statusOf}
	_, err := kube.Carry(t.Context(), w.writer, target, func(*action.Refusal) action.Decision[corev1.PersistentVolumeClaimStatus] {
		return action.Decision[corev1.PersistentVolumeClaimStatus]{Actions: actions, Status: on.Status}
	})
	return err
}

func statusOf(o client.Object) *corev1.PersistentVolumeClaimStatus {
	return &o.(*corev1.PersistentVolumeClaim).Status
}

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: name},
	}
}

func TestWriter(t *testing.T) {
	w := start(t)
	subject := claim("subject")
	w.must(t, w.Create(t.Context(), subject))

	t.Run("what exists is not created twice", func(t *testing.T) {
		for range 2 {
			w.must(t, w.carry(t, subject, action.Create{Object: configMap("twice")}))
		}
	})

	t.Run("a delete spares another object of the same name", func(t *testing.T) {
		w.must(t, w.Create(t.Context(), configMap("reborn")))
		stale := configMap("reborn")
		stale.UID = "an-earlier-one"
		w.must(t, w.carry(t, subject, action.Delete{Object: stale}))
		w.must(t, w.Get(t.Context(), client.ObjectKeyFromObject(stale), configMap("reborn")))
	})

	t.Run("a delete of what is gone is done", func(t *testing.T) {
		gone := configMap("gone")
		gone.UID = "some-uid"
		w.must(t, w.carry(t, subject, action.Delete{Object: gone}))
	})

	fresh := func(t *testing.T) *corev1.PersistentVolumeClaim {
		got := claim("subject")
		w.must(t, w.Get(t.Context(), client.ObjectKeyFromObject(got), got))
		return got
	}

	t.Run("annotations are merged", func(t *testing.T) {
		for _, a := range []map[string]string{{"a": "1", "b": "1"}, {"b": "2"}} {
			w.must(t, w.carry(t, subject, action.Annotate{Object: fresh(t), Annotations: a}))
		}
		if diff := cmp.Diff(map[string]string{"a": "1", "b": "2"}, fresh(t).Annotations); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("what has changed since it was observed is left alone, and looked at again", func(t *testing.T) {
		target := kube.Target[corev1.PersistentVolumeClaimStatus]{Object: subject, Status: statusOf}
		again, err := kube.Carry(t.Context(), w.writer, target, func(*action.Refusal) action.Decision[corev1.PersistentVolumeClaimStatus] {
			return action.Decision[corev1.PersistentVolumeClaimStatus]{
				Actions: []action.Action{action.Annotate{Object: subject, Annotations: map[string]string{"a": "stale"}}},
				Status:  subject.Status,
			}
		})
		w.must(t, err)
		if again.RequeueAfter == 0 || fresh(t).Annotations["a"] != "1" {
			t.Errorf("again after %v, annotations %v", again.RequeueAfter, fresh(t).Annotations)
		}
	})

	t.Run("an old view is refused even where nothing would change, and what follows is not done", func(t *testing.T) {
		target := kube.Target[corev1.PersistentVolumeClaimStatus]{Object: subject, Status: statusOf}
		again, err := kube.Carry(t.Context(), w.writer, target, func(*action.Refusal) action.Decision[corev1.PersistentVolumeClaimStatus] {
			return action.Decision[corev1.PersistentVolumeClaimStatus]{
				Actions: []action.Action{
					action.Annotate{Object: subject, Annotations: map[string]string{"a": "1"}}, // as it is by now
					action.Create{Object: configMap("never")},
				},
				Status: subject.Status,
			}
		})
		w.must(t, err)
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(configMap("never")), configMap("never")); again.RequeueAfter == 0 || !apierrors.IsNotFound(err) {
			t.Errorf("again after %v; the next action's object: %v", again.RequeueAfter, err)
		}
	})

	t.Run("what a claim asks for is raised, and its annotations are set with that or not at all", func(t *testing.T) {
		bound := claim("bound")
		w.must(t, w.Create(t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "grows"}, Provisioner: "csi.example", AllowVolumeExpansion: new(true)}))
		bound.Spec.StorageClassName = new("grows")
		w.must(t, w.Create(t.Context(), bound))
		expand := func(mark string) {
			w.must(t, w.carry(t, subject, action.Expand{Claim: bound, Bytes: 2 << 30, Annotations: map[string]string{"mark": mark}}))
			w.must(t, w.Get(t.Context(), client.ObjectKeyFromObject(bound), bound))
		}
		type seen struct{ Size, Mark string }
		now := func() seen { return seen{bound.Spec.Resources.Requests.Storage().String(), bound.Annotations["mark"]} }
		expand("not bound yet")
		if diff := cmp.Diff(seen{"1Gi", ""}, now()); diff != "" {
			t.Error(diff)
		}
		before := bound.DeepCopy()
		bound.Status.Phase = corev1.ClaimBound
		w.must(t, w.Status().Patch(t.Context(), bound, client.MergeFrom(before)))
		expand("bound")
		if diff := cmp.Diff(seen{"2Gi", "bound"}, now()); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("an owner is added", func(t *testing.T) {
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "twice", UID: "uid", Controller: new(true)}
		w.must(t, w.carry(t, subject, action.Own{Object: fresh(t), Owner: owner}))
		if diff := cmp.Diff([]metav1.OwnerReference{owner}, fresh(t).OwnerReferences); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("a status that is old by now is neither written nor told", func(t *testing.T) {
		old := fresh(t)
		w.must(t, w.carry(t, old, action.Annotate{Object: old, Annotations: map[string]string{"a": "3"}}))
		target := kube.Target[corev1.PersistentVolumeClaimStatus]{Object: old, Status: statusOf}
		again, err := kube.Carry(t.Context(), w.writer, target, func(*action.Refusal) action.Decision[corev1.PersistentVolumeClaimStatus] {
			return action.Decision[corev1.PersistentVolumeClaimStatus]{
				Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimLost},
				Events: []action.Event{{Type: "Normal", Reason: "Lost", Message: "it is lost"}},
			}
		})
		w.must(t, err)
		if again.RequeueAfter == 0 || fresh(t).Status.Phase == corev1.ClaimLost || len(w.recorder.Events) > 0 {
			t.Errorf("again after %v, phase %s, %d events", again.RequeueAfter, fresh(t).Status.Phase, len(w.recorder.Events))
		}
	})

	t.Run("an object's own annotation and status go together", func(t *testing.T) {
		now := fresh(t)
		target := kube.Target[corev1.PersistentVolumeClaimStatus]{Object: now, Status: statusOf}
		again, err := kube.Carry(t.Context(), w.writer, target, func(*action.Refusal) action.Decision[corev1.PersistentVolumeClaimStatus] {
			return action.Decision[corev1.PersistentVolumeClaimStatus]{
				Actions: []action.Action{action.Annotate{Object: now, Annotations: map[string]string{"a": "4"}}},
				Status:  corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending, Conditions: []corev1.PersistentVolumeClaimCondition{{Type: "Seen", Status: corev1.ConditionTrue}}},
			}
		})
		w.must(t, err)
		if again.RequeueAfter != 0 || fresh(t).Annotations["a"] != "4" || len(fresh(t).Status.Conditions) != 1 {
			t.Errorf("again after %v: %+v", again.RequeueAfter, fresh(t))
		}
	})

	t.Run("an unchanged status is not written", func(t *testing.T) {
		got := claim("subject")
		w.must(t, w.Get(t.Context(), client.ObjectKeyFromObject(got), got))
		before := got.ResourceVersion
		w.must(t, w.carry(t, got))
		w.must(t, w.Get(t.Context(), client.ObjectKeyFromObject(got), got))
		if got.ResourceVersion != before {
			t.Errorf("resource version %s became %s", before, got.ResourceVersion)
		}
	})
}

// TestARefusalIsPlannedAgain lets a quota refuse a claim: the second decision's status and events count, its actions don't.
func TestARefusalIsPlannedAgain(t *testing.T) {
	w := start(t)
	hard := corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("1")}
	subject := claim("subject")
	w.must(t, w.Create(t.Context(), subject))
	apiserver.Limit(t, w, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "quota"},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
		Status:     corev1.ResourceQuotaStatus{Used: hard},
	})

	var texts []string
	target := kube.Target[corev1.PersistentVolumeClaimStatus]{Object: subject, Status: statusOf}
	_, err := kube.Carry(t.Context(), w.writer, target, func(refusal *action.Refusal) action.Decision[corev1.PersistentVolumeClaimStatus] {
		d := action.Decision[corev1.PersistentVolumeClaimStatus]{
			Actions: []action.Action{action.Create{Object: claim("second")}, action.Create{Object: configMap("third")}},
			Status:  subject.Status,
			Events:  []action.Event{{Type: "Normal", Reason: "Made", Message: "all is made"}},
		}
		if refusal != nil {
			texts = append(texts, refusal.Text)
			d.Status.Phase = corev1.ClaimPending
			d.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: "Refused", Status: corev1.ConditionTrue}}
			d.Events = []action.Event{{Type: "Warning", Reason: "Refused", Message: "no room"}}
		}
		return d
	})
	w.must(t, err)
	want := []string{`persistentvolumeclaims "second" is forbidden: exceeded quota: quota, requested: persistentvolumeclaims=1, used: persistentvolumeclaims=1, limited: persistentvolumeclaims=1`}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Error(diff)
	}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "tenant-a", Name: "third"}, &corev1.ConfigMap{}); err == nil {
		t.Error("an action after the refused one was carried out")
	}
	got := claim("subject")
	w.must(t, w.Get(t.Context(), client.ObjectKeyFromObject(got), got))
	if len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Type != "Refused" {
		t.Errorf("the second decision's status is not there: %+v", got.Status)
	}
	if e := <-w.recorder.Events; e != "Warning Refused no room" {
		t.Errorf("event %q", e)
	}
}
