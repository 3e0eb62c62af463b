//go:build apiserver

package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"vmdisk.io/vmdisk/api/v1alpha1"
)

// disk is a VMDisk with a spec in YAML.
func disk(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	o := object(t, "apiVersion: vmdisk.io/v1alpha1\nkind: VMDisk\nmetadata: {namespace: default}\n")
	o.SetName(name)
	var content map[string]any
	if err := yaml.Unmarshal([]byte(spec), &content); err != nil {
		t.Fatalf("read %s: %v", spec, err)
	}
	o.Object["spec"] = content
	return o
}

const (
	sourceImmutable  = "spec: Invalid value: source is immutable: delete and recreate the disk to change it"
	classImmutable   = "spec: Invalid value: storageClass is immutable: delete and recreate the disk to change it"
	storageGrows     = "spec: Invalid value: storage may only grow: delete and recreate the disk to make it smaller"
	storageTooSmall  = "spec: Invalid value: storage must be at least 1Mi"
	storageMissing   = "spec: Invalid value: storage is missing: say how large the disk is to be, for example storage: 20Gi"
	twoSources       = "spec.source: Invalid value: a disk has one source: set only one of image, http, upload and disk"
	badChecksum      = "checksum must be md5:, sha1:, sha256: or sha512: followed by the sum in hexadecimal"
	badURL           = "url can't be read: check it for spaces, its port, and characters that must be escaped"
	sha256OfNothing  = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	sourceOfTheTests = "http: {url: 'https://images.example/debian.qcow2'}"
)

func (s server) testNewDisks(t *testing.T) {
	tests := map[string]struct {
		spec string
		want []string
	}{
		"a blank disk":                           {spec: `{storage: 1Gi}`},
		"workers on certain nodes":               {spec: `{storage: 1Gi, placement: {nodeSelector: {zone: a}, tolerations: [{key: storage, operator: Exists}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Exists}]}]}}}}}`},
		"a blank disk with an empty source":      {spec: `{storage: 1Gi, source: {}}`},
		"an image behind a URL":                  {spec: `{storage: 20Gi, source: {http: {url: "https://images.example/a.qcow2"}}}`},
		"a size in plain bytes":                  {spec: `{storage: 1048576}`},
		"all of a URL's settings":                {spec: `{storage: 20Gi, storageClass: fast, optical: true, source: {http: {url: "http://images.example/a", checksum: "` + sha256OfNothing + `", secretRef: s, certConfigMap: c, extraHeaders: ["A: b"], secretExtraHeaders: [h]}}}`},
		"a checksum with capital letters":        {spec: `{storage: 1Gi, source: {http: {url: "http://images.example/a", checksum: "md5:D41D8CD98F00B204E9800998ECF8427E"}}}`},
		"a golden image without a size":          {spec: `{source: {image: {name: debian}}}`},
		"another disk without a size":            {spec: `{source: {disk: {name: other}}}`},
		"an upload":                              {spec: `{storage: 1Gi, source: {upload: {}}}`},
		"a blank disk without a size":            {spec: `{}`, want: []string{storageMissing}},
		"an empty source without a size":         {spec: `{source: {}}`, want: []string{storageMissing}},
		"a URL without a size":                   {spec: `{source: {` + sourceOfTheTests + `}}`, want: []string{storageMissing}},
		"an upload without a size":               {spec: `{source: {upload: {}}}`, want: []string{storageMissing}},
		"one byte less than the least size":      {spec: `{storage: 1048575}`, want: []string{storageTooSmall}},
		"the same in other units":                {spec: `{storage: 1023Ki}`, want: []string{storageTooSmall}},
		"nothing":                                {spec: `{storage: "0"}`, want: []string{storageTooSmall}},
		"less than nothing":                      {spec: `{storage: -1Gi}`, want: []string{storageTooSmall}},
		"two sources":                            {spec: `{storage: 1Gi, source: {upload: {}, image: {name: debian}}}`, want: []string{twoSources}},
		"all sources":                            {spec: `{storage: 1Gi, source: {upload: {}, image: {name: a}, disk: {name: a}, ` + sourceOfTheTests + `}}`, want: []string{twoSources}},
		"a checksum that is too short":           {spec: `{storage: 1Gi, source: {http: {url: "http://images.example/a", checksum: "sha256:abcd"}}}`, want: []string{`spec.source.http.checksum: Invalid value: "sha256:abcd": ` + badChecksum}},
		"a checksum of an unknown kind":          {spec: `{storage: 1Gi, source: {http: {url: "http://images.example/a", checksum: "crc32:abcdef01"}}}`, want: []string{`spec.source.http.checksum: Invalid value: "crc32:abcdef01": ` + badChecksum}},
		"a checksum without its kind":            {spec: `{storage: 1Gi, source: {http: {url: "http://images.example/a", checksum: "d41d8cd98f00b204e9800998ecf8427e"}}}`, want: []string{`spec.source.http.checksum: Invalid value: "d41d8cd98f00b204e9800998ecf8427e": ` + badChecksum}},
		"a URL of another scheme":                {spec: `{storage: 1Gi, source: {http: {url: "ftp://images.example/a"}}}`, want: []string{`spec.source.http.url: Invalid value: "ftp://images.example/a": spec.source.http.url in body should match '^https?://[^/]'`}},
		"a file in place of a URL":               {spec: `{storage: 1Gi, source: {http: {url: "file:///etc/passwd"}}}`, want: []string{`spec.source.http.url: Invalid value: "file:///etc/passwd": spec.source.http.url in body should match '^https?://[^/]'`}},
		"a URL with a space in its host":         {spec: `{storage: 1Gi, source: {http: {url: "http://images example/a"}}}`, want: []string{`spec.source.http.url: Invalid value: "http://images example/a": ` + badURL}},
		"a URL with a port that is none":         {spec: `{storage: 1Gi, source: {http: {url: "http://images.example:http/a"}}}`, want: []string{`spec.source.http.url: Invalid value: "http://images.example:http/a": ` + badURL}},
		"a URL with a broken escape":             {spec: `{storage: 1Gi, source: {http: {url: "http://images.example/%zz"}}}`, want: []string{`spec.source.http.url: Invalid value: "http://images.example/%zz": ` + badURL}},
		"a URL with a port, a query and escapes": {spec: `{storage: 1Gi, source: {http: {url: "https://images.example:8443/a%20b?version=1&x=%2F"}}}`},
		"http without a URL": {spec: `{storage: 1Gi, source: {http: {}}}`, want: []string{"spec.source.http.url: Required value",
			"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"}},
		"an image without a name": {spec: `{source: {image: {name: ""}}}`, want: []string{"spec.source.image.name: Invalid value: \"\": spec.source.image.name in body should be at least 1 chars long"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := s.Create(t.Context(), disk(t, "new", test.spec), client.DryRunAll, client.FieldValidation("Strict"))
			if diff := cmp.Diff(test.want, causes(t, err)); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
		})
	}
}

