package spec

import (
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/internal/pod"
)

// filled judges what the disk is filled from: a source, a sourceRef, or something else that the claim names.
func filled(spec cdiv1.DataVolumeSpec, root *field.Path) *metav1.StatusCause {
	external := false
	if spec.PVC != nil || spec.Storage != nil {
		s := sectionOf(spec, root)
		external = s.source != nil || s.sourceRef != nil
		if external && (spec.Source != nil || spec.SourceRef != nil) {
			return no(root.Child("source"), "External population is incompatible with Source and SourceRef: keep one of them")
		}
		if cause := s.referring(); cause != nil {
			return cause
		}
	}
	switch {
	case external:
		return nil
	case (spec.Source == nil) == (spec.SourceRef == nil):
		return no(root.Child("source"), "Data volume should have either Source or SourceRef, or be externally populated")
	case spec.SourceRef != nil:
		return referred(*spec.SourceRef, root.Child("sourceRef"))
	default:
		return sourced(*spec.Source, root.Child("source"))
	}
}

// referring judges the references of a claim that another controller fills.
func (s section) referring() *metav1.StatusCause {
	local, ref := s.source, s.sourceRef
	group := func(g *string) string {
		if g == nil {
			return ""
		}
		return *g
	}
	const core = "PersistentVolumeClaim" // the one kind of the core group that a claim can be filled from
	switch {
	case local != nil && (local.Name == "" || local.Kind == ""):
		return no(s.at.Child("dataSource"), "dataSource needs a kind and a name")
	case local != nil && group(local.APIGroup) == "" && local.Kind != core:
		return no(s.at.Child("dataSource", "apiGroup"), "dataSource needs an apiGroup for kind %s", local.Kind)
	case ref != nil && (ref.Name == "" || ref.Kind == ""):
		return no(s.at.Child("dataSourceRef"), "dataSourceRef needs a kind and a name")
	case ref != nil && group(ref.APIGroup) == "" && ref.Kind != core:
		return no(s.at.Child("dataSourceRef", "apiGroup"), "dataSourceRef needs an apiGroup for kind %s", ref.Kind)
	case ref != nil && ref.Namespace != nil && *ref.Namespace != "":
		return no(s.at.Child("dataSourceRef", "namespace"), "dataSourceRef can't name another namespace")
	case local != nil && ref != nil && (local.Kind != ref.Kind || local.Name != ref.Name || group(local.APIGroup) != group(ref.APIGroup)):
		return no(s.at.Child("dataSource"), "dataSource and dataSourceRef name different objects: keep one of them")
	default:
		return nil
	}
}

func referred(ref cdiv1.DataVolumeSourceRef, at *field.Path) *metav1.StatusCause {
	switch {
	case ref.Kind == "":
		return no(at.Child("kind"), "Missing sourceRef kind: set it to %s", cdiv1.DataVolumeDataSource)
	case ref.Kind != cdiv1.DataVolumeDataSource:
		return no(at.Child("kind"), "Unsupported sourceRef kind %s, currently only %s is supported", ref.Kind, cdiv1.DataVolumeDataSource)
	case ref.Name == "":
		return no(at.Child("name"), "Missing sourceRef name")
	default:
		return nil
	}
}

// sourced judges a source: exactly one member, which is complete.
func sourced(s cdiv1.DataVolumeSource, at *field.Path) *metav1.StatusCause {
	members := map[string]bool{
		"http": s.HTTP != nil, "s3": s.S3 != nil, "gcs": s.GCS != nil, "registry": s.Registry != nil, "pvc": s.PVC != nil, "snapshot": s.Snapshot != nil,
		"upload": s.Upload != nil, "blank": s.Blank != nil, "imageio": s.Imageio != nil, "vddk": s.VDDK != nil,
	}
	set := 0
	for _, is := range members {
		if is {
			set++
		}
	}
	switch {
	case set == 0:
		return no(at, "Missing Data volume source: set one, such as http or blank")
	case set > 1:
		return no(at, "Multiple Data volume sources: keep one of them")
	}
	if cause := located(s, at); cause != nil {
		return cause
	}
	return complete(s, at)
}

