//go:build apiserver

package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testImmutableClasses holds docs/storage-immutability.md to what Kubernetes itself enforces of a StorageClass.
func (s server) testImmutableClasses(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*storagev1.StorageClass)
		refused []string // the fields
	}{
		"provisioner":          {func(c *storagev1.StorageClass) { c.Provisioner = "other.example.com" }, []string{"provisioner"}},
		"parameters":           {func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"a": "c"} }, []string{"parameters"}},
		"reclaimPolicy":        {func(c *storagev1.StorageClass) { c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRetain) }, []string{"reclaimPolicy"}},
		"volumeBindingMode":    {func(c *storagev1.StorageClass) { c.VolumeBindingMode = new(storagev1.VolumeBindingImmediate) }, []string{"volumeBindingMode"}},
		"allowVolumeExpansion": {func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = new(true) }, nil},
		"mountOptions":         {func(c *storagev1.StorageClass) { c.MountOptions = []string{"discard"} }, nil},
		"allowedTopologies": {func(c *storagev1.StorageClass) {
			c.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"1"}}}}}
		}, nil},
		"whether it is the default": {func(c *storagev1.StorageClass) {
			c.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			class := &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "immutable"}, Provisioner: "some.example.com", Parameters: map[string]string{"a": "b"},
				VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
			}
			if err := s.Create(t.Context(), class); err != nil {
				t.Fatal(err)
			}
			defer s.remove(t, class)
			changed := class.DeepCopy()
			c.change(changed)
			if diff := cmp.Diff(c.refused, fields(t, s.Update(t.Context(), changed))); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

// testImmutableClaims does so of a claim that is bound.
func (s server) testImmutableClaims(t *testing.T) {
	grows := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "grows"}, Provisioner: "some.example.com", AllowVolumeExpansion: new(true)}
	stays := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "stays"}, Provisioner: "some.example.com"}
	for _, class := range []*storagev1.StorageClass{grows, stays} {
		if err := s.Create(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		defer s.remove(t, class)
	}
	size := func(text string) func(*corev1.PersistentVolumeClaimSpec) {
		return func(c *corev1.PersistentVolumeClaimSpec) {
			c.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(text)
		}
	}
	for name, c := range map[string]struct {
		class   string
		change  func(*corev1.PersistentVolumeClaimSpec)
		refused bool
	}{
		"class":      {"grows", func(c *corev1.PersistentVolumeClaimSpec) { c.StorageClassName = &stays.Name }, true},
		"volumeMode": {"grows", func(c *corev1.PersistentVolumeClaimSpec) { c.VolumeMode = new(corev1.PersistentVolumeFilesystem) }, true},
		"accessModes": {"grows", func(c *corev1.PersistentVolumeClaimSpec) {
			c.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}, true},
		"volumeName": {"grows", func(c *corev1.PersistentVolumeClaimSpec) { c.VolumeName = "other" }, true},
		"dataSourceRef": {"grows", func(c *corev1.PersistentVolumeClaimSpec) {
			c.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "other"}
		}, true},
		"a larger size, in a class that lets volumes grow": {"grows", size("2Gi"), false},
		"a larger size, in a class that doesn't":           {"stays", size("2Gi"), true},
		"a smaller size":                                   {"grows", size("512Mi"), true},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "immutable"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: new(corev1.PersistentVolumeBlock),
					StorageClassName: &c.class, VolumeName: "pv", Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{}},
				},
			}
			size("1Gi")(&claim.Spec)
			if err := s.Create(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			defer s.letGo(t, claim)
			claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests.DeepCopy()
			if err := s.Status().Update(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			changed := claim.DeepCopy()
			c.change(&changed.Spec)
			if err := s.Update(t.Context(), changed); (err != nil) != c.refused {
				t.Errorf("the change is answered with %v, refused is to be %v", err, c.refused)
			}
		})
	}
}

// fields are those that a refusal names; nil: there was none.
func fields(t *testing.T, err error) []string {
	t.Helper()
	var all []string
	for _, c := range causes(t, err) {
		field, _, _ := strings.Cut(c, ":")
		all = append(all, field)
	}
	return all
}

// letGo deletes a claim that nothing protects here.
func (s server) letGo(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := s.Patch(t.Context(), claim.DeepCopy(), free); err != nil {
		t.Error(err)
	}
	s.remove(t, claim)
}
