package worker

import (
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/target"
	"vmdisk.io/vmdisk/internal/transfer"
)

// runGrow makes the disk that is there longer. A block device grows by itself, and is only compared: the volume may not have grown yet.
func runGrow(spec job.Spec, p *printer) (report transfer.Report, err error) {
	size := spec.Target.SizeBytes
	switch t := spec.Target; t.Kind {
	case job.File:
		size, err = target.Grow(t.Path, t.SizeBytes, preallocation(t, target.Falloc))
	case job.Block:
		var device target.Target
		if device, err = openTarget(spec, p.pulse.beat); err == nil {
			err = device.Close()
		}
	default:
		err = broken("the job is to grow a target of kind %q; file and block are known", t.Kind)
	}
	if err != nil {
		return report, err
	}
	report.VirtualBytes = size
	p.progress(size, size)
	return report, nil
}
