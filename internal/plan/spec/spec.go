// Package spec judges the specs of DataVolumes that are created or changed, by the rules of CDI's own webhook: what it refuses is refused
// here, and with the words that CDI's messages begin with, since programs and people know them. It is pure. What a spec that passes
// comes to is decided in populate.
package spec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/internal/plan/populate"
)

// Created is what is wrong with a new DataVolume: at most one cause for its claim, its source, its content, and the claim that has its name
// already, which is nil where there is none.
func Created(dv *cdiv1.DataVolume, claim *corev1.PersistentVolumeClaim) []metav1.StatusCause {
	causes := judge(dv.Spec)
	if claim != nil && !populate.Owned(claim) && !populate.Adoptable(dv, claim) {
		causes = append(causes, *no(field.NewPath("metadata", "name"),
			"Destination PVC %s/%s already exists: delete it, choose another name, or have it taken over as it is with the annotation cdi.kubevirt.io/allowClaimAdoption=true", claim.Namespace, claim.Name))
	}
	return causes
}

// Changed is what is wrong with a DataVolume's new spec: that it differs from the old one, but for the checkpoints of a warm migration.
func Changed(old, now cdiv1.DataVolumeSpec) []metav1.StatusCause {
	if s := now.Source; s != nil && (s.VDDK != nil || s.Imageio != nil) {
		old.Checkpoints, old.FinalCheckpoint = now.Checkpoints, now.FinalCheckpoint
	}
	if equality.Semantic.DeepEqual(old, now) {
		return nil
	}
	return []metav1.StatusCause{*no(field.NewPath("spec"), "Cannot update DataVolume Spec: delete the DataVolume and make another one")}
}

func judge(spec cdiv1.DataVolumeSpec) []metav1.StatusCause {
	root := field.NewPath("spec")
	var causes []metav1.StatusCause
	for _, cause := range []*metav1.StatusCause{claimed(spec, root), filled(spec, root), content(spec, root.Child("contentType"))} {
		if cause != nil {
			causes = append(causes, *cause)
		}
	}
	return causes
}

func no(at *field.Path, format string, args ...any) *metav1.StatusCause {
	return &metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: at.String(), Message: fmt.Sprintf(format, args...)}
}

// section is what is alike in the two ways to ask for a claim.
type section struct {
	name      string // in messages, as CDI writes it
	at        *field.Path
	modes     []corev1.PersistentVolumeAccessMode
	resources corev1.VolumeResourceRequirements
	class     *string
	source    *corev1.TypedLocalObjectReference
	sourceRef *corev1.TypedObjectReference
}

// sectionOf is the one that a spec has. It must have one.
func sectionOf(spec cdiv1.DataVolumeSpec, root *field.Path) section {
	if c := spec.PVC; c != nil {
		return section{"PVC", root.Child("pvc"), c.AccessModes, c.Resources, c.StorageClassName, c.DataSource, c.DataSourceRef}
	}
	c := spec.Storage
	return section{"Storage", root.Child("storage"), c.AccessModes, c.Resources, c.StorageClassName, c.DataSource, c.DataSourceRef}
}

// claimed judges how a claim is asked for.
func claimed(spec cdiv1.DataVolumeSpec, root *field.Path) *metav1.StatusCause {
	switch {
	case spec.PVC == nil && spec.Storage == nil:
		return no(root.Child("storage"), "Missing Data volume PVC: add a storage section with resources.requests.storage")
	case spec.PVC != nil && spec.Storage != nil:
		return no(root.Child("pvc"), "Duplicate storage definition, both target storage and target pvc defined: keep one of them")
	}
	s := sectionOf(spec, root)
	if cause := s.sized(spec.Storage != nil && clones(spec)); cause != nil {
		return cause
	}
	if s.class != nil && len(*s.class) > validation.DNS1123SubdomainMaxLength {
		return no(s.at.Child("storageClassName"), "%s storageClassName: no StorageClass has a name of more than %d characters", s.name, validation.DNS1123SubdomainMaxLength)
	}
	return s.accessed(spec.PVC != nil)
}

// clones says whether a disk is made from another volume, whose size it can take over.
func clones(spec cdiv1.DataVolumeSpec) bool {
	return spec.SourceRef != nil || spec.Source != nil && (spec.Source.PVC != nil || spec.Source.Snapshot != nil)
}

func (s section) sized(optional bool) *metav1.StatusCause {
	at := s.at.Child("resources", "requests", "storage")
	size, given := s.resources.Requests[corev1.ResourceStorage]
	switch {
	case !given && optional:
		return nil
	case !given:
		return no(at, "%s size is missing: set resources.requests.storage", s.name)
	case size.Sign() <= 0:
		return no(at, "%s size can't be equal or less than zero", s.name)
	case size.Value() < 1<<20:
		return no(at, "%s size should be at least 1MiB", s.name)
	default:
		return nil
	}
}

// accessed judges the access modes. A storage section may leave them to the class, and may name several.
func (s section) accessed(exactlyOne bool) *metav1.StatusCause {
	at := s.at.Child("accessModes")
	switch {
	case exactlyOne && len(s.modes) == 0:
		return no(at, "Required value: at least 1 access mode is required, such as ReadWriteOnce")
	case exactlyOne && len(s.modes) > 1:
		return no(at, "PVC multiple accessModes: keep one of them")
	}
	known := []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod}
	for _, mode := range s.modes {
		if !slices.Contains(known, mode) {
			return no(at, `Unsupported value: "%s": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`, mode)
		}
	}
	return nil
}

// content judges the content type, also against the source.
func content(spec cdiv1.DataVolumeSpec, at *field.Path) *metav1.StatusCause {
	archive := spec.ContentType == cdiv1.DataVolumeArchive
	switch s := spec.Source; {
	case !slices.Contains([]cdiv1.DataVolumeContentType{"", cdiv1.DataVolumeKubeVirt, cdiv1.DataVolumeArchive}, spec.ContentType):
		return no(at, "ContentType not one of: %s, %s", cdiv1.DataVolumeKubeVirt, cdiv1.DataVolumeArchive)
	case archive && s != nil && s.Blank != nil:
		return no(at, "SourceType cannot be blank and the contentType be archive")
	case archive && s != nil && s.Registry != nil:
		return no(at, "ContentType must be %s when Source is Registry", cdiv1.DataVolumeKubeVirt)
	default:
		return nil
	}
}

// Message is the causes in one text, for people.
func Message(causes []metav1.StatusCause) string {
	var texts []string
	for _, c := range causes {
		texts = append(texts, c.Message)
	}
	return strings.Join(texts, "; ")
}
