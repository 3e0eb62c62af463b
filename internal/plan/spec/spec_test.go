package spec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) (s cdiv1.DataVolumeSpec) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// refused is a spec, the field that is wrong in it, and how CDI's message for it begins, which programs may look for.
type refused struct{ spec, field, begins string }

const (
	sized = "storage: {resources: {requests: {storage: 1Gi}}}"
	blank = "\nsource: {blank: {}}"
)

// refusals are the rules of CDI's webhook, in its order.
func refusals() map[string]refused {
	of := func(source string) string { return sized + "\nsource: {" + source + "}" }
	claim := func(rest string) string { return "pvc: {resources: {requests: {storage: 1Gi}}" + rest + "}" + blank }
	external := func(refs string) string { return "storage: {resources: {requests: {storage: 1Gi}}, " + refs + "}" }
	return map[string]refused{
		"no claim":                          {"source: {blank: {}}", "spec.storage", "Missing Data volume PVC"},
		"two claims":                        {"pvc: {}\nstorage: {}" + blank, "spec.pvc", "Duplicate storage definition, both target storage and target pvc defined"},
		"no size":                           {"storage: {}" + blank, "spec.storage.resources.requests.storage", "Storage size is missing"},
		"no size of a claim":                {"pvc: {accessModes: [ReadWriteOnce]}" + blank, "spec.pvc.resources.requests.storage", "PVC size is missing"},
		"no size of a claim that is cloned": {"pvc: {accessModes: [ReadWriteOnce]}\nsource: {pvc: {namespace: a, name: b}}", "spec.pvc.resources.requests.storage", "PVC size is missing"},
		"a size of nothing":                 {"storage: {resources: {requests: {storage: 0}}}" + blank, "spec.storage.resources.requests.storage", "Storage size can't be equal or less than zero"},
		"a size below nothing":              {"storage: {resources: {requests: {storage: -1Gi}}}" + blank, "spec.storage.resources.requests.storage", "Storage size can't be equal or less than zero"},
		"a size below a mebibyte":           {"storage: {resources: {requests: {storage: 1048575}}}" + blank, "spec.storage.resources.requests.storage", "Storage size should be at least 1MiB"},
		"a class with too long a name":      {"storage: {storageClassName: " + strings.Repeat("x", 254) + ", resources: {requests: {storage: 1Gi}}}" + blank, "spec.storage.storageClassName", "Storage storageClassName"},
		"no access mode":                    {claim(""), "spec.pvc.accessModes", "Required value: at least 1 access mode is required"},
		"two access modes":                  {claim(", accessModes: [ReadWriteOnce, ReadWriteMany]"), "spec.pvc.accessModes", "PVC multiple accessModes"},
		"an access mode that there isn't":   {claim(", accessModes: [ReadAndWrite]"), "spec.pvc.accessModes", `Unsupported value: "ReadAndWrite": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce"`},
		"one of several that there isn't":   {"storage: {accessModes: [ReadWriteOnce, Once], resources: {requests: {storage: 1Gi}}}" + blank, "spec.storage.accessModes", `Unsupported value: "Once"`},

		"two that fill the disk":             {external("dataSource: {kind: PersistentVolumeClaim, name: x}") + blank, "spec.source", "External population is incompatible with Source and SourceRef"},
		"a dataSource without a name":        {external("dataSource: {kind: PersistentVolumeClaim, name: ''}"), "spec.storage.dataSource", "dataSource needs a kind and a name"},
		"a dataSource without a group":       {external("dataSource: {kind: VolumeSnapshot, name: x}"), "spec.storage.dataSource.apiGroup", "dataSource needs an apiGroup"},
		"a dataSourceRef without a kind":     {external("dataSourceRef: {kind: '', name: x}"), "spec.storage.dataSourceRef", "dataSourceRef needs a kind and a name"},
		"a dataSourceRef without a group":    {external("dataSourceRef: {kind: Other, name: x}"), "spec.storage.dataSourceRef.apiGroup", "dataSourceRef needs an apiGroup"},
		"a dataSourceRef elsewhere":          {external("dataSourceRef: {kind: PersistentVolumeClaim, name: x, namespace: y}"), "spec.storage.dataSourceRef.namespace", "dataSourceRef can't name another namespace"},
		"references to different things":     {external("dataSource: {kind: PersistentVolumeClaim, name: x}, dataSourceRef: {kind: PersistentVolumeClaim, name: y}"), "spec.storage.dataSource", "dataSource and dataSourceRef name different objects"},
		"nothing that fills it":              {sized, "spec.source", "Data volume should have either Source or SourceRef, or be externally populated"},
		"a source and a sourceRef":           {sized + "\nsource: {blank: {}}\nsourceRef: {kind: DataSource, name: x}", "spec.source", "Data volume should have either Source or SourceRef, or be externally populated"},
		"a sourceRef without a kind":         {sized + "\nsourceRef: {kind: '', name: x}", "spec.sourceRef.kind", "Missing sourceRef kind"},
		"a sourceRef of another kind":        {sized + "\nsourceRef: {kind: Other, name: x}", "spec.sourceRef.kind", "Unsupported sourceRef kind Other, currently only DataSource is supported"},
		"a sourceRef without a name":         {sized + "\nsourceRef: {kind: DataSource, name: ''}", "spec.sourceRef.name", "Missing sourceRef name"},
		"an empty source":                    {sized + "\nsource: {}", "spec.source", "Missing Data volume source"},
		"two sources":                        {of("blank: {}, upload: {}"), "spec.source", "Multiple Data volume sources"},
		"a content that there isn't":         {sized + blank + "\ncontentType: disk", "spec.contentType", "ContentType not one of: kubevirt, archive"},
		"no URL":                             {of("http: {url: ''}"), "spec.source.http.url", "spec.source source URL is empty"},
		"a URL that is none":                 {of("http: {url: 'x y'}"), "spec.source.http.url", "spec.source Invalid source URL: x y"},
		"a URL of another scheme":            {of("s3: {url: 'ftp://x/y'}"), "spec.source.s3.url", "spec.source Invalid source URL scheme: ftp://x/y"},
		"a bucket of another scheme":         {of("gcs: {url: 's3://x/y'}"), "spec.source.gcs.url", "spec.source Invalid source URL scheme: s3://x/y"},
		"a checksum that is none":            {of("http: {url: 'https://x/y', checksum: 'sha256:1'}"), "spec.source.http", "spec.source.http source can't be read"},
		"a blank archive":                    {sized + blank + "\ncontentType: archive", "spec.contentType", "SourceType cannot be blank and the contentType be archive"},
		"an archive from a registry":         {of("registry: {url: 'docker://x'}") + "\ncontentType: archive", "spec.contentType", "ContentType must be kubevirt when Source is Registry"},
		"a registry without an image":        {of("registry: {}"), "spec.source.registry", "spec.source.registry source registry should have either URL or ImageStream"},
		"a registry with two images":         {of("registry: {url: 'docker://x', imageStream: x, pullMethod: node}"), "spec.source.registry", "spec.source.registry source registry should have either URL or ImageStream"},
		"a registry's URL that is none":      {of("registry: {url: 'docker://%x'}"), "spec.source.registry.url", "Illegal registry source URL docker://%x"},
		"a registry's URL of another scheme": {of("registry: {url: 'https://x'}"), "spec.source.registry.url", "Illegal registry source URL scheme https://x"},
		"a way to pull that there isn't":     {of("registry: {url: 'docker://x', pullMethod: push}"), "spec.source.registry.pullMethod", `ImportMethod push is neither pod, node or ""`},
		"an imageStream pulled by a pod":     {of("registry: {imageStream: x}"), "spec.source.registry.imageStream", "spec.source.registry source registry: an imageStream"},
		"imageio without a disk":             {of("imageio: {url: 'https://x', secretRef: s, diskId: '', certConfigMap: c}"), "spec.source.imageio", "spec.source.imageio source Imageio is not valid"},
		"imageio that trusts nobody":         {of("imageio: {url: 'https://x', secretRef: s, diskId: d}"), "spec.source.imageio", "spec.source.imageio source Imageio is not valid"},
		"vddk without a thumbprint":          {of("vddk: {url: 'https://x', secretRef: s, uuid: u, backingFile: b}"), "spec.source.vddk", "spec.source.vddk source VDDK is not valid"},
		"a claim without a name":             {of("pvc: {namespace: a, name: ''}"), "spec.source.pvc", "spec.source.pvc source PVC is not valid"},
		"a snapshot without a namespace":     {of("snapshot: {namespace: '', name: b}"), "spec.source.snapshot", "spec.source.snapshot source snapshot is not valid"},
	}
}

