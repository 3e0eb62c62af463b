package linstor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// told is what the table asks of a value.
type told struct {
	Access  Access
	Page    bool
	Invalid bool
}

// TestAllowRemoteVolumeAccess has every value of the probe of linstor-csi, in a class without a layer that goes over the network.
func TestAllowRemoteVolumeAccess(t *testing.T) {
	const zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
	anywhere := told{Access: Access{Anywhere: true}, Page: true}
	rules := func(rules ...[]string) told { return told{Access: Access{Rules: rules}} }
	local := rules([]string{Hostname})
	broken := told{Invalid: true}
	none := told{Access: Access{Rules: [][]string{}}}
	for name, c := range map[string]struct {
		values []string
		want   told
	}{
		"every true of ParseBool is from anywhere":           {[]string{"1", "t", "T", "true", "TRUE", "True"}, anywhere},
		"every false of ParseBool is local":                  {[]string{"0", "f", "F", "false", "FALSE", "False"}, local},
		"a true in mixed case is YAML's string":              {[]string{"tRUE", "TrUe"}, broken},
		"YAML 1.1's bools are strings":                       {[]string{"yes", "on", "no", "Y"}, broken},
		"a number is no list":                                {[]string{"2"}, broken},
		"a true with blanks or a newline is YAML's bool":     {[]string{" true", "true ", "true\n"}, broken},
		"a quoted true is a string":                          {[]string{`"true"`}, broken},
		"nothing, blanks or a comment say nothing":           {[]string{"", "  ", "# x"}, local},
		"null says nothing":                                  {[]string{"null", "~"}, local},
		"an empty list has no rule":                          {[]string{"[]"}, none},
		"a mapping is no list":                               {[]string{"{}", "fromSame: [" + zone + "]"}, broken},
		"a rule without labels is from anywhere":             {[]string{"- {}", "[{}]"}, anywhere},
		"a null rule is dropped":                             {[]string{"-", "- null", "[null]"}, none},
		"a rule with no labels is from anywhere":             {[]string{"- fromSame: []", "- fromSame:", "- fromSame: ~"}, anywhere},
		"a null label is dropped":                            {[]string{"- fromSame: [null]"}, anywhere},
		"a rule with a label":                                {[]string{"- fromSame: [" + zone + "]"}, rules([]string{zone})},
		"a scalar is no list of labels":                      {[]string{"- fromSame: " + zone}, broken},
		"a field in another case is unknown, and so ignored": {[]string{"- fromsame: [" + zone + "]", "- FromSame: [" + zone + "]"}, anywhere},
		"one rule of two without labels is enough":           {[]string{"- fromSame: [" + zone + "]\n- {}"}, anywhere},
		"two rules with labels":                              {[]string{"- fromSame: [" + zone + "]\n- fromSame: [" + region + "]"}, rules([]string{zone}, []string{region})},
		"a rule beside a null one":                           {[]string{"- fromSame: [" + zone + "]\n-"}, rules([]string{zone})},
		"JSON is YAML":                                       {[]string{`[{"fromSame":["` + zone + `"]}]`}, rules([]string{zone})},
		"a string is no rule":                                {[]string{"- " + zone}, broken},
		"the empty label is a label":                         {[]string{`- fromSame: [""]`}, rules([]string{""})},
		"a label that no node has is a label":                {[]string{"- fromSame: [nonexistent]"}, rules([]string{"nonexistent"})},
		"the label of a node's own volumes":                  {[]string{"- fromSame: [linbit.com/hostname]"}, local},
		"a field that is there twice":                        {[]string{"- fromSame: [" + zone + "]\n  fromSame: [" + region + "]"}, broken},
		"only the first document counts":                     {[]string{"- {}\n---\n- fromSame: [" + zone + "]"}, anywhere},
	} {
		t.Run(name, func(t *testing.T) {
			for _, value := range c.values {
				p := Parse(map[string]string{Driver + "/layerList": "storage", Driver + "/allowRemoteVolumeAccess": value})
				got := told{p.Access, p.FromAnywhere, p.Invalid != ""}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%q (-want +got):\n%s", value, diff)
				}
			}
		})
	}
}

