package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"vmdisk.io/vmdisk/lab/mounts"
)

// node is the driver's node service for one kubelet.
type node struct {
	spec.UnimplementedNodeServer
	*backend
	driver Driver
	name   string
}

func (n *node) NodeGetCapabilities(context.Context, *spec.NodeGetCapabilitiesRequest) (*spec.NodeGetCapabilitiesResponse, error) {
	response := &spec.NodeGetCapabilitiesResponse{}
	for _, t := range []spec.NodeServiceCapability_RPC_Type{
		spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		spec.NodeServiceCapability_RPC_EXPAND_VOLUME,
		spec.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		spec.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		response.Capabilities = append(response.Capabilities, &spec.NodeServiceCapability{
			Type: &spec.NodeServiceCapability_Rpc{Rpc: &spec.NodeServiceCapability_RPC{Type: t}}})
	}
	return response, nil
}

func (n *node) NodeGetInfo(context.Context, *spec.NodeGetInfoRequest) (*spec.NodeGetInfoResponse, error) {
	return &spec.NodeGetInfoResponse{
		NodeId:             n.name,
		AccessibleTopology: &spec.Topology{Segments: map[string]string{TopologyKey(n.driver.Name): n.name}},
	}, nil
}

// NodeStageVolume attaches the loop device and, for a filesystem, mounts it at the staging path.
func (n *node) NodeStageVolume(_ context.Context, r *spec.NodeStageVolumeRequest) (*spec.NodeStageVolumeResponse, error) {
	if err := checked(r.GetVolumeId(), "staging_target_path", r.GetStagingTargetPath(), r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	defer n.lock(r.GetVolumeId())()
	v, err := n.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := n.reachable(v); err != nil {
		return nil, err
	}
	if !v.Staged[n.name] {
		// Remembered before the loop device exists, so that nobody frees it under this node.
		if v.Staged == nil {
			v.Staged = map[string]bool{}
		}
		v.Staged[n.name] = true
		if err := n.put(v, nil); err != nil {
			return nil, err
		}
	}
	device, err := attachLoop(BackingFile(n.stateDir, v.ID))
	if err != nil {
		return nil, err
	}
	if r.GetVolumeCapability().GetBlock() != nil {
		return &spec.NodeStageVolumeResponse{}, nil
	}
	return &spec.NodeStageVolumeResponse{}, mountFilesystem(device, r.GetStagingTargetPath(), r.GetVolumeCapability().GetMount().GetMountFlags())
}

// reachable says whether this node may use the volume.
func (n *node) reachable(v volume) error {
	if !v.isOn(n.name) {
		return status.Errorf(codes.FailedPrecondition, "volume %s is on node %s and can't be used on %s", v.ID, v.Node, n.name)
	}
	if _, ok := v.Published[n.name]; !ok && n.driver.AttachRequired {
		return status.Errorf(codes.FailedPrecondition, "volume %s is not attached to node %s: ControllerPublishVolume comes first", v.ID, n.name)
	}
	return nil
}

// withDevice returns a copy of the volume, or NotFound, and its loop device, or "" if it has none.
func (n *node) withDevice(id string) (volume, string, error) {
	v, err := n.volume(id)
	if err != nil {
		return volume{}, "", err
	}
	device, _, err := loopOf(BackingFile(n.stateDir, v.ID))
	return v, device, err
}

// ensureMounted has the device shown at target: mount is called unless it is there already. What another device has left
// there goes first.
func ensureMounted(device, target string, mount func() error) error {
	mounted, ok, err := mounts.At(target)
	if err != nil {
		return err
	}
	if ok && shows(mounted, device) {
		return nil
	}
	if err := unmountAll(target); err != nil {
		return err
	}
	return mount()
}

// mountFilesystem mounts the device at target, with a filesystem made if there was none.
func mountFilesystem(device, target string, flags []string) error {
	return ensureMounted(device, target, func() error {
		if err := prepareExt4(device); err != nil {
			return err
		}
		if err := makeDirectory(target); err != nil {
			return err
		}
		return mountExt4(device, target, flags)
	})
}

// NodeUnstageVolume unmounts, and frees the loop device once no node uses it.
func (n *node) NodeUnstageVolume(_ context.Context, r *spec.NodeUnstageVolumeRequest) (*spec.NodeUnstageVolumeResponse, error) {
	if err := required("volume_id", r.GetVolumeId(), "staging_target_path", r.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	defer n.lock(r.GetVolumeId())()
	if err := unmountAll(r.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	v, ok := n.get(r.GetVolumeId())
	if !ok {
		// The volume may have been wiped with the lab's state; the pod that had it must still be able to end.
		return &spec.NodeUnstageVolumeResponse{}, nil
	}
	delete(v.Staged, n.name)
	if len(v.Staged) == 0 {
		if err := detachFile(BackingFile(n.stateDir, v.ID)); err != nil {
			return nil, err
		}
	}
	return &spec.NodeUnstageVolumeResponse{}, n.put(v, nil)
}

// NodePublishVolume shows the volume at the target path: the loop device's node, or the staged filesystem.
func (n *node) NodePublishVolume(_ context.Context, r *spec.NodePublishVolumeRequest) (*spec.NodePublishVolumeResponse, error) {
	if err := checked(r.GetVolumeId(), "target_path", r.GetTargetPath(), r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	if err := required("staging_target_path", r.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	defer n.lock(r.GetVolumeId())()
	v, device, err := n.withDevice(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if device == "" || !v.Staged[n.name] {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not staged on node %s: NodeStageVolume comes first", v.ID, n.name)
	}
	source, makeTarget := r.GetStagingTargetPath(), makeDirectory
	if r.GetVolumeCapability().GetBlock() != nil {
		source, makeTarget = device, makeFile
	} else if staged, ok, err := mounts.At(source); err != nil || !ok || !shows(staged, device) {
		return nil, errors.Join(err, status.Errorf(codes.FailedPrecondition, "volume %s is not mounted at its staging path %s", v.ID, source))
	}
	return &spec.NodePublishVolumeResponse{}, ensureMounted(device, r.GetTargetPath(), func() error {
		if err := makeTarget(r.GetTargetPath()); err != nil {
			return err
		}
		return bindMount(source, r.GetTargetPath(), r.GetReadonly())
	})
}

func makeDirectory(path string) error {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return fmt.Errorf("make the mount point: %w", err)
	}
	return nil
}

// makeFile makes an empty file to bind-mount a device node on.
func makeFile(path string) error {
	if err := makeDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the mount point: %w", err)
	}
	return f.Close()
}

func (n *node) NodeUnpublishVolume(_ context.Context, r *spec.NodeUnpublishVolumeRequest) (*spec.NodeUnpublishVolumeResponse, error) {
	if err := required("volume_id", r.GetVolumeId(), "target_path", r.GetTargetPath()); err != nil {
		return nil, err
	}
	defer n.lock(r.GetVolumeId())()
	if err := unmountAll(r.GetTargetPath()); err != nil {
		return nil, err
	}
	return &spec.NodeUnpublishVolumeResponse{}, removeTarget(r.GetTargetPath())
}

func (n *node) NodeExpandVolume(_ context.Context, r *spec.NodeExpandVolumeRequest) (*spec.NodeExpandVolumeResponse, error) {
	if err := required("volume_id", r.GetVolumeId(), "volume_path", r.GetVolumePath()); err != nil {
		return nil, err
	}
	defer n.lock(r.GetVolumeId())()
	v, device, err := n.withDevice(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	mounted, ok, err := mounts.At(r.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if device == "" || !ok || !shows(mounted, device) {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted at %s", v.ID, r.GetVolumePath())
	}
	if err := refreshLoop(device); err != nil {
		return nil, err
	}
	if mounted.FSType == "ext4" {
		if err := growMounted(device, r.GetVolumeCapability().GetMount().GetMountFlags()); err != nil {
			return nil, err
		}
	}
	return &spec.NodeExpandVolumeResponse{CapacityBytes: v.Bytes}, nil
}

func (n *node) NodeGetVolumeStats(_ context.Context, r *spec.NodeGetVolumeStatsRequest) (*spec.NodeGetVolumeStatsResponse, error) {
	if err := required("volume_id", r.GetVolumeId(), "volume_path", r.GetVolumePath()); err != nil {
		return nil, err
	}
	v, err := n.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(r.GetVolumePath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.NotFound, "volume %s: nothing is at %s", v.ID, r.GetVolumePath())
	}
	if err != nil {
		return nil, fmt.Errorf("measure volume %s: %w", v.ID, err)
	}
	if !info.IsDir() {
		return &spec.NodeGetVolumeStatsResponse{Usage: []*spec.VolumeUsage{{Unit: spec.VolumeUsage_BYTES, Total: v.Bytes}}}, nil
	}
	var s unix.Statfs_t
	if err := unix.Statfs(r.GetVolumePath(), &s); err != nil {
		return nil, fmt.Errorf("measure volume %s at %s: %w", v.ID, r.GetVolumePath(), err)
	}
	return &spec.NodeGetVolumeStatsResponse{Usage: []*spec.VolumeUsage{{
		Unit:      spec.VolumeUsage_BYTES,
		Total:     int64(s.Blocks) * s.Bsize,
		Available: int64(s.Bavail) * s.Bsize,
		Used:      int64(s.Blocks-s.Bfree) * s.Bsize,
	}, {
		Unit:      spec.VolumeUsage_INODES,
		Total:     int64(s.Files),
		Available: int64(s.Ffree),
		Used:      int64(s.Files - s.Ffree),
	}}}, nil
}

// checked refuses a request in which something is missing.
func checked(id, field, path string, c *spec.VolumeCapability) error {
	if err := required("volume_id", id, field, path); err != nil {
		return err
	}
	return requiredCapability(c)
}
