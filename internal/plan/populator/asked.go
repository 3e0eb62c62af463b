package populator

import (
	"fmt"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/plan/populate"
	"vmdisk.io/vmdisk/internal/plan/rebind"
)

// noProvisioner is the provisioner of classes whose volumes somebody makes by hand.
const noProvisioner = "kubernetes.io/no-provisioner"

// local: the source is in the target's own namespace. Another namespace's secrets and URLs are nobody else's.
func local(f *flow) *verdict {
	ns := f.Target.Spec.DataSourceRef.Namespace
	if ns == nil || *ns == f.Target.Namespace {
		return nil
	}
	return &verdict{reason: reasonNotServed, message: fmt.Sprintf("the claim's dataSourceRef names namespace %s: only a source of its own namespace is read", *ns)}
}

// sourced: the source exists, and can be read. A disk that is being filled already has its own copy of it.
func sourced(f *flow) *verdict {
	if f.DataVolume != nil {
		return nil
	}
	name := "VolumeImportSource " + f.Target.Spec.DataSourceRef.Name
	if f.Source == nil {
		return &verdict{reason: reasonSourceMissing, message: fmt.Sprintf("%s doesn't exist in namespace %s: create it, and the import goes on by itself", name, f.Target.Namespace)}
	}
	s := f.Source.Spec
	if s.TargetClaim != nil || len(s.Checkpoints) > 0 || s.FinalCheckpoint != nil {
		return &verdict{reason: reasonNotServed, message: name + " has targetClaim or checkpoints: imports in several stages are not served by this version of vmdisk"}
	}
	if err := populate.Served(name, specOf(f.Source)); err != nil {
		return &verdict{reason: reasonNotServed, message: err.Error()}
	}
	return nil
}

// possible: a volume of the target's class can be filled elsewhere, and handed over.
func possible(f *flow) *verdict {
	if f.DataVolume != nil {
		return nil
	}
	class := f.Target.Spec.StorageClassName
	switch {
	case class == nil || *class == "":
		return &verdict{reason: reasonImpossible, message: "the claim names no StorageClass, so nobody makes a volume to fill for it: make it again with spec.storageClassName"}
	case f.Class == nil:
		return &verdict{reason: reasonClassMissing, message: fmt.Sprintf("StorageClass %s does not exist: ask the administrator to create it, or make the claim again with another", *class)}
	case f.Class.Provisioner == noProvisioner:
		return &verdict{reason: reasonImpossible, message: fmt.Sprintf("StorageClass %s makes no volumes, its own are static: use another class, or a VMDisk or DataVolume", *class)}
	case len(f.Target.Spec.AccessModes) != 1: // CDI's rule for a DataVolume with a pvc section, which the temporary disk is
		return &verdict{reason: reasonNotServed, message: "the claim asks for several access modes: make it again with the one that is needed"}
	case f.Target.Spec.Selector != nil:
		return &verdict{reason: reasonImpossible, message: "the claim has a selector, and a volume that is made for it has no labels: make it again without spec.selector"}
	}
	if parameter := rebind.Templated(f.Class); parameter != "" {
		return &verdict{reason: reasonImpossible, message: rebind.TemplatedSentence(f.Class.Name, parameter)}
	}
	return nil
}

// wanted: somebody wants the volume now, and it is known where.
func wanted(f *flow) *verdict {
	if f.DataVolume != nil || f.immediate() || f.Target.Annotations[cdi.SelectedNode] != "" {
		return nil
	}
	return &verdict{reason: reasonConsumer, message: fmt.Sprintf("StorageClass %s makes its volume when the first pod or virtual machine uses it", f.Class.Name)}
}
