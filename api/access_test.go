//go:build apiserver

package api_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// who is somebody as the API server knows them.
type who struct {
	user   string
	groups []string
}

func (s server) testAccess(t *testing.T) {
	controller := who{
		user:   "system:serviceaccount:vmdisk:vmdisk-controller",
		groups: []string{"system:serviceaccounts", "system:serviceaccounts:vmdisk", "system:authenticated"},
	}
	editor, viewer := who{"editor", []string{"system:authenticated"}}, who{"viewer", []string{"system:authenticated"}}
	stranger, nobody := who{"stranger", []string{"system:authenticated"}}, who{"system:anonymous", []string{"system:unauthenticated"}}
	administrator, sourcer := who{"administrator", []string{"system:authenticated"}}, who{"sourcer", []string{"system:authenticated"}}
	s.bind(t, administrator, "cdi.kubevirt.io:admin", "vmdisk.io:admin")
	s.bind(t, sourcer, "cdi.kubevirt.io:clone-sourcer")
	s.bind(t, editor, "cdi.kubevirt.io:edit", "vmdisk.io:edit")
	s.bind(t, viewer, "cdi.kubevirt.io:view", "vmdisk.io:view")

	in := func(namespace, verb, group, resource string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource}
	}
	of := func(a authorizationv1.ResourceAttributes, subresource string) authorizationv1.ResourceAttributes {
		a.Subresource = subresource
		return a
	}
	named := func(a authorizationv1.ResourceAttributes, name string) authorizationv1.ResourceAttributes {
		a.Name = name
		return a
	}
	tests := map[string]struct {
		who  who
		does authorizationv1.ResourceAttributes
		want bool
	}{
		"the controller watches VMDisks":                                {controller, in("", "watch", "vmdisk.io", "vmdisks"), true},
		"the controller writes a VMDisk's status":                       {controller, of(in("t", "patch", "vmdisk.io", "vmdisks"), "status"), true},
		"the controller leaves a VMDisk's spec alone":                   {controller, in("t", "patch", "vmdisk.io", "vmdisks"), false},
		"the controller makes a DataVolume":                             {controller, in("t", "create", "cdi.kubevirt.io", "datavolumes"), true},
		"the controller notes an attempt on a DataVolume":               {controller, in("t", "patch", "cdi.kubevirt.io", "datavolumes"), true},
		"the controller writes a DataVolume's status":                   {controller, of(in("t", "patch", "cdi.kubevirt.io", "datavolumes"), "status"), true},
		"the controller makes a claim":                                  {controller, in("t", "create", "", "persistentvolumeclaims"), true},
		"the controller marks a claim":                                  {controller, in("t", "patch", "", "persistentvolumeclaims"), true},
		"the controller deletes a claim that a driver could not clone":  {controller, in("t", "delete", "", "persistentvolumeclaims"), true},
		"the controller deletes what it made beside an image":           {controller, in("t", "delete", "cdi.kubevirt.io", "datavolumes"), true},
		"the controller hands a volume over":                            {controller, in("", "patch", "", "persistentvolumes"), true},
		"the controller makes no volume":                                {controller, in("", "create", "", "persistentvolumes"), false},
		"the controller deletes no volume":                              {controller, in("", "delete", "", "persistentvolumes"), false},
		"the controller makes a snapshot for a clone":                   {controller, in("t", "create", "snapshot.storage.k8s.io", "volumesnapshots"), true},
		"the controller changes no snapshot":                            {controller, in("t", "patch", "snapshot.storage.k8s.io", "volumesnapshots"), false},
		"the controller makes a worker":                                 {controller, in("t", "create", "", "pods"), true},
		"the controller deletes a worker":                               {controller, in("t", "delete", "", "pods"), true},
		"the controller reads a worker's log":                           {controller, of(in("t", "get", "", "pods"), "log"), true},
		"the controller runs nothing in a pod":                          {controller, of(in("t", "create", "", "pods"), "exec"), false},
		"the controller watches quotas":                                 {controller, in("", "watch", "", "resourcequotas"), true},
		"the controller watches limits":                                 {controller, in("", "watch", "", "limitranges"), true},
		"the controller watches events":                                 {controller, in("", "watch", "", "events"), true},
		"the controller publishes events":                               {controller, in("t", "create", "events.k8s.io", "events"), true},
		"the controller watches classes":                                {controller, in("", "watch", "storage.k8s.io", "storageclasses"), true},
		"the controller watches the classes of snapshots":               {controller, in("", "watch", "snapshot.storage.k8s.io", "volumesnapshotclasses"), true},
		"the controller makes a StorageProfile":                         {controller, in("", "create", "cdi.kubevirt.io", "storageprofiles"), true},
		"the controller keeps the CDIConfig":                            {controller, in("", "patch", "cdi.kubevirt.io", "cdiconfigs"), true},
		"the controller reads the CDI object":                           {controller, in("", "get", "cdi.kubevirt.io", "cdis"), true},
		"the controller does not write the CDI object":                  {controller, in("", "patch", "cdi.kubevirt.io", "cdis"), false},
		"the controller holds the lease":                                {controller, in("vmdisk", "update", "coordination.k8s.io", "leases"), true},
		"the controller holds no lease elsewhere":                       {controller, in("kube-system", "update", "coordination.k8s.io", "leases"), false},
		"the controller reads no Secret of a tenant":                    {controller, in("t", "get", "", "secrets"), false},
		"the controller lists no Secrets":                               {controller, in("", "list", "", "secrets"), false},
		"the controller reads no Secret of its own namespace":           {controller, in("vmdisk", "get", "", "secrets"), false},
		"the controller reads its certificate":                          {controller, named(in("vmdisk", "get", "", "secrets"), "vmdisk-webhooks"), true},
		"the controller renews its certificate":                         {controller, named(in("vmdisk", "update", "", "secrets"), "vmdisk-webhooks"), true},
		"the controller makes its certificate":                          {controller, in("vmdisk", "create", "", "secrets"), true},
		"the controller makes no Secret of a tenant":                    {controller, in("t", "create", "", "secrets"), false},
		"the controller keeps the trust in its certificate":             {controller, named(in("", "patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations"), "vmdisk"), true},
		"the controller changes no other webhooks":                      {controller, named(in("", "patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations"), "other"), false},
		"the controller sees where an image is":                         {controller, in("", "watch", "", "persistentvolumes"), true},
		"the controller changes no node":                                {controller, in("", "patch", "", "nodes"), false},
		"the controller reads no ConfigMap of a tenant":                 {controller, in("t", "get", "", "configmaps"), false},
		"the controller makes no token":                                 {controller, of(in("t", "create", "", "serviceaccounts"), "token"), false},
		"any user reads the CDIConfig":                                  {stranger, in("", "get", "cdi.kubevirt.io", "cdiconfigs"), true},
		"any user watches StorageProfiles":                              {stranger, in("", "watch", "cdi.kubevirt.io", "storageprofiles"), true},
		"any user's rights end there":                                   {stranger, in("", "patch", "cdi.kubevirt.io", "cdiconfigs"), false},
		"no user reads the CDI object by default":                       {stranger, in("", "list", "cdi.kubevirt.io", "cdis"), false},
		"who is nobody reads nothing":                                   {nobody, in("", "get", "cdi.kubevirt.io", "cdiconfigs"), false},
		"an editor makes a VMDisk in their namespace":                   {editor, in("default", "create", "vmdisk.io", "vmdisks"), true},
		"an editor makes a DataVolume in their namespace":               {editor, in("default", "create", "cdi.kubevirt.io", "datavolumes"), true},
		"an editor may let their disks be cloned":                       {editor, of(in("default", "create", "cdi.kubevirt.io", "datavolumes"), "source"), true},
		"an editor makes no VMDisk elsewhere":                           {editor, in("other", "create", "vmdisk.io", "vmdisks"), false},
		"an editor does not write a VMDisk's status":                    {editor, of(in("default", "patch", "vmdisk.io", "vmdisks"), "status"), false},
		"an editor takes a token for an upload":                         {editor, in("default", "create", "upload.cdi.kubevirt.io", "uploadtokenrequests"), true},
		"an editor makes what a claim is filled from":                   {editor, in("default", "create", "cdi.kubevirt.io", "volumeimportsources"), true},
		"an editor keeps images up to date":                             {editor, in("default", "patch", "cdi.kubevirt.io", "dataimportcrons"), true},
		"an editor does not change how disks are made here":             {editor, in("", "patch", "cdi.kubevirt.io", "storageprofiles"), false},
		"an administrator of a namespace makes a VMDisk there":          {administrator, in("default", "create", "vmdisk.io", "vmdisks"), true},
		"an administrator of a namespace deletes its VMDisks":           {administrator, in("default", "deletecollection", "vmdisk.io", "vmdisks"), true},
		"an administrator of a namespace deletes a DataVolume":          {administrator, in("default", "delete", "cdi.kubevirt.io", "datavolumes"), true},
		"an administrator of a namespace may let its disks be cloned":   {administrator, of(in("default", "create", "cdi.kubevirt.io", "datavolumes"), "source"), true},
		"an administrator of a namespace makes no DataVolume elsewhere": {administrator, in("other", "create", "cdi.kubevirt.io", "datavolumes"), false},
		"an administrator of a namespace does not write the CDI object": {administrator, in("", "patch", "cdi.kubevirt.io", "cdis"), false},
		"who was given a namespace's images clones them":                {sourcer, of(in("default", "create", "cdi.kubevirt.io", "datavolumes"), "source"), true},
		"who was given a namespace's images clones none elsewhere":      {sourcer, of(in("other", "create", "cdi.kubevirt.io", "datavolumes"), "source"), false},
		"who was given a namespace's images makes none there":           {sourcer, in("default", "create", "cdi.kubevirt.io", "datavolumes"), false},
		"who was given a namespace's images does not list them":         {sourcer, in("default", "list", "cdi.kubevirt.io", "datavolumes"), false},
		"a viewer sees DataSources":                                     {viewer, in("default", "list", "cdi.kubevirt.io", "datasources"), true},
		"a viewer takes no token for an upload":                         {viewer, in("default", "create", "upload.cdi.kubevirt.io", "uploadtokenrequests"), false},
		"a viewer sees VMDisks":                                         {viewer, in("default", "list", "vmdisk.io", "vmdisks"), true},
		"a viewer sees DataVolumes":                                     {viewer, in("default", "list", "cdi.kubevirt.io", "datavolumes"), true},
		"a viewer makes no VMDisk":                                      {viewer, in("default", "create", "vmdisk.io", "vmdisks"), false},
		"a viewer makes no DataVolume":                                  {viewer, in("default", "create", "cdi.kubevirt.io", "datavolumes"), false},
		"a viewer can't clone: it would show the disk's content":        {viewer, of(in("default", "create", "cdi.kubevirt.io", "datavolumes"), "source"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: test.who.user, Groups: test.who.groups, ResourceAttributes: &test.does,
			}}
			if err := s.Create(t.Context(), review); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, review.Status.Allowed); diff != "" {
				t.Errorf("allowed (-want +got):\n%s%s", diff, review.Status.Reason)
			}
		})
	}
}

