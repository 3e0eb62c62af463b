//go:build apiserver

// Package api_test asks a real API server what only it decides about vmdisk's kinds: which objects it takes, what it
// fills in, what it shows, and who may do what.
package api_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/lab/apiserver"
)

// server is the API server that the tests of this package share.
type server struct {
	access *rest.Config
	client.Client
}

func TestAgainstARealAPIServer(t *testing.T) {
	access := apiserver.Start(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cdi.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(access, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := server{access: access, Client: c}
	t.Run("which VMDisks are accepted", s.testNewDisks)
	t.Run("which changes of a VMDisk are accepted", s.testChangedDisks)
	t.Run("which changes of a StorageClass are accepted", s.testImmutableClasses)
	t.Run("which changes of a claim are accepted", s.testImmutableClaims)
	t.Run("what a VMDisk gets when it leaves things out", s.testDefaults)
	t.Run("what kubectl get shows of a VMDisk", s.testColumns)
	t.Run("which of CDI's kinds are served, and how", s.testKinds)
	t.Run("the DataVolume of the report is accepted whole", s.testReport)
	t.Run("there is one CDI object, and it is deployed", s.testDeployed)
	t.Run("who may do what", s.testAccess)
	t.Run("which roles become part of Kubernetes' own", s.testAggregation)
	t.Run("what a quota's refusal says", s.testQuota)
}

// object reads an object from YAML.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(text), &o.Object); err != nil {
		t.Fatalf("read %s: %v", text, err)
	}
	return o
}

// causes are the messages of the causes that the API server gives for a refusal; nil if there was none.
func causes(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		t.Fatalf("an error that is no refusal: %v", err)
	}
	var all []string
	for _, cause := range status.Status().Details.Causes {
		all = append(all, cause.Field+": "+cause.Message)
	}
	return all
}
