package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Placement says on which nodes a disk's workers may run, in the words of a pod's spec.
type Placement struct {
	// NodeSelector are labels that a node must have.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Affinity is what attracts the worker to nodes and other pods, or keeps it away from them.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// Tolerations are the taints that the worker bears.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// IsEmpty says whether the placement says nothing.
func (p *Placement) IsEmpty() bool {
	return p == nil || len(p.NodeSelector) == 0 && p.Affinity == nil && len(p.Tolerations) == 0
}

// Encode is the placement as the value of PlacementAnnotation; empty for one that says nothing.
func (p *Placement) Encode() string {
	if p.IsEmpty() {
		return ""
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return string(b)
}

// ParsePlacement reads the value of PlacementAnnotation; nil for an empty one. A field that it doesn't know is an error: to leave it out
// would put a worker where it must not be.
func ParsePlacement(text string) (*Placement, error) {
	if text == "" {
		return nil, nil
	}
	var p Placement
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("read the annotation %s: %w", PlacementAnnotation, err)
	}
	return &p, nil
}