// located judges the URL of a source that has one.
func located(s cdiv1.DataVolumeSource, at *field.Path) *metav1.StatusCause {
	web := []string{"http", "https"}
	switch {
	case s.HTTP != nil:
		return reached(s.HTTP.URL, at, at.Child("http", "url"), web)
	case s.S3 != nil:
		return reached(s.S3.URL, at, at.Child("s3", "url"), web)
	case s.GCS != nil:
		return reached(s.GCS.URL, at, at.Child("gcs", "url"), append(web, "gs"))
	case s.Imageio != nil:
		return reached(s.Imageio.URL, at, at.Child("imageio", "url"), web)
	case s.VDDK != nil:
		return reached(s.VDDK.URL, at, at.Child("vddk", "url"), web)
	default:
		return nil
	}
}

func reached(text string, source, at *field.Path, schemes []string) *metav1.StatusCause {
	if text == "" {
		return no(at, "%s source URL is empty", source)
	}
	u, err := url.ParseRequestURI(text)
	switch {
	case err != nil:
		return no(at, "%s Invalid source URL: %s", source, text)
	case !slices.Contains(schemes, u.Scheme):
		return no(at, "%s Invalid source URL scheme: %s", source, text)
	default:
		return nil
	}
}

// complete judges what a source needs besides a URL.
func complete(s cdiv1.DataVolumeSource, at *field.Path) *metav1.StatusCause {
	switch {
	case s.HTTP != nil:
		from, _ := pod.SourceOf(&s)
		if err := from.Validate(); err != nil {
			return no(at.Child("http"), "%s source can't be read: %v", at.Child("http"), err)
		}
	case s.Registry != nil:
		return registry(*s.Registry, at.Child("registry"))
	case s.Imageio != nil:
		trusts := s.Imageio.CertConfigMap != "" || s.Imageio.InsecureSkipVerify != nil && *s.Imageio.InsecureSkipVerify
		if s.Imageio.SecretRef == "" || s.Imageio.DiskID == "" || !trusts {
			return no(at.Child("imageio"), "%s source Imageio is not valid: it needs secretRef, diskId, and certConfigMap or insecureSkipVerify", at.Child("imageio"))
		}
	case s.VDDK != nil:
		if slices.Contains([]string{s.VDDK.SecretRef, s.VDDK.UUID, s.VDDK.BackingFile, s.VDDK.Thumbprint}, "") {
			return no(at.Child("vddk"), "%s source VDDK is not valid: it needs secretRef, uuid, backingFile and thumbprint", at.Child("vddk"))
		}
	case s.PVC != nil:
		if s.PVC.Namespace == "" || s.PVC.Name == "" {
			return no(at.Child("pvc"), "%s source PVC is not valid: it needs a namespace and a name", at.Child("pvc"))
		}
	case s.Snapshot != nil:
		if s.Snapshot.Namespace == "" || s.Snapshot.Name == "" {
			return no(at.Child("snapshot"), "%s source snapshot is not valid: it needs a namespace and a name", at.Child("snapshot"))
		}
	}
	return nil
}

func registry(r cdiv1.DataVolumeSourceRegistry, at *field.Path) *metav1.StatusCause {
	method := cdiv1.RegistryPullPod
	if r.PullMethod != nil && *r.PullMethod != "" {
		method = *r.PullMethod
	}
	node := method == cdiv1.RegistryPullNode
	switch {
	case (r.URL == nil) == (r.ImageStream == nil):
		return no(at, "%s source registry should have either URL or ImageStream", at)
	case method != cdiv1.RegistryPullPod && !node:
		return no(at.Child("pullMethod"), `ImportMethod %s is neither %s, %s or ""`, method, cdiv1.RegistryPullPod, cdiv1.RegistryPullNode)
	case r.ImageStream != nil && (*r.ImageStream == "" || !node):
		return no(at.Child("imageStream"), "%s source registry: an imageStream needs a name, and pullMethod %s", at, cdiv1.RegistryPullNode)
	case r.ImageStream != nil:
		return nil
	}
	u, err := url.Parse(*r.URL)
	switch {
	case err != nil:
		return no(at.Child("url"), "Illegal registry source URL %s", *r.URL)
	case u.Scheme != cdiv1.RegistrySchemeDocker && u.Scheme != cdiv1.RegistrySchemeOci:
		return no(at.Child("url"), "Illegal registry source URL scheme %s: it must begin with %s:// or %s:", *r.URL, cdiv1.RegistrySchemeDocker, cdiv1.RegistrySchemeOci)
	default:
		return nil
	}
}
