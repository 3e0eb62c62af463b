package rebind

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
)

// sim is a cluster of one move. It does what actions say, and what Kubernetes does of itself.
type sim struct {
	w       World
	target  *corev1.PersistentVolumeClaim // nil once deleted
	acted   int
	crashAt int
	log     []string
}

func newSim() *sim {
	target, temporary := claim("tenant-a", "web-root", "target"), claim("populator", "populate-target", "temporary")
	temporary.Spec.VolumeName, temporary.Status.Phase = "pv-1", corev1.ClaimBound
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}}
	volume.Spec = corev1.PersistentVolumeSpec{
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
		AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany},
		StorageClassName:              "replicated",
		VolumeMode:                    new(corev1.PersistentVolumeBlock),
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ClaimRef:                      &corev1.ObjectReference{Namespace: "populator", Name: "populate-target", UID: "temporary"},
	}
	keeper := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "Keeper"}, ObjectMeta: metav1.ObjectMeta{Name: "populate-target"}}
	return &sim{target: target, w: World{Target: target, Temporary: temporary, Volume: volume, Keeper: keeper}}
}

func claim(namespace, name, uid string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.StorageClassName = new("replicated")
	c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}
	c.Status.Phase = corev1.ClaimPending
	return c
}

// step is one pass of the controller, and says whether there was anything to do.
func (s *sim) step() (State, bool) {
	var actions []action.Action
	state := State("Undone")
	if s.target == nil {
		actions = Undo(s.w)
	} else {
		v := Plan(s.w)
		state, actions = v.State, v.Actions
		if state == Lost {
			actions = Undo(s.w)
		}
	}
	for _, a := range actions {
		s.do(a)
		if s.acted++; s.acted == s.crashAt {
			break
		}
	}
	return state, len(actions) > 0
}

func (s *sim) do(a action.Action) {
	s.log = append(s.log, a.String())
	if s.w.Volume != nil {
		s.w.Volume = s.w.Volume.DeepCopy()
	}
	switch a := a.(type) {
	case action.Delete:
		if a.Object.GetObjectKind().GroupVersionKind().Kind == "Keeper" {
			s.w.Keeper = nil
		} else {
			s.w.Temporary = nil
		}
	case action.Reclaim:
		s.w.Volume.Spec.PersistentVolumeReclaimPolicy = a.Policy
		s.w.Volume.Annotations = nil
		if a.Mark != "" {
			s.w.Volume.Annotations = map[string]string{a.Key: a.Mark}
		}
	case action.Hand:
		s.w.Volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: a.Claim.Namespace, Name: a.Claim.Name, UID: a.Claim.UID}
	}
}

// kubernetes is its binder and its reclaimer.
func (s *sim) kubernetes() {
	v := s.w.Volume
	if v == nil {
		return
	}
	if s.target != nil && s.target.Spec.VolumeName == "" && refersTo(v, s.target) {
		s.target = s.target.DeepCopy()
		s.target.Spec.VolumeName, s.target.Status.Phase = v.Name, corev1.ClaimBound
		s.w.Target = s.target
	}
	held := s.target != nil && refersTo(v, s.target) && s.target.Spec.VolumeName == v.Name || s.w.Temporary != nil && refersTo(v, s.w.Temporary)
	if !held && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		s.w.Volume = nil
	}
}

// settle goes on until there is nothing to do any more.
func (s *sim) settle(t *testing.T, after int, happens func(*sim)) State {
	t.Helper()
	for range 30 {
		if s.acted >= after && happens != nil {
			happens(s)
			happens = nil
		}
		before := fmt.Sprintf("%+v", s.w)
		s.kubernetes()
		state, acts := s.step()
		if !acts && fmt.Sprintf("%+v", s.w) == before && happens == nil {
			return state
		}
	}
	t.Fatalf("it never comes to rest: %s", strings.Join(s.log, "; "))
	return ""
}

// end is what a move leaves.
type end struct {
	State     State
	Bound     string
	Policy    corev1.PersistentVolumeReclaimPolicy
	Marked    bool
	Temporary bool
	Keeper    bool
	Volume    bool
}

func (s *sim) end(state State) end {
	e := end{State: state, Temporary: s.w.Temporary != nil, Keeper: s.w.Keeper != nil, Volume: s.w.Volume != nil}
	if s.target != nil {
		e.Bound = s.target.Spec.VolumeName
	}
	if s.w.Volume != nil {
		e.Policy = s.w.Volume.Spec.PersistentVolumeReclaimPolicy
		e.Marked = s.w.Volume.Annotations[v1alpha1.RebindAnnotation] != ""
	}
	return e
}

var moved = end{State: Moved, Bound: "pv-1", Policy: corev1.PersistentVolumeReclaimDelete, Volume: true}

func TestAMoveTakesItsStepsInOrder(t *testing.T) {
	s := newSim()
	if diff := cmp.Diff(moved, s.end(s.settle(t, 0, nil))); diff != "" {
		t.Error(diff)
	}
	want := []string{
		"let PersistentVolume pv-1 be reclaimed by Retain", "hand PersistentVolume pv-1 to claim tenant-a/web-root",
		"delete Keeper populate-target", "delete  populate-target", "let PersistentVolume pv-1 be reclaimed by Delete",
	}
	if diff := cmp.Diff(want, s.log); diff != "" {
		t.Error(diff)
	}
}

func TestARetainedClassStaysRetained(t *testing.T) {
	s := newSim()
	s.w.Volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	want := moved
	want.Policy = corev1.PersistentVolumeReclaimRetain
	if diff := cmp.Diff(want, s.end(s.settle(t, 0, nil))); diff != "" {
		t.Error(diff)
	}
}