func TestLayerLists(t *testing.T) {
	remote, local := Access{Anywhere: true}, Access{Rules: [][]string{{Hostname}}}
	for name, c := range map[string]struct {
		values            []string
		networked, broken bool
	}{
		"a layer that goes over the network": {[]string{"drbd storage", "DRBD STORAGE", "DRBD", "storage drbd", "drbd luks storage", "nvme storage", "NVME storage"}, true, false},
		"layers of one node":                 {[]string{"storage", "Storage", "luks storage", "cache storage", "writecache storage"}, false, false},
		"no valid layer":                     {[]string{"", "drbd,storage", "drbd\tstorage", "bcache storage", "exos storage", "openflex"}, false, true},
		"an empty layer beside DRBD":         {[]string{"drbd  storage", " drbd storage", "drbd storage "}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, value := range c.values {
				p := Parse(map[string]string{"layerList": value})
				want := Parameters{Access: local, Networked: c.networked, FromAnywhere: c.networked}
				if c.networked {
					want.Access = remote
				}
				if (p.Invalid != "") != c.broken {
					t.Errorf("%q: it is invalid because %q, want %v", value, p.Invalid, c.broken)
				}
				p.Invalid = ""
				if diff := cmp.Diff(want, p); diff != "" {
					t.Errorf("%q (-want +got):\n%s", value, diff)
				}
			}
		})
	}
}