func TestRefused(t *testing.T) {
	for name, c := range refusals() {
		t.Run(name, func(t *testing.T) {
			causes := Created(&cdiv1.DataVolume{Spec: parse(t, c.spec)}, nil)
			if len(causes) != 1 || causes[0].Field != c.field || !strings.HasPrefix(causes[0].Message, c.begins) || causes[0].Type != metav1.CauseTypeFieldValueInvalid {
				t.Errorf("got %+v, want one cause in %s that begins with %s", causes, c.field, c.begins)
			}
		})
	}
}

func TestWhatIsWrongIsSaidAtOnce(t *testing.T) {
	causes := Created(&cdiv1.DataVolume{Spec: parse(t, "storage: {}\nsource: {}\ncontentType: x")}, nil)
	want := "Storage size is missing: set resources.requests.storage; Missing Data volume source: set one, such as http or blank; ContentType not one of: kubevirt, archive"
	if got := Message(causes); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAccepted(t *testing.T) {
	of := func(source string) string { return sized + "\nsource: {" + source + "}" }
	for name, spec := range map[string]string{
		"a blank disk":                 sized + blank,
		"a claim that is written out":  "pvc: {accessModes: [ReadWriteOncePod], resources: {requests: {storage: 1Mi}}}" + blank,
		"several access modes":         "storage: {accessModes: [ReadWriteOnce, ReadWriteMany], resources: {requests: {storage: 1Gi}}}" + blank,
		"a URL":                        of("http: {url: 'https://x/y', checksum: 'md5:" + strings.Repeat("0", 32) + "'}"),
		"a bucket":                     of("gcs: {url: 'gs://x/y'}"),
		"a bucket by URL":              of("s3: {url: 'http://x/y'}"),
		"a registry":                   of("registry: {url: 'docker://x', pullMethod: pod}"),
		"an archive from a registry":   of("registry: {url: 'oci-archive:/x'}"),
		"an imageStream":               of("registry: {imageStream: x, pullMethod: node}"),
		"an upload":                    of("upload: {}") + "\ncontentType: archive",
		"a clone of a size":            of("pvc: {namespace: a, name: b}"),
		"a clone as large as it is":    "storage: {}\nsource: {snapshot: {namespace: a, name: b}}",
		"a DataSource as large as it":  "storage: {}\nsourceRef: {kind: DataSource, name: x}",
		"imageio":                      of("imageio: {url: 'https://x', secretRef: s, diskId: d, insecureSkipVerify: true}"),
		"vddk":                         of("vddk: {url: 'https://x', secretRef: s, uuid: u, backingFile: b, thumbprint: t}"),
		"something that fills it":      "storage: {resources: {requests: {storage: 1Gi}}, dataSourceRef: {apiGroup: g, kind: K, name: x}}",
		"the same thing by both names": "storage: {resources: {requests: {storage: 1Gi}}, dataSource: {apiGroup: g, kind: K, name: x}, dataSourceRef: {apiGroup: g, kind: K, name: x}}",
	} {
		t.Run(name, func(t *testing.T) {
			if causes := Created(&cdiv1.DataVolume{Spec: parse(t, spec)}, nil); causes != nil {
				t.Errorf("got %+v", causes)
			}
		})
	}
}

func TestAClaimThatIsThere(t *testing.T) {
	owned := func(kind string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: "d", Controller: new(true)}}
	}
	const exists = "Destination PVC ns/d already exists: delete it, choose another name, or have it taken over as it is with the annotation cdi.kubevirt.io/allowClaimAdoption=true"
	for name, c := range map[string]struct {
		annotations map[string]string // of the DataVolume
		claim       metav1.ObjectMeta
		want        string
	}{
		"somebody's":                    {want: exists},
		"of another controller":         {annotations: map[string]string{"cdi.kubevirt.io/allowClaimAdoption": "true"}, claim: metav1.ObjectMeta{OwnerReferences: owned("Other")}, want: exists},
		"of a DataVolume":               {claim: metav1.ObjectMeta{OwnerReferences: owned("DataVolume")}},
		"to be taken over":              {annotations: map[string]string{"cdi.kubevirt.io/allowClaimAdoption": "true"}},
		"not to be taken over":          {annotations: map[string]string{"cdi.kubevirt.io/allowClaimAdoption": "false"}, want: exists},
		"restored":                      {annotations: map[string]string{"cdi.kubevirt.io/storage.prePopulated": "d"}},
		"filled for this DataVolume":    {claim: metav1.ObjectMeta{Annotations: map[string]string{"cdi.kubevirt.io/storage.populatedFor": "d"}}},
		"filled for another DataVolume": {claim: metav1.ObjectMeta{Annotations: map[string]string{"cdi.kubevirt.io/storage.populatedFor": "x"}}, want: exists},
	} {
		t.Run(name, func(t *testing.T) {
			c.claim.Namespace, c.claim.Name = "ns", "d"
			dv := &cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d", Annotations: c.annotations}, Spec: parse(t, sized+blank)}
			if diff := cmp.Diff(c.want, Message(Created(dv, &corev1.PersistentVolumeClaim{ObjectMeta: c.claim}))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestChanged(t *testing.T) {
	const never = "Cannot update DataVolume Spec: delete the DataVolume and make another one"
	vddk := sized + "\nsource: {vddk: {url: 'https://x', secretRef: s, uuid: u, backingFile: b, thumbprint: t}}"
	for name, c := range map[string]struct{ old, now, want string }{
		"not at all":                    {sized + blank, sized + blank, ""},
		"the same size in other words":  {sized + blank, "storage: {resources: {requests: {storage: 1024Mi}}}" + blank, ""},
		"another size":                  {sized + blank, "storage: {resources: {requests: {storage: 2Gi}}}" + blank, never},
		"another source":                {sized + blank, sized + "\nsource: {upload: {}}", never},
		"checkpoints of a migration":    {vddk, vddk + "\ncheckpoints: [{previous: a, current: b}]\nfinalCheckpoint: true", ""},
		"a migration, and another size": {vddk, strings.Replace(vddk, "1Gi", "2Gi", 1) + "\nfinalCheckpoint: true", never},
		"checkpoints of nothing":        {sized + blank, sized + blank + "\nfinalCheckpoint: true", never},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Message(Changed(parse(t, c.old), parse(t, c.now))); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
