package populator

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/job"
)

// sim is a cluster of one target in memory: it does what actions say, and plays Kubernetes and the DataVolume's controller.
type sim struct {
	w       World
	gone    *corev1.PersistentVolumeClaim // the target, once it was deleted
	secrets map[string]bool               // the tenant's and the populator's, by namespace/name
	now     time.Time
	refuse  string // the API server's words, where it refuses what the populator does
	refuses func(action.Action) bool
	crashAt int
	onCrash func(*sim) // what happens before the controller is back
	acted   int
	claims  int // how many temporary claims there were
	log     strings.Builder
}

func newSim(change func(*sim)) *sim {
	mode := storagev1.VolumeBindingImmediate
	target := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "web-root", UID: "t1", Annotations: map[string]string{"theirs": "stays"}}}
	target.Spec = corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("replicated"), VolumeMode: new(corev1.PersistentVolumeBlock),
		Resources:     corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}},
		DataSourceRef: &corev1.TypedObjectReference{APIGroup: new(cdi.Group), Kind: cdi.ImportSourceKind, Name: "debian"},
	}
	target.Status.Phase = corev1.ClaimPending
	s := &sim{now: time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC), secrets: map[string]bool{"tenant-a/login": true}, w: World{
		UID: "t1", Target: target,
		Class:    &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "replicated"}, Provisioner: "csi.example", VolumeBindingMode: &mode},
		Source:   &cdiv1.VolumeImportSource{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "debian"}, Spec: cdiv1.VolumeImportSourceSpec{Source: &cdiv1.ImportSourceType{HTTP: &cdiv1.DataVolumeSourceHTTP{URL: "https://images.example/debian.qcow2"}}}},
		Settings: Settings{Namespace: "populator", ServiceAccount: "worker", Egress: job.Egress{Deny: []string{"10.0.0.0/8"}}},
	}}
	if change != nil {
		change(s)
	}
	return s
}

// look fills in what the controller would read.
func (s *sim) look() World {
	w := s.w
	w.Inputs = InputsOf(w.Source)
	for i := range w.Inputs {
		in := &w.Inputs[i]
		if s.secrets["tenant-a/"+in.Name] {
			in.Original = &corev1.Secret{Data: map[string][]byte{"secretKey": []byte("pw")}}
		}
		if name := CopyName(w, i); s.secrets["populator/"+name] {
			in.Copy = &corev1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "populator", Name: name}}
		}
	}
	if waiting, ok := WaitingOf(w); ok {
		w.Line.Waiting = append(slices.Clone(s.w.Line.Waiting), waiting)
	}
	return w
}

// settle reconciles until nothing changes any more.
func (s *sim) settle() {
	for range 40 {
		before := s.snapshot()
		died := s.reconcile()
		s.kubernetes()
		if s.snapshot() == before && !died {
			return
		}
	}
	panic("it never comes to rest:\n" + s.log.String())
}

// reconcile is one pass, and says whether the controller died in it.
func (s *sim) reconcile() bool {
	w := s.look()
	d := Plan(w, s.now)
	for _, a := range d.Actions {
		if s.refuse != "" && s.refuses(a) {
			s.printf("  refused %s", a)
			w.Refusal = &action.Refusal{Action: a, Text: s.refuse}
			d = Plan(w, s.now)
			break
		}
		s.printf("  act     %s", a)
		s.do(a)
		if s.acted++; s.acted == s.crashAt {
			if s.onCrash != nil {
				s.onCrash(s)
			}
			return true
		}
	}
	if s.w.Target == nil {
		return false
	}
	for _, e := range d.Events {
		s.printf("  event   %s %s: %s", e.Type, e.Reason, e.Message)
	}
	for _, key := range slices.Sorted(maps.Keys(d.Status)) {
		if d.Status[key] != s.w.Target.Annotations[key] {
			s.printf("  says    %s: %s", key, d.Status[key])
		}
	}
	s.w.Target = s.w.Target.DeepCopy()
	s.w.Target.Annotations = d.Status
	return false
}

func (s *sim) do(a action.Action) {
	switch a := a.(type) {
	case action.Create:
		switch o := a.Object.DeepCopyObject().(type) {
		case *cdiv1.DataVolume:
			if s.w.DataVolume == nil {
				o.UID, o.Status.Phase = "dv", cdiv1.Pending
				s.w.DataVolume = o
			}
		default:
			s.secrets[a.Object.GetNamespace()+"/"+a.Object.GetName()] = true
		}
	case action.Delete:
		switch o := a.Object.(type) {
		case *cdiv1.DataVolume:
			s.w.DataVolume = nil
		case *corev1.PersistentVolumeClaim:
			s.w.Temporary = nil
		default:
			delete(s.secrets, o.GetNamespace()+"/"+o.GetName())
		}
	case action.Reclaim:
		s.w.Volume = s.w.Volume.DeepCopy()
		s.w.Volume.Spec.PersistentVolumeReclaimPolicy = a.Policy
		s.w.Volume.Annotations = nil
		if a.Mark != "" {
			s.w.Volume.Annotations = map[string]string{a.Key: a.Mark}
		}
	case action.Hand:
		s.w.Volume = s.w.Volume.DeepCopy()
		s.w.Volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: a.Claim.Namespace, Name: a.Claim.Name, UID: a.Claim.UID}
	default:
		panic(fmt.Sprintf("%T is not for the populator", a))
	}
}