func TestKeys(t *testing.T) {
	anywhere := Parameters{Access: Access{Anywhere: true}, Networked: true, FromAnywhere: true}
	local := Parameters{Access: Access{Rules: [][]string{{Hostname}}}, Networked: true}
	for name, c := range map[string]struct {
		parameters map[string]string
		want       Parameters
	}{
		"no parameters are DRBD, from anywhere":      {nil, anywhere},
		"a key without a prefix, in any case":        {map[string]string{"ALLOWremoteVOLUMEaccess": "false"}, local},
		"a key with an empty prefix":                 {map[string]string{"/allowRemoteVolumeAccess": "false"}, local},
		"another's prefix is not read":               {map[string]string{"example.com/allowRemoteVolumeAccess": "false"}, anywhere},
		"nor are layers with one":                    {map[string]string{"example.com/layerList": "storage"}, anywhere},
		"nor is the driver's in another case":        {map[string]string{"LINSTOR.csi.linbit.com/allowRemoteVolumeAccess": "false"}, anywhere},
		"nor what Kubernetes itself reads":           {map[string]string{"csi.storage.k8s.io/fstype": "xfs"}, anywhere},
		"properties are LINSTOR's":                   {map[string]string{"property.linstor.csi.linbit.com/x/y": "z", "DrbdOptions/Net/protocol": "C"}, anywhere},
		"every known key":                            {map[string]string{"storagePool": "a b", "autoPlace": "", "placementCount": "3", "placementPolicy": "balanced", "encryption": "F", "nodeList": "a", "relocateAfterClone": "true", "nfsResources": "x", "qos.linbit.com/rbps": " 40Mi", "qos.linbit.com/device": "?", "qos.linbit.com/wbps": ""}, anywhere},
		"two spellings that agree are no conflict":   {map[string]string{"allowRemoteVolumeAccess": "0", Driver + "/allowRemoteVolumeAccess": "false"}, local},
		"two empty spellings are no conflict either": {map[string]string{"allowRemoteVolumeAccess": "", Driver + "/allowRemoteVolumeAccess": "~"}, anywhere},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Parse(c.parameters)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpellingsThatDisagree(t *testing.T) {
	for name, c := range map[string]struct {
		parameters map[string]string
		want       string
	}{
		"about access": {map[string]string{"allowRemoteVolumeAccess": "false", Driver + "/allowRemoteVolumeAccess": "true"}, `allowRemoteVolumeAccess: "false", linstor.csi.linbit.com/allowRemoteVolumeAccess: "true"`},
		"about layers": {map[string]string{"layerlist": "storage", "layerList": "drbd storage"}, `layerList: "drbd storage", layerlist: "storage"`},
		"about layers, where access is given": {map[string]string{"layerlist": "storage", "layerList": "drbd storage", "allowRemoteVolumeAccess": "false"},
			`allowRemoteVolumeAccess: "false", layerList: "drbd storage", layerlist: "storage"`},
		"about layers, the default first": {map[string]string{"LayerList": "DRBD STORAGE", "layerList": "STORAGE"}, `LayerList: "DRBD STORAGE", layerList: "STORAGE"`},
		"about access, nothing first": {map[string]string{"AllowRemoteVolumeAccess": "", "LAYERLIST": "STORAGE", "allowRemoteVolumeAccess": "true"},
			`AllowRemoteVolumeAccess: "", LAYERLIST: "STORAGE", allowRemoteVolumeAccess: "true"`},
		"about access, nowhere and anywhere": {map[string]string{"allowRemoteVolumeAccess": "[]", "/allowRemoteVolumeAccess": "true"}, `/allowRemoteVolumeAccess: "true", allowRemoteVolumeAccess: "[]"`},
		"beside others, which aren't named": {map[string]string{"layerlist": "storage", "layerList": "drbd storage", "example.com/layerList": "luks", "storagePool": "p"},
			`layerList: "drbd storage", layerlist: "storage"`},
		"about rules": {map[string]string{"allowRemoteVolumeAccess": "- fromSame: [a]", "/allowRemoteVolumeAccess": "- fromSame: [b]"}, `/allowRemoteVolumeAccess: "- fromSame: [b]", allowRemoteVolumeAccess: "- fromSame: [a]"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := Parse(c.parameters)
			if p.Conflict != c.want || p.FromAnywhere || p.Invalid != "" {
				t.Errorf("got %+v, want the conflict %s, and no access from anywhere", p, c.want)
			}
		})
	}
}

func TestWhatSpoilsAClass(t *testing.T) {
	for name, c := range map[string]struct{ key, value, want string }{
		"a key that linstor-csi doesn't know": {"fstype", "xfs", "fstype is not a parameter of linstor-csi, and one that it does not know spoils the class"},
		"the same with its prefix":            {Driver + "/x/y", "", "linstor.csi.linbit.com/x/y is not a parameter of linstor-csi, and one that it does not know spoils the class"},
		"a count that is none":                {"autoPlace", "three", `autoPlace is "three": it must be a whole number`},
		"a count that is too large":           {"placementCount", "2147483648", `placementCount is "2147483648": it must be a whole number`},
		"a bool that is none":                 {"encryption", "yes", `encryption is "yes": it must be true or false`},
		"a policy that there isn't":           {"placementPolicy", "Unknown", `placementPolicy is "Unknown": it must be one of AutoPlaceTopology, AutoPlace, Balanced, FollowTopology, Manual`},
		"a limit that is no quantity":         {"qos.linbit.com/rbps", "much", `qos.linbit.com/rbps is "much": it must be a quantity such as 40Mi`},
		"a limit below zero":                  {"qos.linbit.com/wiops", "-1", `qos.linbit.com/wiops is "-1": it must be a quantity such as 40Mi`},
		"a layer that there isn't":            {"layerList", "drbd  storage", `layerList is "drbd  storage": it has the layer "": layers are DRBD, STORAGE, LUKS, NVME, CACHE, WRITECACHE, with one blank between them`},
		"access that is none":                 {"allowRemoteVolumeAccess", "yes", `allowRemoteVolumeAccess is "yes": it must be true, false, or a list of rules such as '- fromSame: [topology.kubernetes.io/zone]'`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Parse(map[string]string{c.key: c.value}).Invalid; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// FuzzParse: whatever the parameters are, the answer doesn't contradict itself, and doesn't depend on which of two spellings has which value.
func FuzzParse(f *testing.F) {
	for _, v := range []string{"true", "- fromSame: [zone]", "[{}]", "- {}\n---\n", "{a: &a [*a]}", "!!binary x", "? [a]\n: b"} {
		f.Add("allowRemoteVolumeAccess", v, "LayerList", "drbd storage")
		f.Add(Driver+"/layerList", v, "allowRemoteVolumeAccess", v)
		f.Add("LayerList", "DRBD STORAGE", "layerList", v)
		f.Add("AllowRemoteVolumeAccess", "", "allowRemoteVolumeAccess", v)
	}
	f.Fuzz(func(t *testing.T, key, value, otherKey, other string) {
		parameters := map[string]string{key: value, otherKey: other}
		p := Parse(parameters)
		name, ours := nameOf(key)
		if otherName, otherOurs := nameOf(otherKey); key != otherKey && name == otherName && ours && otherOurs {
			swapped := Parse(map[string]string{key: other, otherKey: value})
			if p.FromAnywhere != swapped.FromAnywhere || (p.Conflict == "") != (swapped.Conflict == "") || (p.Invalid == "") != (swapped.Invalid == "") {
				t.Errorf("%v is read as %+v, and with its values swapped as %+v", parameters, p, swapped)
			}
		}
		if p.Invalid == "" && p.Conflict == "" && p.FromAnywhere && !p.Access.Anywhere {
			t.Errorf("the page counts %v as access from anywhere, and linstor-csi does not: %+v", parameters, p)
		}
		if p.Access.Anywhere && len(p.Access.Rules) > 0 {
			t.Errorf("from anywhere, and by rules: %+v", p)
		}
		for _, r := range p.Access.Rules {
			if len(r) == 0 {
				t.Errorf("an empty rule: %+v", p)
			}
		}
		if strings.EqualFold(key, "layerList") && strings.EqualFold(parameters[key], "storage") && p.Conflict == "" && p.Networked {
			t.Errorf("storage alone goes over no network: %+v", p)
		}
	})
}
