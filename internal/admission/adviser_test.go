package admission

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
)

// broken is a cache that can't be read.
type broken struct{ client.Reader }

func (broken) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("not started")
}

func (broken) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("not started")
}

func request(text string) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "tenant-a", Object: runtime.RawExtension{Raw: []byte(text)}}}
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cdi.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestADiskIsLetInWithAdviceAboutWhatIsRead(t *testing.T) {
	s := scheme(t)
	profile := &cdiv1.StorageProfile{ObjectMeta: metav1.ObjectMeta{Name: "cloud", Annotations: map[string]string{cdi.MinimumClaimSize: "1060Mi"}}}
	profile.Status.ClaimPropertySets = []cdiv1.ClaimPropertySet{{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: new(corev1.PersistentVolumeFilesystem)}}
	overhead := &cdiv1.CDIConfig{ObjectMeta: metav1.ObjectMeta{Name: cdi.ConfigName}} // with the default, 6%, 1Gi would need more than the smallest claim
	overhead.Spec.FilesystemOverhead = &cdiv1.FilesystemOverhead{Global: "0.01"}
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "cloud"}, Provisioner: "topolvm.io"}, profile, overhead,
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "claimed"}},
		&cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "made"}},
		&cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-b", Name: "web"}},
	).Build()
	a := &adviser{reader: c, decoder: admission.NewDecoder(s), defaultClass: "cloud"}
	for name, want := range map[string][]string{
		"claimed": {"PersistentVolumeClaim claimed exists already"},
		"made":    {"DataVolume made exists already"},
		"web":     {"a volume of StorageClass cloud can be used on one node only", "StorageClass cloud makes no volume smaller than 1060Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := a.Handle(t.Context(), request(`{"apiVersion":"vmdisk.io/v1alpha1","kind":"VMDisk","metadata":{"name":"`+name+`"},"spec":{"storage":"1Gi"}}`))
			if !answer.Allowed || !slices.EqualFunc(answer.Warnings, want, strings.HasPrefix) {
				t.Errorf("the answer is %+v, want it to be allowed, with warnings that begin %q", answer, want)
			}
		})
	}
}

func TestADiskIsLetInWhereNoAdviceCanBeGiven(t *testing.T) {
	a := &adviser{reader: broken{}, decoder: admission.NewDecoder(scheme(t))}
	for name, text := range map[string]string{
		"nothing can be read":  `{"apiVersion":"vmdisk.io/v1alpha1","kind":"VMDisk","metadata":{"name":"web"},"spec":{"storageClass":"none"}}`,
		"it is not understood": `{`,
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(admission.Allowed(""), a.Handle(t.Context(), request(text))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
