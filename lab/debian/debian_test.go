package debian

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMissingPackages(t *testing.T) {
	tools := []Tool{{"ip", "iproute2"}, {"bridge", "iproute2"}, {"/usr/lib/cni/bridge", "containernetworking-plugins"}}
	tests := map[string]struct {
		there string
		want  []string
	}{
		"nothing is missing":                  {there: "ip bridge /usr/lib/cni/bridge"},
		"a package is named once":             {there: "/usr/lib/cni/bridge", want: []string{"iproute2"}},
		"all are missing, in the given order": {want: []string{"iproute2", "containernetworking-plugins"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := missingPackages(tools, func(program string) bool {
				for _, there := range strings.Fields(test.there) {
					if there == program {
						return true
					}
				}
				return false
			})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("packages (-want +got):\n%s", diff)
			}
		})
	}
}
