// Package linstor reads a StorageClass's parameters the way linstor-csi does, as far as clones depend on them: whether the class is valid at
// all, from which nodes its volumes can be used, and whether they are replicated or reached over the network. It is pure, and knows nothing
// of nodes, claims or strategies. The facts are those of linstor-csi 1.12 (pkg/volume).
package linstor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Driver is the name of linstor-csi. There has been no other.
const Driver = "linstor.csi.linbit.com"

// Hostname is the label that a node-local volume is bound by: its value is the node's name in LINSTOR.
const Hostname = "linbit.com/hostname"

// Parameters is what a class's parameters say.
type Parameters struct {
	// Invalid says why linstor-csi makes no volume of this class; empty: it makes them.
	Invalid string
	// Conflict says which two spellings of one key disagree; empty: none. linstor-csi reads them in random order, and the last one wins.
	Conflict string
	// Access is from where a volume can be used. Of several readings it is the first by spelling: don't rely on it with a Conflict.
	Access Access
	// Networked: the layer list has DRBD or NVMe, so that one volume can have replicas on several nodes. Without them each node that holds
	// the data holds a copy of its own.
	Networked bool
	// FromAnywhere is the answer of the page "Virtual Machine Disk", by which disks are refused. It differs from Access where two
	// spellings disagree: the denying one counts.
	FromAnywhere bool
}

// Access is from where a volume can be used.
type Access struct {
	// Anywhere: from each node.
	Anywhere bool
	// Rules each name labels: the volume can be used from nodes whose values are those of a node that holds the data. A rule is never empty.
	Rules [][]string
}

// reading is what one spelling of each key makes of the parameters.
type reading struct {
	access    Access
	networked bool
}

// Parse reads a class's parameters.
func Parse(parameters map[string]string) Parameters {
	var p Parameters
	var access, layers []string // as they are spelled, each time
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		value := parameters[key]
		p.Invalid = cmp.Or(p.Invalid, invalid(key, value))
		switch name, ours := nameOf(key); {
		case ours && name == "allowremotevolumeaccess":
			access = append(access, value)
		case ours && name == "layerlist":
			layers = append(layers, value)
		}
	}
	readings := combine(orDefault(access, ""), orDefault(layers, defaultLayers))
	p.Access, p.Networked, p.FromAnywhere = readings[0].access, readings[0].networked, true
	for _, r := range readings {
		p.FromAnywhere = p.FromAnywhere && r.access.Anywhere
		if !r.same(readings[0]) {
			p.Conflict = conflict(parameters)
		}
	}
	return p
}

// orDefault is the values of a parameter, or that of a class which hasn't it.
func orDefault(values []string, standard string) []string {
	if values == nil {
		return []string{standard}
	}
	return values
}

// combine reads each pair of spellings.
func combine(access, layers []string) []reading {
	var all []reading
	for _, l := range layers {
		networked := networked(l)
		for _, a := range access {
			rules, err := policy(a)
			r := reading{networked: networked}
			switch {
			case err != nil: // denied; the class is invalid anyway
			case rules == nil:
				r.access = byLayers(networked)
			default:
				r.access = accessBy(rules)
			}
			all = append(all, r)
		}
	}
	return all
}

func (r reading) same(o reading) bool {
	return r.networked == o.networked && r.access.Anywhere == o.access.Anywhere &&
		slices.EqualFunc(r.access.Rules, o.access.Rules, slices.Equal)
}

// conflict names the spellings of the two keys that count.
func conflict(parameters map[string]string) string {
	var spelled []string
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		if name, ours := nameOf(key); ours && (name == "allowremotevolumeaccess" || name == "layerlist") {
			spelled = append(spelled, fmt.Sprintf("%s: %q", key, parameters[key]))
		}
	}
	return strings.Join(spelled, ", ")
}

// nameOf is a key's name in lower case, and whether linstor-csi takes it for a parameter of its own: those without a prefix, and with its own.
func nameOf(key string) (name string, ours bool) {
	prefix, name, slash := strings.Cut(key, "/")
	if !slash {
		prefix, name = "", key
	}
	return strings.ToLower(name), prefix == "" || prefix == Driver
}

// invalid says why a parameter spoils its class; empty: it doesn't.
func invalid(key, value string) string {
	name, ours := nameOf(key)
	if !ours {
		return invalidLimit(key, value)
	}
	check, known := checks()[name]
	if !known && !strings.HasPrefix(name, "nfs") {
		return fmt.Sprintf("%s is not a parameter of linstor-csi, and one that it does not know spoils the class", key)
	}
	if check == nil {
		return ""
	}
	if err := check(value); err != nil {
		return fmt.Sprintf("%s is %q: %v", key, value, err)
	}
	return ""
}

// checks are the parameters that linstor-csi knows, with what their values must be; nil: anything goes. relocateAfterClone is Cozystack's.
func checks() map[string]func(string) error {
	return map[string]func(string) error{
		"allowremotevolumeaccess": func(v string) error { _, err := policy(v); return err },
		"layerlist":               validLayers,
		"autoplace":               count,
		"placementcount":          count,
		"placementpolicy":         placement,
		"disklessonremaining":     boolean,
		"encryption":              boolean,
		"usepvcname":              boolean,
		"clientlist":              nil,
		"nodelist":                nil,
		"disklessstoragepool":     nil,
		"donotplacewithregex":     nil,
		"fsopts":                  nil,
		"mountopts":               nil,
		"replicasondifferent":     nil,
		"replicasonsame":          nil,
		"xreplicasondifferent":    nil,
		"sizekib":                 nil,
		"storagepool":             nil,
		"postmountxfsopts":        nil,
		"resourcegroup":           nil,
		"overprovision":           nil,
		"relocateafterclone":      nil,
	}
}

func boolean(v string) error {
	if _, err := strconv.ParseBool(v); err != nil {
		return fmt.Errorf("it must be true or false")
	}
	return nil
}

func count(v string) error {
	if v == "" {
		return nil
	}
	if _, err := strconv.ParseInt(v, 10, 32); err != nil {
		return fmt.Errorf("it must be a whole number")
	}
	return nil
}

func placement(v string) error {
	policies := []string{"AutoPlaceTopology", "AutoPlace", "Balanced", "FollowTopology", "Manual"}
	if slices.ContainsFunc(policies, func(p string) bool { return strings.EqualFold(p, v) }) {
		return nil
	}
	return fmt.Errorf("it must be one of %s", strings.Join(policies, ", "))
}

// invalidLimit checks the limits of input and output, which have a prefix of their own.
func invalidLimit(key, value string) string {
	name := strings.TrimPrefix(key, "qos.linbit.com/")
	if value == "" || !slices.Contains([]string{"rbps", "wbps", "riops", "wiops"}, name) {
		return ""
	}
	q, err := resource.ParseQuantity(strings.TrimSpace(value))
	if err != nil || q.Sign() < 0 {
		return fmt.Sprintf("%s is %q: it must be a quantity such as 40Mi", key, value)
	}
	return ""
}