// kubernetes is the DataVolume's controller, the garbage collector, and the binder and reclaimer of volumes.
func (s *sim) kubernetes() {
	if s.w.DataVolume == nil {
		s.w.Temporary = nil
		maps.DeleteFunc(s.secrets, func(name string, _ bool) bool { return strings.HasPrefix(name, "populator/") })
	} else if s.w.Temporary == nil {
		s.claims++
		uid := types.UID(fmt.Sprintf("temporary-%d", s.claims))
		s.w.Temporary = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "populator", Name: s.w.DataVolume.Name, UID: uid, Annotations: map[string]string{}}, Spec: *s.w.DataVolume.Spec.PVC}
		s.w.Temporary.Status.Phase = corev1.ClaimPending
		s.disk(func(d *cdiv1.DataVolumeStatus) { *d = cdiv1.DataVolumeStatus{Phase: cdiv1.Pending} })
	}
	v := s.w.Volume
	if v == nil {
		return
	}
	if t := s.w.Target; t != nil && t.Spec.VolumeName == "" && v.Spec.ClaimRef.UID == t.UID {
		s.w.Target = t.DeepCopy()
		s.w.Target.Spec.VolumeName, s.w.Target.Status.Phase = v.Name, corev1.ClaimBound
	}
	held := func(c *corev1.PersistentVolumeClaim) bool { return c != nil && v.Spec.ClaimRef.UID == c.UID }
	if !held(s.w.Target) && !held(s.w.Temporary) && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		s.w.Volume = nil
	}
}

func (s *sim) printf(format string, args ...any) { fmt.Fprintf(&s.log, format+"\n", args...) }

func (s *sim) snapshot() string {
	b, err := json.Marshal([]any{s.w.Target, s.w.DataVolume, s.w.Temporary, s.w.Volume, s.secrets})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// What others do. Each does nothing where what it is about isn't there, so that a story can go wrong anywhere.

func created(*sim) {}

func (s *sim) disk(change func(*cdiv1.DataVolumeStatus)) {
	if s.w.DataVolume != nil {
		s.w.DataVolume = s.w.DataVolume.DeepCopy()
		change(&s.w.DataVolume.Status)
	}
}

func running(status corev1.ConditionStatus, message string) []cdiv1.DataVolumeCondition {
	return []cdiv1.DataVolumeCondition{{Type: cdiv1.DataVolumeBound, Status: corev1.ConditionTrue}, {Type: cdiv1.DataVolumeRunning, Status: status, Message: message}}
}

func provisioned(s *sim) {
	if s.w.Temporary == nil || s.w.Temporary.Spec.VolumeName != "" {
		return
	}
	s.w.Temporary = s.w.Temporary.DeepCopy()
	s.w.Temporary.Spec.VolumeName, s.w.Temporary.Status.Phase = "pv-1", corev1.ClaimBound
	spec := s.w.Temporary.Spec
	s.w.Volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: spec.Resources.Requests, AccessModes: spec.AccessModes, StorageClassName: *spec.StorageClassName, VolumeMode: spec.VolumeMode,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ClaimRef:                      &corev1.ObjectReference{Namespace: "populator", Name: s.w.Temporary.Name, UID: s.w.Temporary.UID},
	}}
}

func half(s *sim) {
	s.disk(func(d *cdiv1.DataVolumeStatus) {
		*d = cdiv1.DataVolumeStatus{Phase: cdiv1.ImportInProgress, Progress: "50.00%", Conditions: running(corev1.ConditionTrue, "")}
	})
}

func full(s *sim) {
	if s.w.Temporary == nil || s.w.Volume == nil {
		return
	}
	s.w.Temporary = s.w.Temporary.DeepCopy()
	s.w.Temporary.Annotations = map[string]string{cdi.PopulatedFor: s.w.Temporary.Name}
	s.disk(func(d *cdiv1.DataVolumeStatus) {
		*d = cdiv1.DataVolumeStatus{Phase: cdiv1.Succeeded, Progress: "100.0%", Conditions: running(corev1.ConditionFalse, "Import Complete")}
	})
}

func fails(times int32) func(*sim) {
	return func(s *sim) {
		s.disk(func(d *cdiv1.DataVolumeStatus) {
			*d = cdiv1.DataVolumeStatus{Phase: cdiv1.ImportInProgress, Progress: "N/A", RestartCount: times,
				Conditions: running(corev1.ConditionFalse, fmt.Sprintf("404 Not Found (attempt %d; the next try is at 20:00:05 UTC)", times))}
		})
	}
}

func deleted(s *sim) {
	if s.w.Target != nil {
		s.gone, s.w.Target = s.w.Target, nil
	}
}

func withoutClaim(s *sim) { s.w.Temporary = nil }

func withoutDataVolume(s *sim) { s.w.DataVolume = nil }

// withoutVolume loses the temporary claim's volume. Once that is the target's, the target's owner has lost it.
func withoutVolume(s *sim) {
	if s.w.Volume == nil || s.w.Temporary == nil || s.w.Volume.Spec.ClaimRef.UID != s.w.Temporary.UID {
		return
	}
	s.w.Volume, s.w.Temporary = nil, s.w.Temporary.DeepCopy()
	s.w.Temporary.Status.Phase = corev1.ClaimLost
}

func creations(a action.Action) bool {
	_, creates := a.(action.Create)
	return creates
}

func changes(a action.Action) bool { return !creations(a) }

// may lifts every refusal.
func may(s *sim) { s.refuse = "" }

func quotaOf(claims string, used string) corev1.ResourceQuota {
	list := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse(n)}
	}
	return corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "populators"}, Status: corev1.ResourceQuotaStatus{Hard: list(claims), Used: list(used)}}
}

func waitingFor(uid, namespace string, since time.Time) Waiting {
	return Waiting{UID: types.UID(uid), Namespace: namespace, Since: since, Claim: corev1.PersistentVolumeClaimSpec{}}
}
