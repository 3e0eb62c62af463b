//go:build apiserver

package cli

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"vmdisk.io/vmdisk/config"
	"vmdisk.io/vmdisk/internal/plan/clone"
	"vmdisk.io/vmdisk/lab/apiserver"
)

// served is a real API server with the kinds that a plan reads, and a kubeconfig for it.
type served struct {
	client.Client
	t          *testing.T
	kubeconfig string
}

func serve(t *testing.T) served {
	access, kubeconfig := apiserver.StartEmpty(t)
	c, err := client.New(access, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := served{c, t, kubeconfig}
	kinds, err := config.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	s.serve(kinds, func(group string) bool { return group != clone.SnapshotClass().Group })
	return s
}

// serve makes the server serve more kinds, and waits until it serves those of some groups that a plan reads.
func (s served) serve(kinds []*unstructured.Unstructured, awaited func(group string) bool) {
	s.t.Helper()
	for _, kind := range kinds {
		if err := s.Create(s.t.Context(), kind); err != nil {
			s.t.Fatal(err)
		}
	}
	s.eventually("the kinds are served", func() error {
		for _, kind := range clone.Kinds() {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
			if err := s.List(s.t.Context(), list); err != nil && awaited(kind.Group) {
				return err
			}
		}
		return nil
	})
}

// snapshotKinds are the kinds of the snapshot API, as far as a plan knows them.
func snapshotKinds(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for kind, scope := range map[string]apiextensions.ResourceScope{
		"VolumeSnapshotClass": apiextensions.ClusterScoped, "VolumeSnapshotContent": apiextensions.ClusterScoped, "VolumeSnapshot": apiextensions.NamespaceScoped,
	} {
		plural := strings.ToLower(kind) + map[bool]string{true: "es", false: "s"}[strings.HasSuffix(kind, "s")]
		text := `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: ` + plural + `.snapshot.storage.k8s.io,
			annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-csi/external-snapshotter/pull/814"}},
			spec: {group: snapshot.storage.k8s.io, scope: ` + string(scope) + `, names: {kind: ` + kind + `, plural: ` + plural + `},
			versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

func (s served) eventually(what string, is func() error) {
	s.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.t.Context(), 50*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		last = is()
		return last == nil, nil
	})
	if err != nil {
		s.t.Fatalf("%s: %v: %v", what, err, last)
	}
}

// create makes the objects of a case. The server gives them other UIDs than the case does, which its references follow.
func (s served) create(id string) {
	s.t.Helper()
	text, err := os.ReadFile(caseFile(id))
	if err != nil {
		s.t.Fatal(err)
	}
	rest := string(text)
	for rest != "" {
		document, after, _ := strings.Cut(rest, "\n---\n")
		rest = after
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			s.t.Fatal(err)
		}
		s.namespace(o.GetNamespace())
		uid, status := o.GetUID(), o.Object["status"]
		if err := s.Create(s.t.Context(), o); err != nil {
			s.t.Fatalf("create %s %s: %v", o.GetKind(), o.GetName(), err)
		}
		if uid != "" {
			rest = strings.ReplaceAll(rest, string(uid), string(o.GetUID()))
		}
		if status == nil {
			continue
		}
		o.Object["status"] = status
		if err := s.Status().Update(s.t.Context(), o); err != nil && !apierrors.IsNotFound(err) { // a kind without a subresource has it already
			s.t.Fatalf("update the status of %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

func (s served) namespace(name string) {
	s.t.Helper()
	if name == "" {
		return
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	o.SetName(name)
	if err := s.Create(s.t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
}

// clear deletes what a plan reads, and doesn't wait for controllers, of which there are none.
func (s served) clear() {
	s.t.Helper()
	for _, kind := range clone.Kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := s.List(s.t.Context(), list); err != nil && !meta.IsNoMatchError(err) {
			s.t.Fatal(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			released := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			if err := s.Patch(s.t.Context(), o, released); client.IgnoreNotFound(err) != nil {
				s.t.Fatal(err)
			}
			if err := s.Delete(s.t.Context(), o, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// compare has a case planned from its file, and from the cluster.
func (s served) compare(id string, ofFile ...string) {
	s.t.Helper()
	s.create(id)
	defer s.clear()
	for _, output := range []string{"json", "text"} {
		flags := []string{"vm-disk-d1", "-n", "tenant-a", "-o", output}
		want := runHere(s.t, nil, images(slices.Concat(flags, ofFile, []string{"-f", caseFile(id)})...)...)
		got := runHere(s.t, nil, images(slices.Concat(flags, []string{"--kubeconfig", s.kubeconfig})...)...)
		if diff := cmp.Diff(want, got); diff != "" || want.Code != exitDone {
			s.t.Errorf("%s (-file +cluster):\n%s", output, diff)
		}
	}
}

// TestAClusterIsPlannedLikeItsFile runs the command against a real API server with the objects of a case, and with -f. It prints the same.
func TestAClusterIsPlannedLikeItsFile(t *testing.T) {
	s := serve(t)
	t.Run("R2-17, without the snapshot API", func(t *testing.T) { served{s.Client, t, s.kubeconfig}.compare("R2-17", "--no-snapshot-api") })
	s.serve(snapshotKinds(t), func(string) bool { return true })
	for _, id := range []string{"R1-01", "S-07", "L1-01a", "X3-01", "I-06"} {
		t.Run(id, func(t *testing.T) { served{s.Client, t, s.kubeconfig}.compare(id) })
	}
	t.Run("who may read nothing is told whom to ask", func(t *testing.T) {
		file, err := clientcmd.LoadFromFile(s.kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		for _, user := range file.AuthInfos {
			user.Impersonate = "somebody"
		}
		path := t.TempDir() + "/kubeconfig"
		if err := clientcmd.WriteToFile(*file, path); err != nil {
			t.Fatal(err)
		}
		got := runHere(t, nil, "plan", "disk", "-n", "tenant-a", "--kubeconfig", path)
		const want = "vmdisk: list VMDisk objects, which a plan rests on: "
		const advice = ": if you may not, ask an administrator for a file with them, and use -f\n"
		if got.Code != exitFailed || !strings.HasPrefix(got.Stderr, want) || !strings.HasSuffix(got.Stderr, advice) {
			t.Errorf("got %+v, want %s…%s", got, want, advice)
		}
	})
}