// testAggregation asks which of vmdisk's roles Kubernetes takes into its own. A controller that this API server lacks copies their rules.
func (s server) testAggregation(t *testing.T) {
	for name, want := range map[string][]string{
		"admin": {"cdi.kubevirt.io:admin", "vmdisk.io:admin"},
		"edit":  {"cdi.kubevirt.io:edit", "vmdisk.io:edit"},
		"view":  {"cdi.kubevirt.io:view", "vmdisk.io:view"},
	} {
		t.Run(name, func(t *testing.T) {
			role := &rbacv1.ClusterRole{}
			if err := s.Get(t.Context(), client.ObjectKey{Name: name}, role); err != nil {
				t.Fatal(err)
			}
			if role.AggregationRule == nil {
				t.Fatal("it takes in no other roles")
			}
			var got []string
			for _, chosen := range role.AggregationRule.ClusterRoleSelectors {
				var all rbacv1.ClusterRoleList
				chosen.MatchLabels["app.kubernetes.io/name"] = "vmdisk"
				if err := s.List(t.Context(), &all, client.MatchingLabels(chosen.MatchLabels)); err != nil {
					t.Fatal(err)
				}
				for _, r := range all.Items {
					got = append(got, r.Name)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("roles (-want +got):\n%s", diff)
			}
		})
	}
}

// bind gives somebody roles in the namespace default.
func (s server) bind(t *testing.T, to who, roles ...string) {
	t.Helper()
	for _, role := range roles {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: to.user + ":" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: to.user}},
		}
		if err := s.Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
}
