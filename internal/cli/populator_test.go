package cli

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"vmdisk.io/vmdisk/config"
	"vmdisk.io/vmdisk/internal/job"
)

// TestThePolicyDeniesWhatTheWorkersDo: the two bounds of a populator's workers are written in different places, and must not grow apart.
func TestThePolicyDeniesWhatTheWorkersDo(t *testing.T) {
	objects, err := config.Populator(config.DefaultImage)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "NetworkPolicy" })
	rules, _, err := unstructured.NestedSlice(objects[i].Object, "spec", "egress")
	if err != nil || len(rules) != 2 {
		t.Fatalf("the policy has %d egress rules, want one for names and one for images: %v", len(rules), err)
	}
	var denied []string
	for _, to := range rules[1].(map[string]any)["to"].([]any) {
		except, _, err := unstructured.NestedStringSlice(to.(map[string]any), "ipBlock", "except")
		if err != nil {
			t.Fatal(err)
		}
		denied = append(denied, except...)
	}
	if diff := cmp.Diff(job.Internal(), denied); diff != "" {
		t.Error(diff)
	}
}

func TestThePopulatorIsStartedAsItsManifestSays(t *testing.T) {
	cmd := newPopulatorCommand()
	objects, err := config.Populator(config.DefaultImage)
	if err != nil {
		t.Fatal(err)
	}
	containers, _, err := unstructured.NestedSlice(objects[len(objects)-1].Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("the last object is no Deployment of one container: %v", err)
	}
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err != nil || args[0] != cmd.Name() {
		t.Fatalf("its arguments are %v, %v", args, err)
	}
	if err := cmd.ParseFlags(args[1:]); err != nil {
		t.Error(err)
	}
}

func TestThePopulatorRefusesFlagsThatMakeNoSense(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a range that is none":        {[]string{"--allow-egress=10.1.2.3"}, `--deny-egress, --allow-egress: "10.1.2.3" is not a range of addresses such as 10.0.0.0/8`},
		"its own namespace for disks": {[]string{"--populator-namespace=vmdisk"}, `--populator-namespace is "vmdisk": disks need a namespace that holds nothing else`},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newPopulatorCommand()
			cmd.SetArgs(c.args)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			if err := cmd.ExecuteContext(t.Context()); err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
