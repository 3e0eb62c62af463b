package clone

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/internal/plan/clone/linstor"
)

// everyCase calls with each worked case and each variant: its objects, and its plan from any of them.
func everyCase(t *testing.T, call func(t *testing.T, objects []map[string]any, e example)) {
	t.Helper()
	for _, e := range examples(t) {
		t.Run(e.ID, func(t *testing.T) { call(t, e.objects(t), e) })
	}
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			e := v.example(t)
			call(t, parse(t, v.manifests(t)), e)
		})
	}
}

// TestTheOrderOfObjectsNeverMatters shuffles what was seen.
func TestTheOrderOfObjectsNeverMatters(t *testing.T) {
	everyCase(t, func(t *testing.T, objects []map[string]any, e example) {
		want := written(t, e.plan(t, objects))
		random := rand.New(rand.NewPCG(1, 2))
		for range 8 {
			shuffled := slices.Clone(objects)
			random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			if got := written(t, e.plan(t, shuffled)); got != want {
				t.Fatalf("in another order the plan is\n%s\nand was\n%s", got, want)
			}
		}
	})
}

func written(t *testing.T, p Plan) string {
	t.Helper()
	text, err := json.Marshal(struct {
		Plan
		Facts    []Fact
		Remedies []string
	}{p, p.Facts, p.Remedies})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLessKnownIsNeverAHang takes away any one object, the disk itself excepted: what was a wait, a refusal or a copy may become another of
// these, but a strategy that the driver must carry out only where hangs says that it can.
func TestLessKnownIsNeverAHang(t *testing.T) {
	everyCase(t, func(t *testing.T, objects []map[string]any, e example) {
		for i, gone := range objects {
			if gone["kind"] == "VMDisk" {
				continue
			}
			rest := slices.Delete(slices.Clone(objects), i, i+1)
			c, o := clusterOf(t, rest), e.options(t)
			r := All(c, o)[0]
			p := Of(r, c, o)
			if p.Reason == "" || p.Message == "" {
				t.Errorf("without %s the plan says nothing: %+v", gone["kind"], p)
			}
			if why := hangs(p, r, c, o); why != "" {
				t.Errorf("without %s the plan is %s (%s), which hangs: %s", gone["kind"], p.Strategy, p.Reason, why)
			}
			p.checkShape(t)
		}
		c, o := clusterOf(t, objects), e.options(t)
		p := e.plan(t, objects)
		if why := hangs(p, All(c, o)[0], c, o); why != "" {
			t.Errorf("the plan is %s (%s), which hangs: %s", p.Strategy, p.Reason, why)
		}
		p.checkShape(t)
	})
}

// TestAFieldLessIsNeverAHang takes away any one field of any one object, such as a status that isn't written yet, of the worked cases.
func TestAFieldLessIsNeverAHang(t *testing.T) {
	for _, e := range examples(t) {
		t.Run(e.ID, func(t *testing.T) {
			objects, o := e.objects(t), e.options(t)
			for _, object := range objects {
				if object["kind"] == "VMDisk" {
					continue
				}
				withoutEachField(object, "", func(field string) {
					c := clusterOf(t, objects)
					r := All(c, o)[0]
					p := Of(r, c, o)
					if why := hangs(p, r, c, o); why != "" {
						t.Errorf("without %s of %s the plan is %s (%s), which hangs: %s", field, object["kind"], p.Strategy, p.Reason, why)
					}
					p.checkShape(t)
				})
			}
		})
	}
}

// withoutEachField calls while one field is missing, for each below a value; what an object is called stays.
func withoutEachField(value any, path string, call func(field string)) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			field, below := value[key], path+"."+key
			if !slices.Contains([]string{".kind", ".metadata", ".metadata.name", ".metadata.namespace"}, below) {
				delete(value, key)
				call(below)
				value[key] = field
			}
			withoutEachField(field, below, call)
		}
	case []any:
		for i := range value {
			withoutEachField(value[i], fmt.Sprintf("%s[%d]", path, i), call)
		}
	}
}

// checkShape: what a plan has follows from its strategy.
func (p Plan) checkShape(t *testing.T) {
	t.Helper()
	advanced := p.Strategy == CSIClone || p.Strategy == Snapshot
	if advanced != (p.Fallback == HostAssisted) {
		t.Errorf("%s falls back to %q", p.Strategy, p.Fallback)
	}
	if p.Expand && !advanced || p.RestsReady && p.Reason != WaitForFirstConsumer || p.Then != "" && p.Strategy != Wait {
		t.Errorf("the plan contradicts itself: %+v", p.answer())
	}
	if p.Expand != strings.Contains(p.Message, "is then grown") && advanced {
		t.Errorf("the message doesn't say whether the clone grows: %s", p.Message)
	}
	if p.Strategy == HostAssisted && len(p.Trace) == 0 {
		t.Errorf("a copy without a reason: %+v", p)
	}
}

