package linstor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// policy reads allowRemoteVolumeAccess: a list of rules, each the labels that it names. Nil, unlike an empty list, is a value that says
// nothing. The text is a bool as strconv.ParseBool has it, untrimmed, or else YAML as yaml.v3 reads it: the first document only, unknown
// fields are ignored, and null elements of lists are dropped.
func policy(text string) ([][]string, error) {
	if anywhere, err := strconv.ParseBool(text); err == nil {
		if anywhere {
			return [][]string{{}}, nil
		}
		return [][]string{{Hostname}}, nil
	}
	var rules []struct {
		FromSame []string `yaml:"fromSame"`
	}
	if err := yaml.Unmarshal([]byte(text), &rules); err != nil {
		return nil, fmt.Errorf("it must be true, false, or a list of rules such as '- fromSame: [topology.kubernetes.io/zone]'")
	}
	if rules == nil {
		return nil, nil
	}
	labels := make([][]string, 0, len(rules))
	for _, r := range rules {
		labels = append(labels, r.FromSame)
	}
	return labels, nil
}

func accessBy(rules [][]string) Access {
	if slices.ContainsFunc(rules, func(labels []string) bool { return len(labels) == 0 }) {
		return Access{Anywhere: true}
	}
	return Access{Rules: rules}
}

// byLayers is the access of a class that doesn't say: from anywhere where a layer goes over the network, else from where the data is.
func byLayers(networked bool) Access {
	if networked {
		return Access{Anywhere: true}
	}
	return Access{Rules: [][]string{{Hostname}}}
}

// defaultLayers is the layer list of a class that has none.
const defaultLayers = "DRBD STORAGE"

// layers splits a layer list: at single blanks, so that two of them make an empty layer, which is as unknown as any other.
func layers(text string) []string { return strings.Split(text, " ") }

// networked says whether a layer list has a layer that goes over the network. Unknown layers say nothing.
func networked(text string) bool {
	return slices.ContainsFunc(layers(text), func(l string) bool { return strings.EqualFold(l, "DRBD") || strings.EqualFold(l, "NVME") })
}

func validLayers(text string) error {
	known := []string{"DRBD", "STORAGE", "LUKS", "NVME", "CACHE", "WRITECACHE"}
	for _, l := range layers(text) {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, l) }) {
			return fmt.Errorf("it has the layer %q: layers are %s, with one blank between them", l, strings.Join(known, ", "))
		}
	}
	return nil
}