// actions is how many actions an undisturbed move takes.
const actions = 5

func TestStopAfterEveryActionAndRestart(t *testing.T) {
	for n := 1; n <= actions; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newSim()
			s.crashAt = n
			if diff := cmp.Diff(moved, s.end(s.settle(t, 0, nil))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWhatGoesWrongAfterEachAction lets something happen after each of a move's actions: before the first, between any two, after the last.
func TestWhatGoesWrongAfterEachAction(t *testing.T) {
	gone := end{State: "Undone"}
	lost := end{State: Lost}
	elsewhere := end{State: Elsewhere, Bound: "pv-2"}
	for name, c := range map[string]struct {
		happens func(*sim)
		want    [actions + 1]end
	}{
		"the target is deleted": {
			func(s *sim) { s.target = nil },
			[actions + 1]end{gone, gone, gone, gone, gone, gone},
		},
		"somebody deletes the temporary claim": {
			func(s *sim) { s.w.Temporary = nil },
			[actions + 1]end{lost, moved, moved, moved, moved, moved}, // once it is held, nothing is lost
		},
		"somebody deletes the volume": {
			func(s *sim) { s.w.Volume = nil },
			// Bound by then, the target is Lost, as any claim whose volume is deleted.
			[actions + 1]end{lost, lost, lost, {State: Elsewhere, Bound: "pv-1"}, {State: Elsewhere, Bound: "pv-1"}, {State: Elsewhere, Bound: "pv-1"}},
		},
		"somebody else binds the target": {
			func(s *sim) {
				if s.target.Spec.VolumeName == "" {
					s.target = s.target.DeepCopy()
					s.target.Spec.VolumeName, s.target.Status.Phase = "pv-2", corev1.ClaimBound
					s.w.Target = s.target
				}
			},
			[actions + 1]end{elsewhere, elsewhere, elsewhere, moved, moved, moved},
		},
	} {
		for n := 0; n <= actions; n++ {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				s := newSim()
				state := s.settle(t, n, c.happens)
				if diff := cmp.Diff(c.want[n], s.end(state)); diff != "" {
					t.Errorf("%s\n%s", diff, strings.Join(s.log, "\n"))
				}
			})
		}
	}
}

func TestMisfits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*World)
		want   string
	}{
		"they fit": {func(*World) {}, ""},
		"another class": {
			func(w *World) { w.Target.Spec.StorageClassName = new("local") },
			"the claim's StorageClass is local, and the volume's is replicated",
		},
		"another mode": {
			func(w *World) { w.Target.Spec.VolumeMode = nil },
			"the claim's volume mode is Filesystem, and the volume's is Block",
		},
		"too small": {
			func(w *World) {
				w.Target.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("21Gi")
			},
			"the claim asks 21Gi, and the volume has 20Gi",
		},
		"a mode that it lacks": {
			func(w *World) {
				w.Target.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
			},
			"the claim wants access mode ReadOnlyMany, and the volume has [ReadWriteOnce ReadWriteMany]",
		},
		"a selector": {
			func(w *World) { w.Target.Spec.Selector = &metav1.LabelSelector{} },
			"the claim has a selector, and a volume that is made for it has no labels: remove spec.selector",
		},
		"secrets by the claim's namespace": {
			func(w *World) {
				w.Class = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "encrypted"}, Parameters: map[string]string{
					"csi.storage.k8s.io/node-stage-secret-name": "key", "csi.storage.k8s.io/node-stage-secret-namespace": "${pvc.namespace}"}}
			},
			"StorageClass encrypted takes its volumes' secrets by the claim's own name or namespace (parameter csi.storage.k8s.io/node-stage-secret-namespace), so a volume of it can't be filled elsewhere and handed over: " +
				"use another class, or a VMDisk or DataVolume, whose claims are filled in place",
		},
		"secrets that all claims share": {
			func(w *World) {
				w.Class = &storagev1.StorageClass{Parameters: map[string]string{"csi.storage.k8s.io/node-stage-secret-name": "key-${pv.name}", "csi.storage.k8s.io/node-stage-secret-namespace": "storage"}}
			},
			"",
		},
		"a class that is gone, and a secret in the temporary claim's namespace": {
			func(w *World) {
				w.Volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{NodeStageSecretRef: &corev1.SecretReference{Namespace: "populator", Name: "key"}}
			},
			"the volume's nodeStageSecretRef is a secret in the temporary claim's namespace, so it can't be handed over",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSim().w
			c.change(&w)
			if diff := cmp.Diff(c.want, Misfit(w)); diff != "" {
				t.Error(diff)
			}
			want := Moving
			if c.want != "" {
				want = Impossible
			}
			if v := Plan(w); v.State != want || v.State == Impossible && len(v.Actions) > 0 {
				t.Errorf("it is %s, with %v; want %s", v.State, v.Actions, want)
			}
		})
	}
}

// TestTheNextClaimOfTheNameGetsNothing: the target is deleted and made again after the volume was handed over.
func TestTheNextClaimOfTheNameGetsNothing(t *testing.T) {
	s := newSim()
	for range 2 {
		s.step()
	}
	next := claim("tenant-a", "web-root", "the-next")
	if refersTo(s.w.Volume, next) {
		t.Error("the volume refers to a claim that it was not filled for")
	}
	w := s.w
	w.Target = next
	if v := Plan(w); v.State != Lost {
		t.Errorf("it is %s: %s", v.State, v.Message)
	}
}
