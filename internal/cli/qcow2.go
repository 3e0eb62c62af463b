package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/formats"
	"vmdisk.io/vmdisk/internal/image/qcow2"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/file"
	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/target"
	"vmdisk.io/vmdisk/internal/transfer"
)

// toQCOW2 writes the disk as a qcow2 image. That is done in the disk's order, whatever the order in the source is: a file
// is read where the disk wants it, and anything else goes to a scratch file before.
func (o *convertOptions) toQCOW2(ctx context.Context) (report transfer.Report, err error) {
	j, err := o.job()
	if err != nil {
		return report, err
	}
	path, err := o.imagePath()
	if err != nil {
		return report, err
	}
	if j.Source, err = o.open(); err != nil {
		return report, err
	}
	defer func() { err = firstError(err, j.Source.Close()) }()
	shown, err := newMeter(progressMode(o.progress), o.stderr)
	if err != nil {
		return report, err
	}
	defer func() { shown.end(err == nil) }()
	j.Progress = shown.progress
	d := &sourceDisk{job: j}
	defer func() { err = firstError(err, d.close()) }()
	if err := d.open(ctx, path); err != nil {
		return d.report, err
	}
	w, err := qcow2.NewWriter(d.view, qcow2.WriterOptions{Workers: runtime.GOMAXPROCS(0), Progress: shown.progress})
	if err != nil {
		return d.report, err
	}
	if o.target == standardOutput {
		d.report.WrittenBytes, err = w.WriteStream(ctx, o.stdout)
		err = firstError(err, d.unchanged(ctx))
	} else {
		d.report.WrittenBytes, err = d.write(ctx, w, path)
	}
	if errors.Is(err, qcow2.ErrChanged) {
		err = d.changed()
	}
	return d.report, err
}

// standardOutput is the TARGET that is no path.
const standardOutput = "-"

// imagePath looks at the flags and at what TARGET names, and answers its path; for standard output, one where a scratch file
// may lie.
func (o *convertOptions) imagePath() (string, error) {
	if o.resume != "" || o.verify || o.targetZeroed || o.preallocation != "off" {
		return "", usage("--resume, --verify, --target-zeroed and --preallocation are for raw disks: leave them out, or write a raw disk")
	}
	if o.target == standardOutput {
		f, ok := o.stdout.(*os.File)
		if info, err := statOf(f, ok); err == nil && info.Mode()&fs.ModeCharDevice != 0 {
			return "", usage("standard output is a terminal: name a file, or pipe the image into another command")
		}
		if o.json {
			return "", usage("--json and the image can't both go to standard output: name a file")
		}
		return filepath.Join(os.TempDir(), "vmdisk"), nil
	}
	path, block, err := o.targetPath()
	if block {
		return "", usage("TARGET %s is a block device, which holds a raw disk: leave out '-O qcow2', or name a file", o.target)
	}
	return path, err
}

// statOf is f's Stat, if it is a file.
func statOf(f *os.File, ok bool) (fs.FileInfo, error) {
	if !ok {
		return nil, fs.ErrInvalid
	}
	return f.Stat()
}

// sourceDisk is the disk in a source, which can be read anywhere.
type sourceDisk struct {
	job         transfer.Job
	report      transfer.Report
	description source.Description
	file        source.Source // what is read: the source itself, or a file that was filled from it
	read        *counted
	view        image.Image
	scratch     string // the directory of that file
}

// open opens the disk. The source's checksum is right then. A scratch file lies beside path.
func (d *sourceDisk) open(ctx context.Context, path string) (err error) {
	if d.description, err = d.job.Source.Describe(ctx); err != nil {
		return err
	}
	d.report.Source = d.description.Name
	direct, err := d.isPlainFile(ctx)
	if err != nil {
		return err
	}
	if !direct {
		return d.openScratch(ctx, path)
	}
	if err := d.checkSum(ctx); err != nil {
		return err
	}
	if err := d.openView(ctx, d.job.Source, d.job.Format); err != nil {
		return err
	}
	d.report.Format, d.report.VirtualBytes = d.view.Format(), d.view.Size()
	return nil
}

