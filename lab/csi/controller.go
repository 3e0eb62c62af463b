package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"vmdisk.io/vmdisk/lab/mounts"
)

// identity answers who the driver is.
type identity struct {
	spec.UnimplementedIdentityServer
	name string
}

// driverVersion is reported to callers; nothing depends on it.
const driverVersion = "lab"

func (i identity) GetPluginInfo(context.Context, *spec.GetPluginInfoRequest) (*spec.GetPluginInfoResponse, error) {
	return &spec.GetPluginInfoResponse{Name: i.name, VendorVersion: driverVersion}, nil
}

func (i identity) GetPluginCapabilities(context.Context, *spec.GetPluginCapabilitiesRequest) (*spec.GetPluginCapabilitiesResponse, error) {
	service := func(t spec.PluginCapability_Service_Type) *spec.PluginCapability {
		return &spec.PluginCapability{Type: &spec.PluginCapability_Service_{Service: &spec.PluginCapability_Service{Type: t}}}
	}
	return &spec.GetPluginCapabilitiesResponse{Capabilities: []*spec.PluginCapability{
		service(spec.PluginCapability_Service_CONTROLLER_SERVICE),
		service(spec.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS),
		{Type: &spec.PluginCapability_VolumeExpansion_{VolumeExpansion: &spec.PluginCapability_VolumeExpansion{
			Type: spec.PluginCapability_VolumeExpansion_ONLINE}}},
	}}, nil
}

func (i identity) Probe(context.Context, *spec.ProbeRequest) (*spec.ProbeResponse, error) {
	return &spec.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// controller is the driver's controller service under one name. Making volumes is in create.go, what they are made from in source.go, and snapshots in snapshot.go.
type controller struct {
	spec.UnimplementedControllerServer
	*backend
	driver Driver
}

func (c *controller) ControllerGetCapabilities(context.Context, *spec.ControllerGetCapabilitiesRequest) (*spec.ControllerGetCapabilitiesResponse, error) {
	types := []spec.ControllerServiceCapability_RPC_Type{
		spec.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		spec.ControllerServiceCapability_RPC_GET_CAPACITY,
		spec.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		spec.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	if c.driver.AttachRequired {
		types = append(types, spec.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	}
	if c.driver.Clones {
		types = append(types, spec.ControllerServiceCapability_RPC_CLONE_VOLUME)
	}
	if c.driver.Snapshots {
		types = append(types, spec.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, spec.ControllerServiceCapability_RPC_LIST_SNAPSHOTS)
	}
	response := &spec.ControllerGetCapabilitiesResponse{}
	for _, t := range types {
		response.Capabilities = append(response.Capabilities, &spec.ControllerServiceCapability{
			Type: &spec.ControllerServiceCapability_Rpc{Rpc: &spec.ControllerServiceCapability_RPC{Type: t}}})
	}
	return response, nil
}

func (c *controller) DeleteVolume(_ context.Context, r *spec.DeleteVolumeRequest) (*spec.DeleteVolumeResponse, error) {
	if err := required("volume_id", r.GetVolumeId()); err != nil {
		return nil, err
	}
	defer c.lock(r.GetVolumeId())()
	v, ok := c.get(r.GetVolumeId())
	if !ok {
		return &spec.DeleteVolumeResponse{}, nil
	}
	if len(v.Published) > 0 || len(v.Staged) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is still in use: attached to %v, staged on %v",
			v.ID, names(v.Published), names(v.Staged))
	}
	file := BackingFile(c.stateDir, v.ID)
	if err := detachFile(file); err != nil {
		return nil, err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("delete the backing file: %w", err)
	}
	return &spec.DeleteVolumeResponse{}, c.drop(v.ID)
}

// detachFile frees the loop device of the file, if it has one.
func detachFile(file string) error {
	device, attached, err := loopOf(file)
	if err != nil || !attached {
		return err
	}
	return mounts.Detach(device)
}

func (c *controller) ControllerPublishVolume(_ context.Context, r *spec.ControllerPublishVolumeRequest) (*spec.ControllerPublishVolumeResponse, error) {
	if !c.driver.AttachRequired {
		return nil, status.Errorf(codes.Unimplemented, "driver %s attaches nothing: its CSIDriver object must say attachRequired: false", c.driver.Name)
	}
	if err := required("volume_id", r.GetVolumeId(), "node_id", r.GetNodeId()); err != nil {
		return nil, err
	}
	if err := requiredCapability(r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	defer c.lock(r.GetVolumeId())()
	v, err := c.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if _, ok := c.nodes[r.GetNodeId()]; !ok {
		return nil, status.Errorf(codes.NotFound, "attach volume %s: there is no node %q", v.ID, r.GetNodeId())
	}
	if err := attachable(v, r); err != nil {
		return nil, err
	}
	if v.Published == nil {
		v.Published = map[string]publication{}
	}
	v.Published[r.GetNodeId()] = publication{ReadOnly: r.GetReadonly(), Shared: sharedMode(r.GetVolumeCapability())}
	return &spec.ControllerPublishVolumeResponse{}, c.put(v, nil)
}

// attachable refuses what real block storage refuses: a second node for a volume of which only one may have it, a node
// on which the bytes are not.
func attachable(v volume, r *spec.ControllerPublishVolumeRequest) error {
	node := r.GetNodeId()
	if v.Kind == local && v.Node != node {
		return status.Errorf(codes.FailedPrecondition, "attach volume %s to node %s: its bytes are on node %s and can't be reached from elsewhere", v.ID, node, v.Node)
	}
	if reason := refusal(r.GetVolumeCapability()); reason != "" {
		return status.Errorf(codes.InvalidArgument, "attach volume %s to node %s: %s", v.ID, node, reason)
	}
	shared := sharedMode(r.GetVolumeCapability())
	for _, other := range names(v.Published) {
		there := v.Published[other]
		switch {
		case other == node && (there.ReadOnly != r.GetReadonly() || there.Shared != shared):
			return status.Errorf(codes.AlreadyExists, "attach volume %s to node %s: it is attached there in another way; detach it first", v.ID, node)
		case other != node && !(there.Shared && shared):
			return status.Errorf(codes.FailedPrecondition, "attach volume %s to node %s: it is attached to node %s, and its access mode allows one node at a time",
				v.ID, node, other)
		}
	}
	return nil
}

func (c *controller) ControllerUnpublishVolume(_ context.Context, r *spec.ControllerUnpublishVolumeRequest) (*spec.ControllerUnpublishVolumeResponse, error) {
	if err := required("volume_id", r.GetVolumeId()); err != nil {
		return nil, err
	}
	defer c.lock(r.GetVolumeId())()
	v, ok := c.get(r.GetVolumeId())
	if !ok {
		return &spec.ControllerUnpublishVolumeResponse{}, nil
	}
	if r.GetNodeId() == "" {
		v.Published = nil // the specification: detach from every node
	}
	delete(v.Published, r.GetNodeId())
	return &spec.ControllerUnpublishVolumeResponse{}, c.put(v, nil)
}

func (c *controller) ValidateVolumeCapabilities(_ context.Context, r *spec.ValidateVolumeCapabilitiesRequest) (*spec.ValidateVolumeCapabilitiesResponse, error) {
	if err := required("volume_id", r.GetVolumeId()); err != nil {
		return nil, err
	}
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the request lacks volume_capabilities")
	}
	if _, err := c.volume(r.GetVolumeId()); err != nil {
		return nil, err
	}
	for _, capability := range r.GetVolumeCapabilities() {
		if reason := refusal(capability); reason != "" {
			return &spec.ValidateVolumeCapabilitiesResponse{Message: reason}, nil
		}
	}
	return &spec.ValidateVolumeCapabilitiesResponse{Confirmed: &spec.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext:      r.GetVolumeContext(),
		VolumeCapabilities: r.GetVolumeCapabilities(),
		Parameters:         r.GetParameters(),
	}}, nil
}

