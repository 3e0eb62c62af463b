package worker

import (
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/target"
	"vmdisk.io/vmdisk/internal/transfer"
)

// runGrow makes the disk that is there longer. A block device needs nobody for that.
func runGrow(spec job.Spec, p *printer) (report transfer.Report, err error) {
	t := spec.Target
	if t.Kind != job.File {
		return report, broken("the job is to grow a target of kind %q; only a file can be grown", t.Kind)
	}
	size, err := target.Grow(t.Path, t.SizeBytes, preallocation(t, target.Falloc))
	if err != nil {
		return report, err
	}
	report.VirtualBytes = size
	p.progress(size, size)
	return report, nil
}
