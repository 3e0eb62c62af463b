package csi

import (
	"context"
	"errors"
	"maps"
	"slices"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Making volumes, and where they go. A clone or a restored snapshot differs from a fresh volume in its first bytes, in its
// least size, and in that it can only be made where its source's bytes are.

func (c *controller) CreateVolume(ctx context.Context, r *spec.CreateVolumeRequest) (*spec.CreateVolumeResponse, error) {
	v, err := c.make(r)
	if errors.Is(err, errStuck) {
		<-ctx.Done() // the volume isn't locked meanwhile
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		return nil, err
	}
	return &spec.CreateVolumeResponse{Volume: &spec.Volume{
		VolumeId:           v.ID,
		CapacityBytes:      v.Bytes,
		ContentSource:      r.GetVolumeContentSource(),
		AccessibleTopology: c.reachableFrom(v),
	}}, nil
}

// make makes the volume of the request, or finds it.
func (c *controller) make(r *spec.CreateVolumeRequest) (volume, error) {
	v, err := c.wanted(r)
	if err != nil {
		return volume{}, err
	}
	defer c.lock(v.ID)()
	existing, exists := c.get(v.ID)
	if exists {
		if err := sameVolume(existing, v, r.GetCapacityRange()); err != nil {
			return volume{}, err
		}
		if v = existing; v.Ready {
			return v, nil // whatever has become of its source
		}
	}
	from, err := c.origin(r.GetVolumeContentSource())
	if err != nil {
		return volume{}, err
	}
	if !exists {
		if v.Bytes, err = sizeFrom(r.GetCapacityRange(), from); err != nil {
			return volume{}, err
		}
		if v, err = c.place(v, r.GetAccessibilityRequirements(), from); err != nil {
			return volume{}, err
		}
	}
	if err := makeBackingFile(BackingFile(c.stateDir, v.ID), v, from.file); err != nil {
		return volume{}, err
	}
	v.Ready = true
	return v, c.put(v, nil)
}

// wanted reads the request: the volume without its place and its size.
func (c *controller) wanted(r *spec.CreateVolumeRequest) (volume, error) {
	if err := required("name", r.GetName()); err != nil {
		return volume{}, err
	}
	if len(r.GetVolumeCapabilities()) == 0 {
		return volume{}, status.Error(codes.InvalidArgument, "the request lacks volume_capabilities")
	}
	k, err := kindOf(r.GetParameters())
	if err != nil {
		return volume{}, err
	}
	dirty, err := dirtyOf(r.GetParameters())
	if err != nil {
		return volume{}, err
	}
	for _, capability := range r.GetVolumeCapabilities() {
		if reason := refusal(capability); reason != "" {
			return volume{}, status.Error(codes.InvalidArgument, reason)
		}
	}
	return volume{
		ID:     volumeID(r.GetName()),
		Driver: c.driver.Name,
		Name:   r.GetName(),
		PVC:    claimOf(r.GetParameters()),
		Kind:   k,
		Dirty:  dirty,
		Source: sourceKey(r.GetVolumeContentSource()),
	}, nil
}

// sameVolume says whether a repeated request asks for the volume that there is.
func sameVolume(existing, asked volume, size *spec.CapacityRange) error {
	switch limit := size.GetLimitBytes(); {
	case existing.Driver != asked.Driver:
		return status.Errorf(codes.AlreadyExists, "volume %s belongs to driver %s", existing.ID, existing.Driver)
	case existing.Kind != asked.Kind || existing.Dirty != asked.Dirty:
		return status.Errorf(codes.AlreadyExists, "volume %s exists with other parameters: it is %s", existing.ID, existing.Kind)
	case existing.Source != asked.Source:
		return status.Errorf(codes.AlreadyExists, "volume %s exists, made from %q, and one from %q is asked", existing.ID, existing.Source, asked.Source)
	case existing.Bytes < size.GetRequiredBytes() || (limit > 0 && existing.Bytes > limit):
		return status.Errorf(codes.AlreadyExists, "volume %s exists with %d bytes, and %d to %d are asked", existing.ID, existing.Bytes, size.GetRequiredBytes(), limit)
	}
	return nil
}

// place chooses where the volume goes and reserves its bytes there: the first candidate with room.
func (c *controller) place(v volume, requirement *spec.TopologyRequirement, from origin) (volume, error) {
	candidates, err := c.candidates(v.Kind, requirement)
	if err == nil {
		candidates, err = c.beside(from, candidates, requirement)
	}
	if err != nil {
		return volume{}, err
	}
	var refusals []error
	for _, candidate := range candidates {
		v.Node = candidate
		err := c.put(v, func(others []volume) error { return c.fits(v, others) })
		if err == nil {
			return v, nil
		}
		if status.Code(err) != codes.ResourceExhausted {
			return volume{}, err
		}
		refusals = append(refusals, errors.New(status.Convert(err).Message()))
	}
	return volume{}, status.Error(codes.ResourceExhausted, errors.Join(refusals...).Error())
}

// candidates lists the nodes that a volume may go to, the preferred ones first, each once. A replicated volume goes
// everywhere, which is the one candidate "".
func (c *controller) candidates(k kind, requirement *spec.TopologyRequirement) ([]string, error) {
	if k == replicated {
		return []string{""}, nil
	}
	topologies := append(slices.Clone(requirement.GetPreferred()), requirement.GetRequisite()...)
	if len(topologies) == 0 {
		return names(c.nodes), nil
	}
	var candidates []string
	for _, topology := range topologies {
		name := topology.GetSegments()[TopologyKey(c.driver.Name)]
		if _, ok := c.nodes[name]; ok && !slices.Contains(candidates, name) {
			candidates = append(candidates, name)
		}
	}
	if len(candidates) == 0 {
		return nil, status.Errorf(codes.ResourceExhausted, "none of the asked topologies names one of the nodes %v under key %s", names(c.nodes), TopologyKey(c.driver.Name))
	}
	return candidates, nil
}

// reachableFrom is the node affinity of the volume; nil means every node.
func (c *controller) reachableFrom(v volume) []*spec.Topology {
	if v.Kind == replicated {
		return nil
	}
	return []*spec.Topology{{Segments: map[string]string{TopologyKey(c.driver.Name): v.Node}}}
}

// fits says whether the volume and the others stay within the capacity of every node that holds the volume.
func (b *backend) fits(v volume, others []volume) error {
	for _, name := range names(b.nodes) {
		if !v.isOn(name) {
			continue
		}
		if free := b.free(name, others); v.Bytes > free {
			return status.Errorf(codes.ResourceExhausted, "node %s has %d of %d bytes left, and the volume needs %d: delete volumes or raise capacityBytes",
				name, free, b.nodes[name].CapacityBytes, v.Bytes)
		}
	}
	return nil
}

func (v volume) isOn(node string) bool { return v.Kind == replicated || v.Node == node }

// free is the number of bytes of the node that no volume has reserved.
func (b *backend) free(node string, volumes []volume) int64 {
	free := b.nodes[node].CapacityBytes
	for _, v := range volumes {
		if v.isOn(node) {
			free -= v.Bytes
		}
	}
	return max(free, 0)
}

func (c *controller) GetCapacity(_ context.Context, r *spec.GetCapacityRequest) (*spec.GetCapacityResponse, error) {
	k, err := kindOf(r.GetParameters())
	if err != nil {
		return nil, err
	}
	for _, capability := range r.GetVolumeCapabilities() {
		if refusal(capability) != "" {
			return &spec.GetCapacityResponse{}, nil // the specification: no capacity for what is not served
		}
	}
	volumes := c.others("")
	asked, one := r.GetAccessibleTopology().GetSegments()[TopologyKey(c.driver.Name)]
	var total, largest int64
	smallest := int64(-1)
	for _, name := range names(c.nodes) {
		free := c.free(name, volumes)
		if smallest < 0 || free < smallest {
			smallest = free
		}
		if !one || name == asked {
			total += free
			largest = max(largest, free)
		}
	}
	if k == replicated {
		total, largest = max(smallest, 0), max(smallest, 0)
	}
	return &spec.GetCapacityResponse{AvailableCapacity: total, MaximumVolumeSize: wrapperspb.Int64(largest), MinimumVolumeSize: wrapperspb.Int64(sizeUnit)}, nil
}

// names returns the keys of a map in order.
func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