func (c *controller) ControllerExpandVolume(_ context.Context, r *spec.ControllerExpandVolumeRequest) (*spec.ControllerExpandVolumeResponse, error) {
	if err := required("volume_id", r.GetVolumeId()); err != nil {
		return nil, err
	}
	if r.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "the request lacks capacity_range")
	}
	bytes, err := sizeFor(r.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	defer c.lock(r.GetVolumeId())()
	v, err := c.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if bytes > v.Bytes {
		v.Bytes = bytes
		if err := c.put(v, func(others []volume) error { return c.fits(v, others) }); err != nil {
			return nil, err
		}
	}
	// Again even if the size was right, in case an earlier call was cut short here.
	if err := growBackingFile(BackingFile(c.stateDir, v.ID), v.Bytes); err != nil {
		return nil, err
	}
	return &spec.ControllerExpandVolumeResponse{
		CapacityBytes: v.Bytes,
		// The block device has grown by now; a filesystem grows where it is mounted.
		NodeExpansionRequired: r.GetVolumeCapability().GetBlock() == nil,
	}, nil
}

// volume returns a copy of the volume, or NotFound.
func (b *backend) volume(id string) (volume, error) {
	v, ok := b.get(id)
	if !ok {
		return volume{}, status.Errorf(codes.NotFound, "there is no volume %q", id)
	}
	return v, nil
}

// required refuses a request in which a field is empty; it takes pairs of a field's name and its value.
func required(fields ...string) error {
	var missing []string
	for pair := range slices.Chunk(fields, 2) {
		if pair[1] == "" {
			missing = append(missing, pair[0])
		}
	}
	if len(missing) > 0 {
		return status.Errorf(codes.InvalidArgument, "the request lacks %s", strings.Join(missing, " and "))
	}
	return nil
}

func requiredCapability(c *spec.VolumeCapability) error {
	if c == nil {
		return status.Error(codes.InvalidArgument, "the request lacks volume_capability")
	}
	return nil
}
