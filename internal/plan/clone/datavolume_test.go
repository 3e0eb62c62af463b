package clone

import (
	"cmp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// cluster is a small one, of a driver that says nothing of nodes: a claim "golden" with 20Gi, and a snapshot "snap" of it.
const smallCluster = `
apiVersion: cdi.kubevirt.io/v1beta1
kind: StorageProfile
metadata: {name: c}
status: {cloneStrategy: csi-clone, claimPropertySets: [{accessModes: [ReadWriteOnce], volumeMode: Block}]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: c, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: d
allowVolumeExpansion: true
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: d}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: golden, namespace: ns}
spec: {storageClassName: c, volumeMode: Block, volumeName: pv, resources: {requests: {storage: 20Gi}}}
status: {phase: Bound, capacity: {storage: 20Gi}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv}
spec: {csi: {driver: d, volumeHandle: h}, claimRef: {namespace: ns, name: golden}}
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: snap, namespace: ns}
status: {boundVolumeSnapshotContentName: content, restoreSize: 20Gi}
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotContent
metadata: {name: content}
spec: {driver: d, sourceVolumeMode: Block}
`

// dataVolumeCase is a DataVolume "d" in the small cluster.
type dataVolumeCase struct {
	// spec has the lines of its spec, annotations its own where it isn't to be bound at once.
	spec, annotations string
	changes           []change
	// add is YAML that is added.
	add  string
	want answer
}

func dataVolumeCases() map[string]dataVolumeCase {
	const storage = "storage: {resources: {requests: {storage: 20Gi}}}"
	const claim = "source: {pvc: {namespace: ns, name: golden}}"
	const snap = "source: {snapshot: {namespace: ns, name: snap}}"
	const plain = "{cdi.kubevirt.io/storage.bind.immediate.requested: '', cdi.kubevirt.io/storage.usePopulator: 'false'}"
	clone := answer{Strategy: CSIClone, Reason: SameDriver, Fallback: HostAssisted, StorageClass: "c"}
	restore := answer{Strategy: Snapshot, Reason: SameDriver, Fallback: HostAssisted, StorageClass: "c"}
	grown := clone
	grown.Expand = true
	named := clone
	named.StorageClass = ""
	copied := func(r Reason) answer { return answer{Strategy: HostAssisted, Reason: r, StorageClass: "c"} }
	waits := func(r Reason, then Strategy) answer {
		return answer{Strategy: Wait, Reason: r, Then: then, StorageClass: "c"}
	}
	return map[string]dataVolumeCase{
		"a claim": {spec: storage + "\n  " + claim, want: clone},
		"a claim of the DataVolume's own namespace": {spec: storage + "\n  source: {pvc: {name: golden}}", want: waits(SourceNotFound, "")},
		"one that is there":                         {spec: storage + "\n  source: {pvc: {name: golden}}", changes: []change{{"namespace: ns", "namespace: t"}}, want: clone},
		"a populator is forbidden":                  {spec: storage + "\n  " + claim, annotations: plain, want: copied(CopyRequested)},
		"so is one for a snapshot":                  {spec: storage + "\n  " + snap, annotations: plain, want: copied(CopyRequested)},
		"a populator is asked for":                  {spec: storage + "\n  " + claim, annotations: strings.Replace(plain, "false", "true", 1), want: clone},
		"a larger disk":                             {spec: "storage: {resources: {requests: {storage: 30Gi}}}\n  " + claim, want: grown},
		"no size is the source's":                   {spec: "storage: {}\n  " + claim, want: clone},
		"a class by name":                           {spec: "storage: {storageClassName: c, resources: {requests: {storage: 20Gi}}}\n  " + claim, want: named},
		"an empty name in a storage section":        {spec: "storage: {storageClassName: '', resources: {requests: {storage: 20Gi}}}\n  " + claim, want: clone},
		"a claim that is written out":               {spec: "pvc: {accessModes: [ReadWriteOnce], volumeMode: Block, resources: {requests: {storage: 20Gi}}}\n  " + claim, want: clone},
		"one without a size":                        {spec: "pvc: {storageClassName: c, accessModes: [ReadWriteOnce], volumeMode: Block}\n  " + claim, want: named},
		"one of another mode":                       {spec: "pvc: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 20Gi}}}\n  " + claim, want: copied(VolumeModeMismatch)},
		"one that is smaller than the source":       {spec: "pvc: {accessModes: [ReadWriteOnce], volumeMode: Block, resources: {requests: {storage: 19Gi}}}\n  " + claim, want: answer{Strategy: Reject, Reason: TargetSmallerThanSource, StorageClass: "c"}},
		"one without access modes":                  {spec: "pvc: {resources: {requests: {storage: 20Gi}}}\n  " + claim, want: answer{Strategy: Reject, Reason: ClaimNotValid, StorageClass: "c"}},
		"a default for virtual machines is not for claims that are written out": {spec: "pvc: {accessModes: [ReadWriteOnce], volumeMode: Block, resources: {requests: {storage: 20Gi}}}\n  " + claim,
			add:  "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: virt, annotations: {storageclass.kubevirt.io/is-default-virt-class: 'true'}}\nprovisioner: other",
			want: clone},
		"own modes need no profile": {spec: "storage: {volumeMode: Block, accessModes: [ReadWriteOnce], resources: {requests: {storage: 20Gi}}}\n  " + claim, changes: []change{{"kind: StorageProfile\nmetadata: {name: c}", "kind: StorageProfile\nmetadata: {name: x}"}},
			want: copied(NoVolumeSnapshotClass)},
		"it rests for its consumer": {spec: storage + "\n  " + claim, annotations: "{}", want: answer{Strategy: Wait, Reason: WaitForFirstConsumer, Then: CSIClone, RestsReady: true, StorageClass: "c"}},
		"its claim is there":        {spec: storage + "\n  " + claim, add: "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: d, namespace: t}", want: answer{Strategy: None, Reason: DiskExists}},
		"an http source":            {spec: storage + "\n  source: {http: {url: 'https://example.org'}}", want: answer{Strategy: None, Reason: NotAClone}},
		"a DataSource of a claim": {spec: storage + "\n  sourceRef: {kind: DataSource, name: ds}", want: clone,
			add: "apiVersion: cdi.kubevirt.io/v1beta1\nkind: DataSource\nmetadata: {name: ds, namespace: t}\nspec: {source: {pvc: {namespace: ns, name: golden}}}"},
		"a DataSource of a snapshot elsewhere": {spec: storage + "\n  sourceRef: {kind: DataSource, name: ds, namespace: ns}", want: restore,
			add: "apiVersion: cdi.kubevirt.io/v1beta1\nkind: DataSource\nmetadata: {name: ds, namespace: ns}\nspec: {source: {snapshot: {namespace: ns, name: snap}}}"},
		"a DataSource that isn't there": {spec: storage + "\n  sourceRef: {kind: DataSource, name: ds}", want: waits(SourceNotFound, "")},
		"a source of another kind":      {spec: storage + "\n  sourceRef: {kind: Other, name: ds}", want: answer{Strategy: None, Reason: NotAClone}},

		"a DataSource of nothing yet": {spec: storage + "\n  sourceRef: {kind: DataSource, name: ds}", want: waits(SourceNotFound, ""),
			add: "apiVersion: cdi.kubevirt.io/v1beta1\nkind: DataSource\nmetadata: {name: ds, namespace: t}\nspec: {source: {}}"},
		"one that is smaller than a filesystem's claim": {spec: "pvc: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 19Gi}}}\n  " + claim, changes: []change{{"volumeMode: Block, volumeName", "volumeName"}},
			want: answer{Strategy: Reject, Reason: TargetSmallerThanSource, StorageClass: "c"}},
		"one of a snapshot":            {spec: "pvc: {accessModes: [ReadWriteOnce], volumeMode: Block, resources: {requests: {storage: 20Gi}}}\n  " + snap, want: restore},
		"a volume that names no claim": {spec: storage + "\n  " + claim, changes: []change{{", claimRef: {namespace: ns, name: golden}", ""}}, want: clone},
		"a volume that names a claim's identity, which was not seen": {spec: storage + "\n  " + claim, changes: []change{{"name: golden}}", "name: golden, uid: u}}"}}, want: clone},
		"a volume that names no identity":                            {spec: storage + "\n  " + claim, changes: []change{{"{name: golden, namespace", "{uid: u, name: golden, namespace"}}, want: clone},
		"a snapshot needs no class of snapshots": {spec: storage + "\n  " + snap, want: restore,
			add: "apiVersion: snapshot.storage.k8s.io/v1\nkind: VolumeSnapshotClass\nmetadata: {name: s}\ndriver: d"},
		"a snapshot, where snapshots are wished for": {spec: storage + "\n  " + snap, changes: []change{{"cloneStrategy: csi-clone", "cloneStrategy: snapshot"}}, want: restore},

		"a snapshot needs no room for another one": {spec: storage + "\n  " + snap, want: restore,
			add: "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: ns}\nspec: {hard: {count/volumesnapshots.snapshot.storage.k8s.io: 0}}"},
		"a snapshot needs no class that profiles name":               {spec: storage + "\n  " + snap, want: restore, changes: []change{{"status: {cloneStrategy: csi-clone", "status: {snapshotClass: gone, cloneStrategy: csi-clone"}}},
		"a snapshot of a filesystem has room for less than its size": {spec: "storage: {resources: {requests: {storage: 19320Mi}}}\n  " + snap, changes: []change{{", sourceVolumeMode: Block", ""}, {", volumeMode: Block}]", "}]"}}, want: restore},
		"a snapshot, whatever is wished for":                         {spec: storage + "\n  " + snap, changes: []change{{"cloneStrategy: csi-clone", "cloneStrategy: copy"}}, want: restore},
		"a snapshot that isn't there":                                {spec: storage + "\n  " + snap, changes: []change{{"name: snap,", "name: other,"}}, want: waits(SourceNotFound, "")},
		"a snapshot that isn't ready":                                {spec: storage + "\n  " + snap, changes: []change{{", restoreSize: 20Gi", ""}}, want: waits(SourceNotReady, Snapshot)},
		"a snapshot without content":                                 {spec: storage + "\n  " + snap, changes: []change{{"Name: content,", "Name: other,"}}, want: waits(SourceNotReady, HostAssisted)},
		"a snapshot that is being deleted":                           {spec: storage + "\n  " + snap, changes: []change{{"{name: snap, ", "{name: snap, deletionTimestamp: '2026-11-30T00:00:00Z', "}}, want: waits(SourceNotReady, Snapshot)},
		"a snapshot of another driver":                               {spec: storage + "\n  " + snap, changes: []change{{"{driver: d, source", "{driver: e, source"}}, want: copied(DriverMismatch)},
		"a snapshot of a filesystem":                                 {spec: storage + "\n  " + snap, changes: []change{{", sourceVolumeMode: Block", ""}}, want: copied(VolumeModeMismatch)},
		"a snapshot that is larger":                                  {spec: storage + "\n  " + snap, changes: []change{{"restoreSize: 20Gi", "restoreSize: 21Gi"}}, want: answer{Strategy: Reject, Reason: TargetSmallerThanSource, StorageClass: "c"}},
		"a snapshot that must grow":                                  {spec: "storage: {resources: {requests: {storage: 30Gi}}}\n  " + snap, changes: []change{{"allowVolumeExpansion: true", "allowVolumeExpansion: false"}}, want: copied(NoVolumeExpansion)},
	}
}

func (c dataVolumeCase) plan(t *testing.T) Plan {
	t.Helper()
	text := smallCluster
	for _, change := range c.changes {
		if !strings.Contains(text, change.from) {
			t.Fatalf("the cluster lacks %q", change.from)
		}
		text = strings.ReplaceAll(text, change.from, change.to)
	}
	annotations := cmp.Or(c.annotations, "{cdi.kubevirt.io/storage.bind.immediate.requested: ''}")
	text += "---\n" + c.add + "\n---\napiVersion: cdi.kubevirt.io/v1beta1\nkind: DataVolume\nmetadata: {name: d, namespace: t, annotations: " + annotations + "}\nspec:\n  " + c.spec + "\n"
	cluster := clusterOf(t, parse(t, text))
	request, found := Named(cluster, Options{}, "t", "d")
	if !found {
		t.Fatal("the DataVolume is not found")
	}
	return Of(request, cluster, Options{})
}

func TestDataVolumes(t *testing.T) {
	for name, c := range dataVolumeCases() {
		t.Run(name, func(t *testing.T) {
			got := c.plan(t)
			if diff := gocmp.Diff(c.want, got.answer()); diff != "" || got.Refusal != "" {
				t.Errorf("refusal %q; plan (-want +got):\n%s\n%s", got.Refusal, diff, got.Message)
			}
		})
	}
}

// TestWhatIsPlanned: of what is in a file, what people ask about.
func TestWhatIsPlanned(t *testing.T) {
	disk := func(name, source string) string {
		return "---\napiVersion: vmdisk.io/v1alpha1\nkind: VMDisk\nmetadata: {name: " + name + ", namespace: ns}\nspec: {source: " + source + "}\n"
	}
	dv := func(name, source string) string {
		return "---\napiVersion: cdi.kubevirt.io/v1beta1\nkind: DataVolume\nmetadata: {name: " + name + ", namespace: ns}\nspec: {source: " + source + ", storage: {}}\n"
	}
	const http, golden = "{http: {url: 'https://example.org'}}", "{pvc: {namespace: ns, name: golden}}"
	for name, c := range map[string]struct {
		objects string
		want    []string
	}{
		"each VMDisk, in order":                           {disk("b", "{image: {name: x}}") + disk("a", http), []string{"VMDisk ns/a", "VMDisk ns/b"}},
		"a DataVolume that has a VMDisk's name elsewhere": {disk("a", "{image: {name: x}}") + strings.Replace(dv("a", golden), "namespace: ns", "namespace: other", 1), []string{"DataVolume other/a", "VMDisk ns/a"}},
		"not the DataVolume of a VMDisk":                  {disk("a", "{image: {name: x}}") + dv("a", golden), []string{"VMDisk ns/a"}},
		"a DataVolume that is made from another volume":   {disk("a", "{image: {name: x}}") + dv("b", golden), []string{"DataVolume ns/b", "VMDisk ns/a"}},
		"not the one that it is made from":                {dv("b", "{pvc: {namespace: ns, name: c}}") + dv("c", golden), []string{"DataVolume ns/b"}},
		"not one from elsewhere, where there are others":  {dv("b", golden) + dv("c", http), []string{"DataVolume ns/b"}},
		"one from elsewhere, where there is nothing else": {dv("c", http), []string{"DataVolume ns/c"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range All(clusterOf(t, parse(t, c.objects)), Options{}) {
				got = append(got, r.String())
			}
			if diff := gocmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNamed: a name is looked for in its namespace only, first among VMDisks.
func TestNamed(t *testing.T) {
	cluster := clusterOf(t, parse(t, "kind: VMDisk\nmetadata: {name: a, namespace: ns}\n---\nkind: VMDisk\nmetadata: {name: b, namespace: other}\n---\nkind: DataVolume\nmetadata: {name: b, namespace: ns}\n"))
	for name, want := range map[string]string{"a": "VMDisk ns/a", "b": "DataVolume ns/b", "c": ""} {
		got := ""
		if r, found := Named(cluster, Options{}, "ns", name); found {
			got = r.String()
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestTheClaimOfADisk: a VMDisk's claim has its name, or in Cozystack that with a prefix.
func TestTheClaimOfADisk(t *testing.T) {
	for name, c := range map[string]struct {
		claims []string
		want   string
	}{
		"its own":                   {[]string{"d"}, "d"},
		"its own before another":    {[]string{"d", "vm-disk-d"}, "d"},
		"that with the prefix":      {[]string{"vm-disk-d"}, "vm-disk-d"},
		"its own, if there is none": {nil, "d"},
	} {
		t.Run(name, func(t *testing.T) {
			text := ""
			for _, claim := range c.claims {
				text += "---\nkind: PersistentVolumeClaim\nmetadata: {name: " + claim + ", namespace: ns}\n"
			}
			if got := clusterOf(t, parse(t, text)).diskClaim("ns", "d"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestAsNew: what became of a disk that exists, were it made now.
func TestAsNew(t *testing.T) {
	e := variant{base: "X1-01"}.example(t)
	cluster, o := clusterOf(t, e.objects(t)), e.options(t)
	r := All(cluster, o)[0]
	r.AsNew = true
	if got := Of(r, cluster, o); got.Reason != TargetNotReachable || got.Refusal != RemoteAccess {
		t.Errorf("got %s, and refused because of %q", got.Reason, got.Refusal)
	}
}

// TestTheConsumersNode: it is said by an option, otherwise by the disk's claim.
func TestTheConsumersNode(t *testing.T) {
	claim := "kind: PersistentVolumeClaim\nmetadata: {name: vm-disk-d1, namespace: tenant-a, annotations: {volume.kubernetes.io/selected-node: node-a}}"
	for name, c := range map[string]struct {
		option string
		want   Reason
	}{
		"by the claim":                  {"", PinnedToSourceNodes},
		"by the option, which is newer": {"node-b", ConsumerNodeLacksData},
	} {
		t.Run(name, func(t *testing.T) {
			v := variant{base: "I-07", add: claim, args: []string{"--source-nodes=node-a", "--selected-node=" + c.option}}
			e := v.example(t)
			cluster, o := clusterOf(t, parse(t, v.manifests(t))), e.options(t)
			r := All(cluster, o)[0]
			r.AsNew = true
			if got := Of(r, cluster, o); got.Reason != c.want {
				t.Errorf("got %s: %s", got.Reason, got.Message)
			}
		})
	}
}

// TestDefaultClasses: the classes with the annotation that decides.
func TestDefaultClasses(t *testing.T) {
	const (
		kube = "storageclass.kubernetes.io/is-default-class: 'true'"
		virt = "storageclass.kubevirt.io/is-default-virt-class: 'true'"
	)
	class := func(name string, annotations ...string) string {
		return "---\nkind: StorageClass\nmetadata: {name: " + name + ", annotations: {" + strings.Join(annotations, ", ") + "}}\n"
	}
	for name, c := range map[string]struct {
		classes string
		virt    bool
		want    string
		ties    []string
	}{
		"none":                            {class("a"), true, "", nil},
		"the cluster's":                   {class("a") + class("b", kube), true, "b", []string{"b"}},
		"that for virtual machines":       {class("a", virt) + class("b", kube), true, "a", []string{"a"}},
		"one of two for virtual machines": {class("b", virt) + class("a", virt) + class("c", kube), true, "a", []string{"a", "b"}},
		"for a claim the cluster's":       {class("a", virt) + class("b", kube), false, "b", []string{"b"}},
		"even where that is both":         {class("a", virt) + class("b", kube, virt), false, "b", []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			class, ties := clusterOf(t, parse(t, c.classes)).defaultClass(c.virt)
			got := ""
			if class != nil {
				got = class.Name
			}
			if diff := gocmp.Diff(c.ties, ties); diff != "" || got != c.want {
				t.Errorf("got %q, want %q; ties (-want +got):\n%s", got, c.want, diff)
			}
		})
	}
}

func TestPolicy(t *testing.T) {
	for _, c := range []struct {
		engine, crossClass string
		want               Policy
		fails              string
	}{
		{"vmdisk", "copy", Policy{EngineVMDisk, false}, ""},
		{"vmdisk", "refuse", Policy{EngineVMDisk, true}, ""},
		{"cdi", "copy", Policy{EngineCDI, true}, ""},
		{"cdi", "refuse", Policy{EngineCDI, true}, ""},
		{"other", "copy", Policy{}, `--engine is "other": set it to vmdisk or cdi`},
		{"vmdisk", "ask", Policy{}, `--cross-class-clone is "ask": set it to copy or refuse`},
	} {
		t.Run(c.engine+" and "+c.crossClass, func(t *testing.T) {
			got, err := NewPolicy(c.engine, c.crossClass)
			failed := ""
			if err != nil {
				failed = err.Error()
			}
			if got != c.want || failed != c.fails {
				t.Errorf("got %+v and %q, want %+v and %q", got, failed, c.want, c.fails)
			}
		})
	}
}

func TestAdmission(t *testing.T) {
	type told struct {
		Strategy Strategy
		Refused  bool
		Says     bool
	}
	refusing := Policy{Engine: EngineVMDisk, Refuses: true}
	for name, c := range map[string]struct {
		base   string
		policy Policy
		want   told
	}{
		"a finding is refused by the refusing policy": {"R1-01", refusing, told{Reject, true, true}},
		"and warned of by the other":                  {"R1-01", Policy{}, told{HostAssisted, false, true}},
		"no finding is let in by either":              {"L1-01a", refusing, told{CSIClone, false, false}},
		"and not spoken of":                           {"L1-01a", Policy{}, told{CSIClone, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			e := variant{base: c.base}.example(t)
			cluster, o := clusterOf(t, e.objects(t)), e.options(t)
			o.Policy = c.policy
			p := Of(All(cluster, o)[0], cluster, o)
			a := p.Admission(c.policy)
			if diff := gocmp.Diff(c.want, told{p.Strategy, a.Refused, a.Message != ""}); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, a.Message)
			}
		})
	}
}

func TestAdd(t *testing.T) {
	for name, c := range map[string]struct {
		object map[string]any
		read   bool
		fails  string
	}{
		"another kind is not read":  {map[string]any{"kind": "Secret"}, false, ""},
		"what has no kind neither":  {map[string]any{}, false, ""},
		"what is broken is named":   {map[string]any{"kind": "Node", "metadata": map[string]any{"name": "n"}, "spec": 1}, true, "read Node n: "},
		"and if it has no metadata": {map[string]any{"kind": "Node", "spec": 1}, true, "read Node <nil>: "},
	} {
		t.Run(name, func(t *testing.T) {
			var cluster Cluster
			read, err := cluster.Add(c.object)
			failed := ""
			if err != nil {
				failed = err.Error()
			}
			if read != c.read || !strings.HasPrefix(failed, c.fails) || (failed == "") != (c.fails == "") || len(cluster.Nodes) > 0 {
				t.Errorf("read %v, want %v; error %q, want %q", read, c.read, failed, c.fails)
			}
		})
	}
}