func (s server) testChangedDisks(t *testing.T) {
	tests := map[string]struct {
		from, to string
		want     []string
	}{
		"growing":                               {from: `{storage: 1Gi}`, to: `{storage: 2Gi}`},
		"growing by one byte":                   {from: `{storage: 1Gi}`, to: `{storage: 1073741825}`},
		"the same size in other units":          {from: `{storage: 1Gi}`, to: `{storage: 1024Mi}`},
		"the same size in bytes":                {from: `{storage: 1Gi}`, to: `{storage: 1073741824}`},
		"from decimal to binary units":          {from: `{storage: 1G}`, to: `{storage: 1Gi}`},
		"from binary to decimal units":          {from: `{storage: 1Gi}`, to: `{storage: 1G}`, want: []string{storageGrows}},
		"a larger number of smaller units":      {from: `{storage: 20Gi}`, to: `{storage: 20000Mi}`, want: []string{storageGrows}},
		"a smaller number of larger units":      {from: `{storage: 2000Mi}`, to: `{storage: 2Gi}`},
		"shrinking by one byte":                 {from: `{storage: 1Gi}`, to: `{storage: 1073741823}`, want: []string{storageGrows}},
		"taking the size away":                  {from: `{storage: 1Gi}`, to: `{}`, want: []string{storageGrows, storageMissing}},
		"taking an image's size away":           {from: `{storage: 1Gi, source: {image: {name: a}}}`, to: `{source: {image: {name: a}}}`, want: []string{storageGrows}},
		"giving an image a size afterwards":     {from: `{source: {image: {name: a}}}`, to: `{storage: 1Gi, source: {image: {name: a}}}`, want: []string{storageGrows}},
		"another URL":                           {from: `{storage: 1Gi, source: {http: {url: "http://a/b"}}}`, to: `{storage: 1Gi, source: {http: {url: "http://a/c"}}}`, want: []string{sourceImmutable}},
		"a checksum afterwards":                 {from: `{storage: 1Gi, source: {http: {url: "http://a/b"}}}`, to: `{storage: 1Gi, source: {http: {url: "http://a/b", checksum: "` + sha256OfNothing + `"}}}`, want: []string{sourceImmutable}},
		"another kind of source":                {from: `{storage: 1Gi, source: {upload: {}}}`, to: `{storage: 1Gi, source: {` + sourceOfTheTests + `}}`, want: []string{sourceImmutable}},
		"a source for a blank disk":             {from: `{storage: 1Gi}`, to: `{storage: 1Gi, source: {` + sourceOfTheTests + `}}`, want: []string{sourceImmutable}},
		"a source for an empty source":          {from: `{storage: 1Gi, source: {}}`, to: `{storage: 1Gi, source: {` + sourceOfTheTests + `}}`, want: []string{sourceImmutable}},
		"an empty source for a blank disk":      {from: `{storage: 1Gi}`, to: `{storage: 1Gi, source: {}}`, want: []string{sourceImmutable}},
		"taking the source away":                {from: `{storage: 1Gi, source: {` + sourceOfTheTests + `}}`, to: `{storage: 1Gi}`, want: []string{sourceImmutable}},
		"emptying the source":                   {from: `{storage: 1Gi, source: {` + sourceOfTheTests + `}}`, to: `{storage: 1Gi, source: {}}`, want: []string{sourceImmutable}},
		"another class":                         {from: `{storage: 1Gi, storageClass: a}`, to: `{storage: 1Gi, storageClass: b}`, want: []string{classImmutable}},
		"a class afterwards":                    {from: `{storage: 1Gi}`, to: `{storage: 1Gi, storageClass: a}`, want: []string{classImmutable}},
		"taking the class away":                 {from: `{storage: 1Gi, storageClass: a}`, to: `{storage: 1Gi}`, want: []string{classImmutable}},
		"everything at once":                    {from: `{storage: 2Gi, storageClass: a}`, to: `{storage: 1Gi, storageClass: b, source: {upload: {}}}`, want: []string{sourceImmutable, classImmutable, storageGrows}},
		"growing and keeping the rest":          {from: `{storage: 1Gi, storageClass: a, source: {` + sourceOfTheTests + `}}`, to: `{storage: 3Gi, storageClass: a, source: {` + sourceOfTheTests + `}}`},
		"where its workers run, and back":       {from: `{storage: 1Gi, placement: {nodeSelector: {zone: a}}}`, to: `{storage: 1Gi}`},
		"how it is presented and when it binds": {from: `{storage: 1Gi}`, to: `{storage: 1Gi, optical: true, bindImmediately: false}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := disk(t, "changed", test.from)
			if err := s.Create(t.Context(), o); err != nil {
				t.Fatalf("the disk before the change is refused: %v", err)
			}
			defer s.remove(t, o)
			changed := disk(t, "changed", test.to)
			changed.SetResourceVersion(o.GetResourceVersion())
			err := s.Update(t.Context(), changed)
			if diff := cmp.Diff(test.want, causes(t, err)); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
		})
	}
}

func (s server) testDefaults(t *testing.T) {
	tests := map[string]struct {
		spec string
		want map[string]any
	}{
		"it binds immediately unless told otherwise": {
			spec: `{storage: 1Gi}`,
			want: map[string]any{"storage": "1Gi", "bindImmediately": true},
		},
		"told otherwise, it waits": {
			spec: `{storage: 1Gi, bindImmediately: false}`,
			want: map[string]any{"storage": "1Gi", "bindImmediately": false},
		},
		"nothing else is filled in": {
			spec: `{storage: 1Gi, source: {http: {url: "http://a/b"}}}`,
			want: map[string]any{"storage": "1Gi", "bindImmediately": true, "source": map[string]any{"http": map[string]any{"url": "http://a/b"}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := disk(t, "defaults", test.spec)
			if err := s.Create(t.Context(), o, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, o.Object["spec"]); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func (s server) testColumns(t *testing.T) {
	o := &v1alpha1.VMDisk{}
	if err := yaml.UnmarshalStrict([]byte(`{metadata: {namespace: default, name: shown}, spec: {storage: 20Gi}}`), o); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	defer s.remove(t, o)
	now := metav1.Now()
	o.Status = v1alpha1.VMDiskStatus{
		Phase: "ImportInProgress", Progress: "41.75%", Size: "20Gi", StorageClass: "replicated",
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Accepted", LastTransitionTime: now},
			{Type: v1alpha1.ConditionWorkloadsReady, Status: metav1.ConditionFalse, Reason: "DataVolumeNotReady", Message: "why", LastTransitionTime: now},
		},
	}
	if err := s.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	s.get(t, "/apis/vmdisk.io/v1alpha1/namespaces/default/vmdisks/shown", "application/json;as=Table;v=v1;g=meta.k8s.io", &table)
	type column struct {
		Name     string
		Priority int32
		Cell     any
	}
	var got []column
	for i, definition := range table.ColumnDefinitions {
		cell := table.Rows[0].Cells[i]
		if definition.Name == "Age" { // it depends on how long the test takes
			cell = "-"
		}
		got = append(got, column{definition.Name, definition.Priority, cell})
	}
	want := []column{
		{"Name", 0, "shown"}, {"Ready", 0, "True"}, {"Workloads", 0, "False"}, {"Phase", 0, "ImportInProgress"}, {"Progress", 0, "41.75%"},
		{"Size", 0, "20Gi"}, {"Class", 0, "replicated"}, {"Age", 0, "-"}, {"Why", 1, "why"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
}

// remove deletes an object that a test made.
func (s server) remove(t *testing.T, o client.Object) {
	t.Helper()
	if err := s.Delete(t.Context(), o); err != nil {
		t.Errorf("delete %s: %v", o.GetName(), err)
	}
}

// get reads a path of the API server in a form of its choice.
func (s server) get(t *testing.T, path, accept string, into any) {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(s.access)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(s.access.Host, "/")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	response, err := httpClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s: %s", path, response.Status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("read the answer to GET %s: %v", path, err)
	}
}