// hangs says why a driver would never finish a strategy, from the objects alone, in other words than the planner's: it looks for what
// makes CDI hang.
func hangs(p Plan, r Request, c Cluster, o Options) string {
	if p.Strategy != CSIClone && p.Strategy != Snapshot {
		return ""
	}
	source := c.claim(r.Source.Namespace, r.Source.Name)
	if source == nil || source.Status.Phase != corev1.ClaimBound || c.volume(source.Spec.VolumeName) == nil {
		return "the source is not there"
	}
	name := r.className()
	for _, class := range c.Classes {
		if name == "" && class.Name == p.StorageClass {
			name = class.Name
		}
	}
	class, pv := c.class(name), c.volume(source.Spec.VolumeName)
	switch {
	case class == nil || c.profile(name) == nil || c.driver(class.Provisioner) == nil:
		return "the target is not there"
	case pv.Spec.CSI == nil || pv.Spec.CSI.Driver != class.Provisioner:
		return "the drivers differ"
	case slices.ContainsFunc(c.DataVolumes, func(dv cdiv1.DataVolume) bool {
		return len(source.OwnerReferences) > 0 && source.OwnerReferences[0].UID == dv.UID && dv.Name == source.Name && dv.Status.Phase != cdiv1.Succeeded
	}):
		return "the source is not filled"
	case p.Strategy == Snapshot && (o.NoSnapshotAPI || c.snapshotClass(p.VolumeSnapshotClass) == nil || c.snapshotClass(p.VolumeSnapshotClass).Driver != class.Provisioner):
		return "the snapshot has no class"
	case class.Provisioner != linstor.Driver:
		return ""
	}
	parameters := linstor.Parse(class.Parameters)
	if parameters.Invalid != "" || parameters.Conflict != "" {
		return "the class is broken"
	}
	knownPlace := len(p.Nodes) > 0 && (pv.Spec.NodeAffinity != nil || len(o.SourceNodes) > 0)
	nobodyHas := len(c.Nodes) > 0 && slices.ContainsFunc(parameters.Access.Rules, func(rule []string) bool {
		return !slices.Contains(rule, linstor.Hostname) && !slices.ContainsFunc(c.Nodes, func(n corev1.Node) bool {
			if len(o.SourceNodes) > 0 && !slices.Contains(o.SourceNodes, n.Name) {
				return false
			}
			d := c.driverNode(linstor.Driver, n.Name)
			return slices.ContainsFunc(rule, func(l string) bool {
				_, has := n.Labels[l]
				return has && (d == nil || slices.Contains(d.TopologyKeys, l))
			})
		})
	})
	if !parameters.Access.Anywhere && !knownPlace && !nobodyHas {
		return "nobody knows where the clone can be used"
	}
	if o.SelectedNode != "" && len(p.Nodes) > 0 && !slices.Equal(p.Nodes, []string{o.SelectedNode}) {
		return "the consumer runs elsewhere"
	}
	return ""
}

func FuzzAdd(f *testing.F) {
	f.Add([]byte(`{"kind":"VMDisk","metadata":{"name":"d","namespace":"n"},"spec":{"source":{"image":{"name":"i"}}}}`), []byte(`{"kind":"StorageClass","metadata":{"name":"c"}}`))
	f.Add([]byte(`{"kind":"DataVolume","metadata":{"name":"d"},"spec":{"storage":{},"source":{"pvc":{"name":"s"}}}}`), []byte(`{"kind":"PersistentVolumeClaim","metadata":{"name":"s"},"spec":{"resources":{"requests":{"storage":"1e99"}}}}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var c Cluster
		for _, text := range [][]byte{a, b} {
			var object map[string]any
			if json.Unmarshal(text, &object) != nil {
				return
			}
			if _, err := c.Add(object); err != nil {
				return
			}
		}
		for _, r := range All(c, Options{}) {
			if p := Of(r, c, Options{}); p.Strategy == "" || p.Reason == "" || p.Message == "" {
				t.Errorf("the plan says nothing: %+v", p)
			}
		}
	})
}