// isPlainFile reports whether the source is a file on this machine that is the image itself.
func (d *sourceDisk) isPlainFile(ctx context.Context) (bool, error) {
	if _, local := d.job.Source.(image.HoleFinder); !local || d.job.Member != "" {
		return false, nil
	}
	head, err := image.File{R: source.ReaderAt{Context: ctx, Source: d.job.Source}, Length: d.description.Length}.Head()
	return d.job.Format == image.Raw || !transfer.IsWrapper(image.Detect(head)), err
}

// checkSum reads the whole source where its checksum is asked for.
func (d *sourceDisk) checkSum(ctx context.Context) (err error) {
	if d.job.Checksum.IsZero() {
		return nil
	}
	body, err := d.job.Source.Open(ctx, 0, -1)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, body.Close()) }()
	verifier, err := stream.VerifyFrom(body, d.job.Checksum, stream.State{})
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, verifier)
	d.report.ReadBytes += n
	return err
}

// openScratch fills a file with the disk, and opens that.
func (d *sourceDisk) openScratch(ctx context.Context, path string) (err error) {
	if d.scratch, err = os.MkdirTemp(filepath.Dir(path), "."+filepath.Base(path)+"."); err != nil {
		return fmt.Errorf("make a place for a scratch file: %w", err)
	}
	name := filepath.Join(d.scratch, "disk.raw")
	var out target.Target
	d.job.Make = func(size int64) (target.Target, error) {
		t, err := target.OpenFile(target.FileOptions{Path: name, Part: name, SizeBytes: size, Whole: true})
		if err != nil {
			return nil, err
		}
		out = uncommitted{t.(target.Resizer)} // as a file always is
		return out, nil
	}
	d.report, err = transfer.Run(ctx, d.job)
	if out != nil {
		err = firstError(err, out.Close())
	}
	if err != nil {
		return err
	}
	f, err := file.New(name)
	if err != nil {
		return err
	}
	return d.openView(ctx, f, image.Raw)
}

// uncommitted is a target that need not come to stable storage: it won't be needed after a crash.
type uncommitted struct{ target.Resizer }

// Commit implements target.Target.
func (uncommitted) Commit() error { return nil }

// openView opens the image in a file.
func (d *sourceDisk) openView(ctx context.Context, f source.Source, format image.Format) error {
	d.file = f
	description, err := f.Describe(ctx)
	if err != nil {
		return err
	}
	d.read = &counted{r: source.ReaderAt{Context: ctx, Source: f}}
	in := opened{source: f}
	if d.view, err = formats.OpenAs(format, in.withHoles(source.NewCache(d.read, description.Length)), description.Length, d.job.Limits); err != nil {
		return err
	}
	return image.Map(d.view, description.Length, func(image.Mapping) error { return ctx.Err() }) // before anything is made
}

// write writes the image to a file, which appears when it is complete.
func (d *sourceDisk) write(ctx context.Context, w *qcow2.Writer, path string) (length int64, err error) {
	out, err := target.OpenFile(target.FileOptions{Path: path, SizeBytes: target.Unknown, Whole: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = firstError(err, out.Close()) }()
	if length, err = w.WriteFile(ctx, out); err != nil {
		return 0, err
	}
	if err := d.unchanged(ctx); err != nil {
		return 0, err
	}
	return length, out.Commit()
}

// unchanged looks whether the source is still the one that was opened.
func (d *sourceDisk) unchanged(ctx context.Context) error {
	if d.file != d.job.Source {
		return nil // the scratch file is ours
	}
	d.report.ReadBytes += d.read.bytes
	now, err := d.job.Source.Describe(ctx)
	if err == nil && now != d.description {
		err = d.changed()
	}
	return err
}

func (d *sourceDisk) changed() error {
	return &source.Error{Reason: source.Changed, Message: fmt.Sprintf("%s was changed while it was being read: wait until whatever writes it is done, and try again", d.description.Name)}
}

// close removes the scratch file.
func (d *sourceDisk) close() (err error) {
	if d.file != nil && d.file != d.job.Source {
		err = d.file.Close()
	}
	if d.scratch != "" {
		err = firstError(err, os.RemoveAll(d.scratch))
	}
	return err
}

// counted counts what is read. A source.Cache reads it once at a time.
type counted struct {
	r     io.ReaderAt
	bytes int64
}

// ReadAt implements io.ReaderAt.
func (c *counted) ReadAt(p []byte, offset int64) (int, error) {
	n, err := c.r.ReadAt(p, offset)
	c.bytes += int64(n)
	return n, err
}
