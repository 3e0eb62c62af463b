package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/config"
	"vmdisk.io/vmdisk/internal/admission"
	"vmdisk.io/vmdisk/internal/plan/check"
)

// inspector reads what check judges, with whatever rights it is given.
type inspector struct {
	reader client.Reader
	seen   check.Seen
}

// inspect reads everything. What can't be read is noted; an error means that the cluster can't be reached.
func (i *inspector) inspect(ctx context.Context) error {
	if i.seen.Tenant != "" {
		namespace := &corev1.Namespace{}
		if err := i.reader.Get(ctx, client.ObjectKey{Name: i.seen.Tenant}, namespace); apierrors.IsNotFound(err) {
			return fmt.Errorf("there is no namespace %s: name another one with -n", i.seen.Tenant)
		}
	}
	for _, step := range []func(context.Context) error{i.kinds, i.deployments, i.storage, i.snapshots, i.webhooks, i.namespace} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// note takes note of a kind that can't be read. Where the cluster doesn't serve the kind, there are no objects of it.
func (i *inspector) note(kind check.Kind, err error) error {
	switch {
	case err == nil, meta.IsNoMatchError(err):
		return nil
	case apierrors.IsForbidden(err):
		i.seen.Unread[kind] = serversWords(err)
		return nil
	default:
		return fmt.Errorf("read %s: %w", kind, err)
	}
}

// kinds compares the cluster's CRDs with those of this release.
func (i *inspector) kinds(ctx context.Context) error {
	wanted, err := config.CRDs()
	if err != nil {
		return err
	}
	for _, want := range wanted {
		got := &unstructured.Unstructured{}
		got.SetGroupVersionKind(want.GroupVersionKind())
		err := i.reader.Get(ctx, client.ObjectKeyFromObject(want), got)
		if client.IgnoreNotFound(err) != nil {
			return i.note(check.Kinds, err)
		}
		i.seen.CRDs = append(i.seen.CRDs, crdOf(want, got))
	}
	return nil
}

// crdOf is what counts of a CRD. Got is empty where there is none.
func crdOf(want, got *unstructured.Unstructured) check.CRD {
	c := check.CRD{Name: want.GetName()}
	schemas := map[string]any{}
	for _, v := range versionsOf(got) {
		if v["served"] == true {
			name, _ := v["name"].(string) // the API server wants one
			c.Served = append(c.Served, name)
			schemas[name] = v["schema"]
		}
	}
	for _, v := range versionsOf(want) {
		c.Wanted, _ = v["name"].(string) // ours have one version each
		c.Differs = asJSON(v["schema"]) != asJSON(schemas[c.Wanted])
	}
	conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions") // none where there are none
	c.Established = slices.ContainsFunc(conditions, func(o any) bool {
		condition, ok := o.(map[string]any)
		return ok && condition["type"] == "Established" && condition["status"] == "True"
	})
	return c
}

// asJSON makes what was read from YAML and what came from a cluster alike: their numbers are of different types.
func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return string(text)
}

func versionsOf(crd *unstructured.Unstructured) []map[string]any {
	list, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions") // none where there are none
	var versions []map[string]any
	for _, o := range list {
		if v, ok := o.(map[string]any); ok {
			versions = append(versions, v)
		}
	}
	return versions
}

// deployments finds vmdisk's controller wherever it is, and CDI's parts by their names.
func (i *inspector) deployments(ctx context.Context) error {
	var ours appsv1.DeploymentList
	err := i.reader.List(ctx, &ours, client.MatchingLabels{"app.kubernetes.io/name": "vmdisk", "app.kubernetes.io/component": "controller"})
	if err != nil {
		return i.note(check.Deployments, err)
	}
	i.seen.Controllers = ours.Items
	for _, name := range []string{"cdi-operator", "cdi-deployment", "cdi-apiserver"} {
		var others appsv1.DeploymentList
		if err := i.reader.List(ctx, &others, client.MatchingFields{"metadata.name": name}); err != nil {
			return i.note(check.Deployments, err)
		}
		i.seen.Others = append(i.seen.Others, others.Items...)
	}
	return nil
}

// storage reads the classes, what is known of them, the configuration and the nodes.
func (i *inspector) storage(ctx context.Context) error {
	var (
		classes     storagev1.StorageClassList
		drivers     storagev1.CSIDriverList
		driverNodes storagev1.CSINodeList
		nodes       corev1.NodeList
		profiles    cdiv1.StorageProfileList
		cdis        cdiv1.CDIList
		configs     cdiv1.CDIConfigList
	)
	for _, of := range []struct {
		kind check.Kind
		list client.ObjectList
	}{
		{check.Classes, &classes}, {check.Drivers, &drivers}, {check.DriverNodes, &driverNodes}, {check.Nodes, &nodes},
		{check.Profiles, &profiles}, {check.CDIs, &cdis}, {check.Configs, &configs},
	} {
		if err := i.note(of.kind, i.reader.List(ctx, of.list)); err != nil {
			return err
		}
	}
	i.seen.Classes, i.seen.Drivers, i.seen.DriverNodes, i.seen.Nodes = classes.Items, drivers.Items, driverNodes.Items, nodes.Items
	i.seen.Profiles, i.seen.CDIs, i.seen.Configs = profiles.Items, cdis.Items, configs.Items
	return nil
}

func (i *inspector) snapshots(ctx context.Context) error {
	classes := &unstructured.UnstructuredList{}
	classes.SetGroupVersionKind(schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotClassList"})
	err := i.reader.List(ctx, classes)
	i.seen.NoSnapshots = meta.IsNoMatchError(err)
	for _, c := range classes.Items {
		driver, _ := c.Object["driver"].(string) // the API server wants one
		i.seen.SnapshotClasses = append(i.seen.SnapshotClasses, check.SnapshotClass{Name: c.GetName(), Driver: driver})
	}
	return i.note(check.SnapshotClasses, err)
}

// webhooks reads the configuration, who is behind its Service, and the certificate that is shown there.
func (i *inspector) webhooks(ctx context.Context) error {
	found := &admissionv1.ValidatingWebhookConfiguration{}
	err := i.reader.Get(ctx, client.ObjectKey{Name: admission.Configuration}, found)
	if err != nil {
		return i.note(check.Webhooks, client.IgnoreNotFound(err))
	}
	i.seen.Webhooks = found
	if len(i.seen.Controllers) == 0 {
		return nil
	}
	namespace := i.seen.Controllers[0].Namespace
	var slices discoveryv1.EndpointSliceList
	err = i.reader.List(ctx, &slices, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: admission.Service})
	if err := i.note(check.Endpoints, err); err != nil {
		return err
	}
	i.seen.Endpoints = slices.Items
	secret := &corev1.Secret{}
	err = i.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: admission.Secret}, secret)
	i.seen.Serving = secret.Data[corev1.TLSCertKey]
	return i.note(check.Certificate, client.IgnoreNotFound(err))
}

func (i *inspector) namespace(ctx context.Context) error {
	if i.seen.Tenant == "" {
		return nil
	}
	var quotas corev1.ResourceQuotaList
	var limits corev1.LimitRangeList
	if err := i.note(check.Quotas, i.reader.List(ctx, &quotas, client.InNamespace(i.seen.Tenant))); err != nil {
		return err
	}
	if err := i.note(check.Limits, i.reader.List(ctx, &limits, client.InNamespace(i.seen.Tenant))); err != nil {
		return err
	}
	i.seen.Quotas, i.seen.Limits = quotas.Items, limits.Items
	return nil
}
