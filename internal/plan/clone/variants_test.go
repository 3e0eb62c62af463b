package clone

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// change is a text that is replaced in a case's manifests, wherever it is.
type change struct{ from, to string }

// variant is a worked case with something changed.
type variant struct {
	base    string
	changes []change
	// add is YAML that is added.
	add  string
	args []string
	// refusal and want are the answers.
	refusal Reason
	want    answer
}

// variants are what the worked cases don't have. R1-01: a disk from an image in "replicated" is asked for in "local", which allows no
// remote access, by csi-clone. L1-01a: "local" allows remote access. X4-02: image and disk are both in "local". I-02: DRBD on nodes a and b.
// S-07: snapshot, and two classes serve. X3-01: source.disk, within a namespace.
func variants() map[string]variant {
	copied := func(r Reason) answer { return answer{Strategy: HostAssisted, Reason: r} }
	on := func(r Reason, nodes ...string) answer { return answer{Strategy: HostAssisted, Reason: r, Nodes: nodes} }
	clone := answer{Strategy: CSIClone, Reason: RemoteAccessAllowed, Fallback: HostAssisted}
	pinned := func(nodes ...string) answer {
		return answer{Strategy: CSIClone, Reason: PinnedToSourceNodes, Fallback: HostAssisted, Nodes: nodes}
	}
	restored := func(class string) answer {
		return answer{Strategy: Snapshot, Reason: RemoteAccessAllowed, Fallback: HostAssisted, VolumeSnapshotClass: class}
	}
	waits := func(r Reason) answer { return answer{Strategy: Wait, Reason: r} }
	const (
		image      = "vm-default-images-ubuntu"
		lateBound  = "bindImmediately: true"
		rests      = "bindImmediately: false"
		snapClass  = "apiVersion: snapshot.storage.k8s.io/v1\nkind: VolumeSnapshotClass\nmetadata: {name: s}\ndriver: linstor.csi.linbit.com"
		noSnaps    = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: cozy-public}\nspec: {hard: {count/volumesnapshots.snapshot.storage.k8s.io: '0'}}"
		notRemote  = "allowRemoteVolumeAccess: 'false'"
		inZone     = "allowRemoteVolumeAccess: '- fromSame: [topology.kubernetes.io/zone]'"
		noSuchZone = "allowRemoteVolumeAccess: '- fromSame: [example.com/nowhere]'"
		byHost     = "allowRemoteVolumeAccess: '- fromSame: [kubernetes.io/hostname]'"
	)
	pod := func(spec, status string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: cozy-public}\nspec: " + spec + "\nstatus: {phase: " + status + "}"
	}
	waitsFor := func(then Strategy) answer { return answer{Strategy: Wait, Reason: QuotaExceeded, Then: then} }
	quota := func(namespace, hard string, used ...string) string {
		return "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: " + namespace + "}\nspec: {hard: {" + hard + "}}\nstatus: {used: {" + strings.Join(used, "") + "}}"
	}
	volumes := "volumes: [{name: v, persistentVolumeClaim: {claimName: " + image + "}}]"
	return map[string]variant{
		// The page's refusals.
		"a disk without a size is as large as its image": {base: "L1-01a", changes: []change{{"\n  storage: 20Gi\n", "\n"}}, want: clone},
		"an image in another namespace is another one": {base: "R1-01", args: []string{"--image-namespace=elsewhere"},
			want: waits(SourceNotFound)},
		"a CDI resource of another name is not the cdi resource": {base: "R1-01", changes: []change{{"kind: CDI\nmetadata:\n  name: cdi", "kind: CDI\nmetadata:\n  name: other"}},
			want: copied(TargetNotReachable)},
		"an image and a disk in one class are not compared": {base: "X4-01", changes: []change{{"allowRemoteVolumeAccess: 'true'", notRemote}},
			want: copied(TargetNotReachable)},
		"nor are they where CDI would fail": {base: "R2-01", changes: []change{{"storageClass: local\n", "storageClass: replicated\n"}},
			refusal: SnapshotClassMissing, want: copied(SnapshotClassMissing)},
		"a mode that only the second set has": {base: "R1-01", changes: []change{{"  name: local\nspec: {}\nstatus:\n  claimPropertySets:\n", "  name: local\nspec: {}\nstatus:\n  claimPropertySets:\n  - accessModes: [ReadWriteOnce]\n"}},
			want: copied(VolumeModeMismatch)},
		"two virtual machines' defaults don't hand over to Kubernetes' one": {base: "R1-01",
			changes: []change{{"  storageClass: local\n", ""}, {"  name: replicated\nprovisioner", "  name: replicated\n  annotations: {storageclass.kubevirt.io/is-default-virt-class: 'true'}\nprovisioner"},
				{"  name: local\nprovisioner", "  name: local\n  annotations: {storageclass.kubevirt.io/is-default-virt-class: 'true', storageclass.kubernetes.io/is-default-class: 'true'}\nprovisioner"}},
			want: answer{Strategy: HostAssisted, Reason: TargetNotReachable, StorageClass: "local"}},

		"the controller's default class is compared like a named one": {base: "R1-01", changes: []change{{"  storageClass: local\n", ""}},
			args: []string{"--default-storage-class=local"}, refusal: RemoteAccess, want: copied(TargetNotReachable)},
		"a disk's own class counts before the controller's default": {base: "R1-01", args: []string{"--default-storage-class=replicated"},
			refusal: RemoteAccess, want: copied(TargetNotReachable)},

		"a disk whose DataVolume has no claim yet is not made again": {base: "R1-01", add: "apiVersion: cdi.kubevirt.io/v1beta1\nkind: DataVolume\nmetadata: {name: vm-disk-d1, namespace: tenant-a}\nspec: {}",
			want: answer{Strategy: None, Reason: DiskExists}},

		// What is wished for.
		"a word that is no strategy is a copy": {base: "R1-01", changes: []change{{"cloneStrategyOverride: csi-clone", "cloneStrategyOverride: clever"}}, want: copied(CopyRequested)},
		"of two CDI resources the one that is not in error counts": {base: "R1-01", add: "apiVersion: cdi.kubevirt.io/v1beta1\nkind: CDI\nmetadata: {name: old}\nspec: {cloneStrategyOverride: copy}\nstatus: {phase: Error}",
			refusal: RemoteAccess, want: copied(TargetNotReachable)},
		"an only CDI resource counts in error, too": {base: "R1-01", changes: []change{{"  cloneStrategyOverride: csi-clone\n", "  cloneStrategyOverride: csi-clone\nstatus: {phase: Error}\n"}},
			refusal: RemoteAccess, want: copied(TargetNotReachable)},
		"an empty override is none": {base: "C-02", changes: []change{{"kind: CDI\nmetadata:\n  name: cdi\nspec: {}", "kind: CDI\nmetadata:\n  name: cdi\nspec: {cloneStrategyOverride: ''}"}}, want: copied(CopyRequested)},
		"two CDI resources that both work say nothing": {base: "L7-01", add: "apiVersion: cdi.kubevirt.io/v1beta1\nkind: CDI\nmetadata: {name: old}\nspec: {cloneStrategyOverride: copy}",
			want: copied(NoVolumeSnapshotClass)},
		"a clone is wished for, and only a snapshot is safe": {base: "L1-08", add: snapClass, want: restored("s")},

		// Snapshots.
		"of two classes without an annotation the first by name":                   {base: "S-07", changes: []change{{"  annotations:\n    snapshot.storage.kubernetes.io/is-default-class: 'true'\n", ""}}, want: restored("a-snaps")},
		"of two default classes the first by name":                                 {base: "S-07", changes: []change{{"  name: a-snaps\n", "  name: a-snaps\n  annotations: {snapshot.storage.kubernetes.io/is-default-class: 'true'}\n"}}, want: restored("a-snaps")},
		"without the API there are no classes":                                     {base: "S-07", args: []string{"--no-snapshot-api"}, want: copied(NoVolumeSnapshotClass)},
		"the disk's namespace has no room":                                         {base: "L1-01a", add: quota("tenant-a", "requests.storage: 19Gi"), want: waitsFor(CSIClone)},
		"nor for another claim":                                                    {base: "L1-01a", add: quota("tenant-a", "persistentvolumeclaims: '3'", "persistentvolumeclaims: '3'"), want: waitsFor(CSIClone)},
		"nor for one of the class":                                                 {base: "L1-01a", add: quota("tenant-a", "local.storageclass.storage.k8s.io/requests.storage: 30Gi", "local.storageclass.storage.k8s.io/requests.storage: 11Gi"), want: waitsFor(CSIClone)},
		"a quota with just enough room":                                            {base: "L1-01a", add: quota("tenant-a", "requests.storage: 30Gi", "requests.storage: 10Gi"), want: clone},
		"a quota of another class":                                                 {base: "L1-01a", add: quota("tenant-a", "replicated.storageclass.storage.k8s.io/requests.storage: 1Gi"), want: clone},
		"the image's namespace has no room for the claim that stands for the disk": {base: "L1-01a", add: quota("cozy-public", "requests.storage: 19Gi"), want: waitsFor(CSIClone)},
		"a quota of a third namespace":                                             {base: "L1-01a", add: quota("other", "requests.storage: 1Gi"), want: clone},
		"a quota for some pods only":                                               {base: "L1-01a", add: strings.Replace(quota("tenant-a", "requests.storage: 1Gi"), "spec: {", "spec: {scopes: [Terminating], ", 1), want: clone},
		"nor for pods of some priority":                                            {base: "L1-01a", add: strings.Replace(quota("tenant-a", "requests.storage: 1Gi"), "spec: {", "spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Exists}]}, ", 1), want: clone},
		"a disk that rests needs no claim beside the image yet":                    {base: "L1-01a", changes: []change{{lateBound, rests}}, add: quota("cozy-public", "requests.storage: 1Gi"), want: answer{Strategy: Wait, Reason: WaitForFirstConsumer, Then: CSIClone, RestsReady: true}},
		"a common class that exists, without the API":                              {base: "S-07", args: []string{"--no-snapshot-api"}, changes: []change{{"spec: {}\nstatus:\n  claim", "spec: {}\nstatus:\n  snapshotClass: z-snaps\n  claim"}}, refusal: SnapshotClassMissing, want: copied(SnapshotClassMissing)},
		"the image's profile names a class, and the disk's another one": {base: "S-07", changes: []change{{"  name: replicated\nspec: {}\nstatus:\n", "  name: replicated\nspec: {}\nstatus:\n  snapshotClass: gone\n"}, {"  name: local\nspec: {}\nstatus:\n", "  name: local\nspec: {}\nstatus:\n  snapshotClass: z-snaps\n"}},
			want: restored("z-snaps")},
		"a snapshot once the consumer is known": {base: "S-01", changes: []change{{lateBound, rests}}, args: []string{"--source-nodes=node-a"}, refusal: RemoteAccess,
			want: answer{Strategy: Wait, Reason: WaitForFirstConsumer, Then: Snapshot, RestsReady: true}},
		"no snapshots are allowed where the image is":              {base: "S-07", add: noSnaps, want: copied(QuotaExceeded)},
		"no snapshots are allowed elsewhere":                       {base: "S-07", add: strings.Replace(noSnaps, "cozy-public", "tenant-a", 1), want: restored("z-snaps")},
		"snapshots are allowed, and all of them used":              {base: "S-07", add: strings.Replace(noSnaps, "'0'}}", "'3'}}\nstatus: {used: {count/volumesnapshots.snapshot.storage.k8s.io: '3'}}", 1), want: copied(QuotaExceeded)},
		"snapshots are allowed, and one is left":                   {base: "S-07", add: strings.Replace(noSnaps, "'0'}}", "'3'}}\nstatus: {used: {count/volumesnapshots.snapshot.storage.k8s.io: '2'}}", 1), want: restored("z-snaps")},
		"no snapshots are allowed, and none is made":               {base: "L1-01a", add: noSnaps, want: clone},
		"a quota of something else":                                {base: "S-07", add: strings.Replace(noSnaps, "count/volumesnapshots.snapshot.storage.k8s.io", "count/secrets", 1), want: restored("z-snaps")},
		"a common class that doesn't exist, for a mode that can't": {base: "R2-01", changes: []change{{"spec:\n  accessModes:\n  - ReadWriteOnce\n  resources:\n    requests:\n      storage: 20Gi\n  storageClassName: replicated\n  volumeMode: Block\n  volumeName", "spec:\n  accessModes:\n  - ReadWriteOnce\n  resources:\n    requests:\n      storage: 20Gi\n  storageClassName: replicated\n  volumeName"}}, refusal: SnapshotClassMissing, want: copied(VolumeModeMismatch)},

		// Sizes.
		"a disk that is smaller than its image": {base: "L1-01a", changes: []change{{"\n  storage: 20Gi\n", "\n  storage: 19Gi\n"}},
			want: answer{Strategy: Reject, Reason: TargetSmallerThanSource}},
		"a volume that turned out larger than its claim needs no expansion": {base: "L5-01", changes: []change{{"status:\n  phase: Bound\n  capacity:\n    storage: 20Gi", "status:\n  phase: Bound\n  capacity:\n    storage: 40Gi"}},
			want: copied(TargetNotReachable)},

		"a volume that doesn't say how large it is has what its claim asks for": {base: "L1-01a", changes: []change{{"  capacity:\n    storage: 20Gi\n---\napiVersion: v1\nkind: PersistentVolume\n", "---\napiVersion: v1\nkind: PersistentVolume\n"}}, want: clone},
		"a disk as large as its image's, whose claim is larger":                 {base: "L1-01a", changes: []change{{"\n  storage: 20Gi\n", "\n  storage: 19Gi\n"}, {"        storage: 20Gi\nstatus:\n  phase: Succeeded", "        storage: 19Gi\nstatus:\n  phase: Succeeded"}}, want: clone},

		// The source.
		"its volume is gone":             {base: "L1-01a", changes: []change{{"volumeName: pv-golden", "volumeName: pv-gone"}}, want: waits(SourceVolumeMissing)},
		"its claim is lost":              {base: "L1-01a", changes: []change{{"status:\n  phase: Bound\n  capacity", "status:\n  phase: Lost\n  capacity"}}, want: waits(SourceVolumeMissing)},
		"its volume has an older claim":  {base: "L1-01a", changes: []change{{"    uid: uid-" + image + "\n  storageClassName", "    uid: older\n  storageClassName"}}, want: waits(SourceVolumeMismatch)},
		"its volume is of another space": {base: "L1-01a", changes: []change{{"    namespace: cozy-public\n    name: " + image + "\n    uid: uid-" + image + "\n", "    namespace: other\n    name: " + image + "\n"}}, want: waits(SourceVolumeMismatch)},
		"it is being deleted": {base: "L1-01a", changes: []change{{"  uid: uid-" + image + "\n  owner", "  uid: uid-" + image + "\n  deletionTimestamp: 2026-11-30T00:00:00Z\n  owner"}},
			want: answer{Strategy: Wait, Reason: SourceNotReady, Then: CSIClone}},
		"its DataVolume is another's of that name": {base: "I-16", changes: []change{{"    uid: dv-uid-" + image + "\n    controller", "    uid: other\n    controller"}}, want: clone},
		"a pod writes to it":                       {base: "L1-01a", add: pod("{"+volumes+", containers: [{name: c, volumeMounts: [{name: v, mountPath: /a}]}]}", "Pending"), want: answer{Strategy: Wait, Reason: SourceInUse, Then: CSIClone}},
		"an init container has the device":         {base: "L1-01a", add: pod("{"+volumes+", initContainers: [{name: c, volumeDevices: [{name: v, devicePath: /a}]}], containers: []}", "Running"), want: answer{Strategy: Wait, Reason: SourceInUse, Then: CSIClone}},
		"a pod that has volumes of its own":        {base: "L1-01a", add: pod("{volumes: [{name: v, emptyDir: {}}], containers: []}", "Running"), want: clone},
		"its DataVolume has no phase yet":          {base: "I-16", changes: []change{{"status:\n  phase: ImportInProgress\n", ""}}, want: answer{Strategy: Wait, Reason: SourceNotReady, Then: CSIClone}},
		"a pod reads it":                           {base: "L1-01a", add: pod("{"+volumes+", containers: [{name: c, volumeMounts: [{name: v, mountPath: /a, readOnly: true}]}]}", "Running"), want: clone},
		"a pod that mounts it read-only":           {base: "L1-01a", add: pod("{"+strings.Replace(volumes, "}}]", ", readOnly: true}}]", 1)+", containers: []}", "Running"), want: clone},
		"a pod reads it, and writes elsewhere":     {base: "L1-01a", add: pod("{"+strings.Replace(volumes, "volumes: [", "volumes: [{name: w, emptyDir: {}}, ", 1)+", containers: [{name: c, volumeMounts: [{name: v, mountPath: /a, readOnly: true}, {name: w, mountPath: /b}]}]}", "Running"), want: clone},
		"a pod has another volume":                 {base: "L1-01a", add: pod("{volumes: [{name: v, persistentVolumeClaim: {claimName: other}}], containers: []}", "Running"), want: clone},
		"a pod in another namespace":               {base: "L1-01a", add: strings.Replace(pod("{"+volumes+", containers: []}", "Running"), "namespace: cozy-public", "namespace: other", 1), want: clone},
		"a pod has written to it":                  {base: "L1-01a", add: pod("{"+volumes+", containers: []}", "Succeeded"), want: clone},
		"a pod has failed to":                      {base: "L1-01a", add: pod("{"+volumes+", containers: []}", "Failed"), want: clone},

		// Where the data is, and the consumer.
		"within a class, the consumer runs where the data is":    {base: "X4-02", changes: []change{{lateBound, rests}}, args: []string{"--selected-node=node-a"}, want: pinned("node-a")},
		"within a class, the consumer runs elsewhere":            {base: "X4-02", changes: []change{{lateBound, rests}}, args: []string{"--selected-node=node-b"}, want: on(ConsumerNodeLacksData, "node-b")},
		"DRBD on two nodes, the consumer runs on the third":      {base: "I-02", args: []string{"--selected-node=node-c"}, refusal: RemoteAccess, want: on(ConsumerNodeLacksData, "node-c")},
		"the consumer's node has no bearing on remote access":    {base: "L1-01a", args: []string{"--selected-node=node-c"}, want: clone},
		"a copy is made on the consumer's node":                  {base: "L7-01", args: []string{"--selected-node=node-c"}, want: on(CopyRequested, "node-c")},
		"a zone that has the data and another node":              {base: "I-06", args: []string{"--selected-node=", "--source-nodes=node-a"}, refusal: RemoteAccess, changes: []change{{rests, lateBound}}, want: pinned("node-a", "node-b")},
		"a zone, and the consumer runs in it":                    {base: "I-06", args: []string{"--selected-node=node-b"}, refusal: RemoteAccess, want: pinned("node-b")},
		"a zone, and where the data is is not known":             {base: "R1-03", refusal: RemoteAccess, want: copied(TargetNotReachable)},
		"a label that no node has is no rule":                    {base: "R1-01", changes: []change{{"layerList: storage", "layerList: drbd storage"}, {notRemote, noSuchZone}}, refusal: RemoteAccess, want: clone},
		"a label that the driver doesn't know is no rule":        {base: "R1-01", changes: []change{{"layerList: storage", "layerList: drbd storage"}, {notRemote, byHost}}, args: []string{"--source-nodes=node-a"}, refusal: RemoteAccess, want: clone},
		"a label that nobody may have, since no nodes were seen": {base: "R1-01", changes: []change{{notRemote, noSuchZone}, {"kind: Node\n", "kind: CSIDriver\n"}}, refusal: RemoteAccess, want: copied(TargetNotReachable)},
		"a label that the data's node lacks, and others have": {base: "R1-01", changes: []change{{"layerList: storage", "layerList: drbd storage"}, {notRemote, inZone}, {"node-a\n    topology.kubernetes.io/zone: z1\n", "node-a\n"}}, args: []string{"--source-nodes=node-a"},
			refusal: RemoteAccess, want: clone},
		"a label that the data's node lacks, beside one that it has": {base: "R1-01", changes: []change{{notRemote, "allowRemoteVolumeAccess: '- fromSame: [topology.kubernetes.io/zone, topology.kubernetes.io/rack]'"}, {"node-b\n    topology.kubernetes.io/zone: z1\n", "node-b\n    topology.kubernetes.io/zone: z1\n    topology.kubernetes.io/rack: r1\n"}},
			args: []string{"--source-nodes=node-a"}, refusal: RemoteAccess, want: pinned("node-a", "node-b")},
		"a label without a value is not the lack of one": {base: "R1-01", changes: []change{{notRemote, inZone}, {"node-a\n    topology.kubernetes.io/zone: z1\n", "node-a\n    topology.kubernetes.io/zone: ''\n"}, {"node-b\n    topology.kubernetes.io/zone: z1\n", "node-b\n"}},
			args: []string{"--source-nodes=node-a"}, refusal: RemoteAccess, want: pinned("node-a")},
		"a node that its driver has not labelled yet is called as it is": {base: "I-01", changes: []change{{"    linbit.com/hostname: node-a\n    topology", "    topology"}}, refusal: RemoteAccess, want: pinned("node-a")},
		"nor need the driver have the hosts' label for topology":         {base: "I-01", changes: []change{{"    topologyKeys:\n    - linbit.com/hostname\n    - topology.kubernetes.io/zone\n", "    topologyKeys: [topology.kubernetes.io/zone]\n"}}, refusal: RemoteAccess, want: pinned("node-a")},
		"the data is on a node that was not seen":                        {base: "R1-01", changes: []change{{notRemote, inZone}}, args: []string{"--source-nodes=node-z"}, refusal: RemoteAccess, want: pinned("node-z")},
		"the hosts' label names the nodes, too": {base: "I-01", changes: []change{{"key: linbit.com/hostname", "key: kubernetes.io/hostname"}}, refusal: RemoteAccess,
			want: pinned("node-a")},
		"hosts have other names than nodes": {base: "I-01", changes: []change{{"linbit.com/hostname: node-b", "linbit.com/hostname: host-b"}, {"          - node-a", "          - host-b"}}, refusal: RemoteAccess,
			want: pinned("node-b")},
		"an affinity to a zone doesn't say where the data is": {base: "I-01", changes: []change{{"key: linbit.com/hostname", "key: topology.kubernetes.io/zone"}, {"          - node-a", "          - z1"}}, refusal: RemoteAccess,
			want: copied(TargetNotReachable)},
		"nor does one that requires nothing":        {base: "R1-01", changes: []change{{"  claimRef:\n", "  nodeAffinity: {}\n  claimRef:\n"}}, refusal: RemoteAccess, want: copied(TargetNotReachable)},
		"an affinity against a host doesn't either": {base: "I-01", changes: []change{{"operator: In", "operator: NotIn"}}, refusal: RemoteAccess, want: copied(TargetNotReachable)},
		"the volume's word counts before that of the option": {base: "I-01", args: []string{"--source-nodes=node-b"}, refusal: RemoteAccess,
			want: pinned("node-a")},
		"a snapshot is one copy, wherever the data is": {base: "I-04b", add: snapClass, refusal: RemoteAccess,
			want: answer{Strategy: Snapshot, Reason: PinnedToSourceNodes, Fallback: HostAssisted, Nodes: []string{"node-a", "node-b"}, VolumeSnapshotClass: "s"}},
		"one node with the data makes one copy": {base: "L1-08", args: []string{"--source-nodes=node-a"}, want: clone},
		"within a namespace the consumer may run elsewhere": {base: "X3-01", changes: []change{{lateBound, rests}}, args: []string{"--source-nodes=node-a"},
			want: answer{Strategy: Wait, Reason: WaitForFirstConsumer, Then: HostAssisted, RestsReady: true}},
		"within a namespace, what needs no consumer is pinned": {base: "X3-01", args: []string{"--source-nodes=node-a"}, want: pinned("node-a")},
		"across namespaces it is known by then": {base: "I-07", args: []string{"--source-nodes=node-a"}, refusal: RemoteAccess,
			want: answer{Strategy: Wait, Reason: WaitForFirstConsumer, Then: CSIClone, RestsReady: true}},
		"a class that binds at once has nothing to wait for": {base: "X4-01", changes: []change{{lateBound, rests}}, want: clone},
		"another driver's volume is on one node": {base: "L2-01", changes: []change{{"  claimRef:\n", "  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [z2]}]}]}}\n  claimRef:\n"}},
			want: pinned("node-c")},
		"another driver's volume has an affinity that requires nothing": {base: "L2-01", changes: []change{{"  claimRef:\n", "  nodeAffinity: {}\n  claimRef:\n"}},
			want: answer{Strategy: CSIClone, Reason: SameDriver, Fallback: HostAssisted}},
		"another driver's volume has an affinity that nobody understands": {base: "L2-01", changes: []change{{"  claimRef:\n", "  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: Gt, values: [z]}]}, {matchExpressions: [{key: a, operator: About}]}]}}\n  claimRef:\n"}},
			want: answer{Strategy: CSIClone, Reason: SameDriver, Fallback: HostAssisted}},
		"another driver's volume is on a node that was not seen": {base: "L2-01", changes: []change{{"  claimRef:\n", "  nodeAffinity: {required: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [z]}]}]}}\n  claimRef:\n"}},
			want: answer{Strategy: CSIClone, Reason: SameDriver, Fallback: HostAssisted}},
		"another driver's volume, and its consumer is elsewhere": {base: "L2-01", changes: []change{{"  claimRef:\n", "  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [z2]}]}]}}\n  claimRef:\n"}},
			args: []string{"--selected-node=node-a"}, want: on(ConsumerNodeLacksData, "node-a")},
		"another driver's volume is not on one node": {base: "L2-01", changes: []change{{"  claimRef:\n", "  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: Exists}], matchFields: [{key: metadata.name, operator: NotIn, values: [node-a]}]}, {}]}}\n  claimRef:\n"}},
			want: pinned("node-b", "node-c")},
	}
}

// example is the case with the variant's arguments.
func (v variant) example(t *testing.T) example {
	t.Helper()
	for _, e := range examples(t) {
		if e.ID == v.base {
			e.Args = append(e.Args, v.args...)
			return e
		}
	}
	t.Fatalf("there is no case %s", v.base)
	return example{}
}

// manifests are the case's, with the changes.
func (v variant) manifests(t *testing.T) string {
	t.Helper()
	text := read(t, v.base)
	for _, c := range v.changes {
		if !strings.Contains(text, c.from) {
			t.Fatalf("%s lacks %q", v.base, c.from)
		}
		text = strings.ReplaceAll(text, c.from, c.to)
	}
	if v.add != "" {
		text += "\n---\n" + v.add + "\n"
	}
	return text
}

func TestVariants(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			got := v.example(t).plan(t, parse(t, v.manifests(t)))
			if diff := cmp.Diff(v.want, got.answer()); diff != "" || got.Refusal != v.refusal {
				t.Errorf("refusal %q, want %q; plan (-want +got):\n%s\n%s", got.Refusal, v.refusal, diff, got.Message)
			}
		})
	}
}
