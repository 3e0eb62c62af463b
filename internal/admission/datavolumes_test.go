//go:build apiserver

package admission_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func dataVolume(name string, change func(*cdiv1.DataVolumeSpec)) *cdiv1.DataVolume {
	dv := &cdiv1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: name},
		Spec: cdiv1.DataVolumeSpec{
			Source: &cdiv1.DataVolumeSource{Blank: &cdiv1.DataVolumeBlankImage{}},
			Storage: &cdiv1.StorageSpec{Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			}},
		},
	}
	if change != nil {
		change(&dv.Spec)
	}
	return dv
}

// testDataVolumes asks a controller of vmdisk's engine.
func (p plane) testDataVolumes(port int) {
	t := p.t
	p.create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "taken"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}})
	p.eventually("the controller sees the claim", func() error {
		if err := p.Create(t.Context(), dataVolume("taken", nil), client.DryRunAll); err == nil {
			return errors.New("the DataVolume would be let in")
		}
		return nil
	})
	p.warnings.take()
	for name, c := range map[string]struct {
		dv      *cdiv1.DataVolume
		refusal string   // what it begins with
		fields  []string // that are wrong
		warning string
	}{
		"a blank disk": {dv: dataVolume("blank", nil)},
		"no size and an empty source": {
			dv: dataVolume("empty", func(s *cdiv1.DataVolumeSpec) {
				s.Source, s.Storage.Resources.Requests = &cdiv1.DataVolumeSource{}, nil
			}),
			refusal: "Storage size is missing", fields: []string{"spec.storage.resources.requests.storage", "spec.source"},
		},
		"a claim of its name": {dv: dataVolume("taken", nil), refusal: "Destination PVC tenant-a/taken already exists", fields: []string{"metadata.name"}},
		"a source that this version lacks": {
			dv: dataVolume("registry", func(s *cdiv1.DataVolumeSpec) {
				s.Source = &cdiv1.DataVolumeSource{Registry: &cdiv1.DataVolumeSourceRegistry{URL: new("docker://example/disk")}}
			}),
			warning: "source registry is not served by this version of vmdisk: it fills disks from http, blank, pvc and snapshot sources",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := p.Create(t.Context(), c.dv)
			if got := strings.Join(p.warnings.take(), "\n"); got != c.warning {
				t.Errorf("the warnings are %q, want %q", got, c.warning)
			}
			if c.refusal == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			status := apierrors.APIStatus(nil)
			if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.Status().Code != 422 {
				t.Fatalf("it is refused with %v, want Invalid, 422", err)
			}
			if want := `admission webhook "datavolumes.vmdisk.io" denied the request: ` + c.refusal; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %s\nwant %s…", err, want)
			}
			var fields []string
			for _, cause := range status.Status().Details.Causes {
				fields = append(fields, cause.Field)
			}
			if diff := cmp.Diff(c.fields, fields); diff != "" {
				t.Error(diff)
			}
			if found := p.Get(t.Context(), client.ObjectKeyFromObject(c.dv), &cdiv1.DataVolume{}); !apierrors.IsNotFound(found) {
				t.Errorf("reading it answers %v", found)
			}
		})
	}
	t.Run("a spec stays", func(t *testing.T) {
		dv := p.read(t, "blank")
		dv.Spec.Storage.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		want := `admission webhook "datavolumes.vmdisk.io" denied the request: Cannot update DataVolume Spec: delete the DataVolume and make another one`
		if err := p.Update(t.Context(), dv); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	t.Run("with no controller, what is there can be kept and taken away", func(t *testing.T) {
		plane{p.Client, t, p.warnings}.testWithoutController(port)
	})
}

func (p plane) read(t *testing.T, name string) *cdiv1.DataVolume {
	t.Helper()
	dv := &cdiv1.DataVolume{}
	if err := p.Get(t.Context(), client.ObjectKey{Namespace: "tenant-a", Name: name}, dv); err != nil {
		t.Fatal(err)
	}
	return dv
}

// testWithoutController lets the API server ask where nobody answers. Nothing but a new spec needs an answer.
func (p plane) testWithoutController(port int) {
	t := p.t
	p.ask(freePort(t))
	defer p.ask(port)
	p.eventually("nobody answers", func() error {
		if err := p.Create(t.Context(), dataVolume("new", nil), client.DryRunAll); !apierrors.IsInternalError(err) {
			return fmt.Errorf("creating a DataVolume is refused for %q, want an internal error", apierrors.ReasonForError(err))
		}
		return nil
	})
	change := func(what string, do func(dv *cdiv1.DataVolume) error) {
		if err := do(p.read(t, "blank")); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	change("label it and hold it back", func(dv *cdiv1.DataVolume) error {
		dv.Labels, dv.Finalizers = map[string]string{"a": "b"}, []string{"example.com/hold"}
		return p.Update(t.Context(), dv)
	})
	change("tell its state", func(dv *cdiv1.DataVolume) error {
		dv.Status.Phase = cdiv1.Succeeded
		return p.Status().Update(t.Context(), dv)
	})
	change("delete it", func(dv *cdiv1.DataVolume) error { return p.Delete(t.Context(), dv) })
	change("let it go", func(dv *cdiv1.DataVolume) error {
		dv.Finalizers = nil
		return p.Update(t.Context(), dv)
	})
	if err := p.Get(t.Context(), client.ObjectKey{Namespace: "tenant-a", Name: "blank"}, &cdiv1.DataVolume{}); !apierrors.IsNotFound(err) {
		t.Errorf("after all that, reading it answers %v", err)
	}
}
