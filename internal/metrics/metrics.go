// Package metrics serves numbers about disks to Prometheus. What the numbers are is decided in internal/plan/measure and counted from the
// ends of attempts; metrics gives them names. docs/metrics.md lists them, and a test holds the two together.
package metrics

import (
	"vmdisk.io/vmdisk/internal/plan/measure"
)

// Definition is what a metric is.
type Definition struct {
	Name   measure.Name
	Type   string
	Labels []string
	Help   string
}

// The metrics that are counted.
const (
	attemptsTotal   measure.Name = "vmdisk_attempts_total"
	attemptDuration measure.Name = "vmdisk_attempt_duration_seconds"
	readyDuration   measure.Name = "vmdisk_disk_ready_duration_seconds"
	readTotal       measure.Name = "vmdisk_read_bytes_total"
	writtenTotal    measure.Name = "vmdisk_written_bytes_total"
)

// Definitions are all metrics of vmdisk's own, and those of CDI's that it serves.
func Definitions() []Definition {
	return []Definition{
		{measure.Ready, "gauge", nil, "1 if there is the one CDI object that KubeVirt looks for, and it is deployed"},
		{measure.Pending, "gauge", nil, "DataVolumes that name no StorageClass, and wait since none is the default"},
		{measure.HighRestart, "gauge", nil, "DataVolumes being filled of which more than 3 attempts have failed"},
		{measure.Progress, "counter", []string{"ownerUID"}, "How much of a disk's source is through, in percent, while it is being filled; by the DataVolume's UID"},
		{measure.ProfileInfo, "gauge", []string{"storageclass", "provisioner", "complete", "default", "virtdefault", "rwx", "smartclone", "degraded"},
			"What is known of a StorageClass; always 1. degraded: it has no ReadWriteMany, or clones are copies"},
		{measure.Disks, "gauge", []string{"phase"}, "DataVolumes in a phase"},
		{measure.Waiting, "gauge", []string{"reason"}, "DataVolumes, neither filled nor failed, that something is wrong with, by the condition's reason; Other for what isn't in docs/COMPAT.md"},
		{attemptsTotal, "counter", []string{"source", "outcome"}, "Attempts that ended: Succeeded, Refused, SourceFailed, TargetFailed, Interrupted or Broken"},
		{attemptDuration, "histogram", []string{"source", "outcome"}, "How long the worker of an attempt ran"},
		{readyDuration, "histogram", []string{"source"}, "How long it took from a DataVolume's creation until it was filled, waits included"},
		{readTotal, "counter", []string{"source"}, "Bytes read from sources, as they are served, by attempts that ended"},
		{writtenTotal, "counter", []string{"source"}, "Bytes written to volumes by attempts that ended; holes are not written"},
	}
}

// definition finds a metric.
func definition(name measure.Name) Definition {
	for _, d := range Definitions() {
		if d.Name == name {
			return d
		}
	}
	panic("no definition of " + name) // a test asks for each
}
