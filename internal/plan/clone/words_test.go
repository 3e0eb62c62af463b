package clone

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden words anew")

// TestWords: each sentence that people are told, and the worked cases and variants in which they are, in one file to be read through.
func TestWords(t *testing.T) {
	const golden = "testdata/words.txt"
	toldIn := map[string][]string{}
	tell := func(name string, p Plan) {
		for _, sentence := range words(p) {
			toldIn[sentence] = append(toldIn[sentence], strings.ReplaceAll(name, "_", " "))
		}
	}
	everyCase(t, func(t *testing.T, objects []map[string]any, e example) {
		_, name, _ := strings.Cut(t.Name(), "/")
		tell(name, e.plan(t, objects))
	})
	for name, c := range dataVolumeCases() {
		tell("DataVolume: "+name, c.plan(t))
	}
	var got strings.Builder
	for _, sentence := range slices.Sorted(maps.Keys(toldIn)) {
		fmt.Fprintf(&got, "%s\n    %s\n", sentence, some(toldIn[sentence]))
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("(-want +got); if the new words are better, run with -update:\n%s", diff)
	}
}

// some are the first names of many, and how many there are.
func some(names []string) string {
	const first = 3
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) <= first {
		return strings.Join(names, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(names[:first], "; "), len(names)-first)
}

// words are a plan's sentences, each with what it is for.
func words(p Plan) []string {
	all := []string{fmt.Sprintf("plan: %s (%s): %s", p.Strategy, p.Reason, p.Message)}
	for _, over := range p.Trace {
		all = append(all, fmt.Sprintf("passed over: %s (%s): %s", over.Strategy, over.Reason, over.Message))
	}
	if f := p.Finding; f != nil {
		all = append(all, "refused by vmdisk: "+f.Message(Policy{Engine: EngineVMDisk}), "refused on CDI: "+f.Message(Policy{Engine: EngineCDI}), "warned: "+f.Warning(p))
	}
	for _, fact := range p.Facts {
		all = append(all, fact.Name+": "+fact.Text)
	}
	for _, r := range p.Remedies {
		all = append(all, "change: "+r)
	}
	return all
}

// TestClassesFromAnywhere: the classes that are recommended are of LINSTOR, in order, go over the network, and allow access from everywhere.
func TestClassesFromAnywhere(t *testing.T) {
	class := func(name, provisioner, parameters string) string {
		return "---\nkind: StorageClass\nmetadata: {name: " + name + "}\nprovisioner: " + provisioner + "\nparameters: {" + parameters + "}\n"
	}
	const l = "linstor.csi.linbit.com"
	text := class("b", l, "") + class("a", l, "layerList: drbd luks storage") + class("other-driver", "example.com/csi", "") +
		class("invalid", l, "colour: red") + class("conflict", l, "layerList: drbd, LayerList: nvme storage, layerlist: storage, allowRemoteVolumeAccess: 'true'") +
		class("local-layers", l, "layerList: storage, allowRemoteVolumeAccess: 'true'") + class("no-access", l, "allowRemoteVolumeAccess: 'false'")
	if diff := cmp.Diff([]string{"a", "b"}, clusterOf(t, parse(t, text)).classesFromAnywhere()); diff != "" {
		t.Error(diff)
	}
}
