package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/target"
	"vmdisk.io/vmdisk/internal/transfer"
)

// convertOptions are the arguments and flags of "vmdisk convert".
type convertOptions struct {
	sourceOptions
	target        string
	output        string
	checksum      string
	preallocation string
	targetZeroed  bool
	verify        bool
	resume        string
	progress      string
	scratch       string
	scratchSize   string
	json          bool
	stdout        io.Writer
	stderr        io.Writer
}

func newConvertCommand() *cobra.Command {
	var o convertOptions
	cmd := &cobra.Command{
		Use:   "convert SOURCE TARGET",
		Short: "Write the disk in an image to a file or a block device",
		Long: "Write the disk in an image to a raw file or a block device, in one forward pass.\n\n" + sourceHelp + `
TARGET is a file, which appears under its name only when it is complete, or a block device, which
is filled to its end: what lies behind the image's disk becomes zero.
With '-O qcow2' it is a qcow2 image, compressed with zstd; '-' is standard output then.` + exitHelp(),
		Example: `  vmdisk convert https://example.com/debian.qcow2 debian.raw
  vmdisk convert --checksum sha256:… debian.qcow2 /dev/vg/debian
  vmdisk convert -O qcow2 /dev/vg/debian debian.qcow2
  vmdisk convert --member box-disk1.vmdk box.ova disk.raw
  curl -s https://example.com/disk.raw.zst | vmdisk convert - disk.raw`,
		Args: arguments("SOURCE", "TARGET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.source, o.target = args[0], args[1]
			o.stdin, o.stdout, o.stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return runConvert(cmd.Context(), o)
		},
	}
	o.addFlags(cmd)
	o.addMemberFlag(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.output, "output-format", "O", string(image.Raw), "what is written: raw, or qcow2 (compressed with zstd)")
	f.StringVar(&o.checksum, "checksum", "", "what the source's bytes, as they are served, must hash to: ALG:HEX, where ALG is md5, sha1, sha256 or sha512")
	f.StringVar(&o.preallocation, "preallocation", "off", "space that the target takes beforehand: off, falloc (allocated) or full (written)")
	f.BoolVar(&o.targetZeroed, "target-zeroed", false, "the target device is known to read as zeros, so that its holes need nothing; wrong data are what you get where that isn't true")
	f.BoolVar(&o.verify, "verify", false, "read the disk back from its storage at the end, and fail where it isn't what was written")
	f.StringVar(&o.resume, "resume", "", "file that keeps how far the conversion has come, so that the same command goes on there after it was stopped, by whatever; it is removed at the end")
	f.StringVar(&o.scratch, "scratch", "", "directory in which the image may be kept, in a file without a name, where it can't be decoded in one pass and its source can't be read at any place; "+
		"from standard input every image is kept there that isn't raw (default: such an image is refused)")
	f.StringVar(&o.scratchSize, "scratch-size", "", "the most that --scratch takes, such as 20Gi (default: what there is room for)")
	f.StringVar(&o.progress, "progress", string(progressAuto), "what shows progress, on standard error: auto (a bar on a terminal), bar, json or none")
	f.BoolVar(&o.json, "json", false, "print the result as JSON on standard output, also after a failure")
	return cmd
}

// convertResult is what --json prints.
type convertResult struct {
	Source string `json:"source"`
	Target string `json:"target"`
	// Format is the image's format, empty where it is not known.
	Format image.Format `json:"format,omitempty"`
	// Wrappers are what the image is packed in, outermost first.
	Wrappers     []image.Format `json:"wrappers,omitempty"`
	VirtualBytes int64          `json:"virtualBytes"`
	ReadBytes    int64          `json:"readBytes"`
	WrittenBytes int64          `json:"writtenBytes"`
	// ContentHash names the disk's content; see transfer.Report.
	ContentHash string `json:"contentHash,omitempty"`
	// ResumedAt is the offset in the image where an earlier conversion was gone on with; StartedOver says why it wasn't.
	ResumedAt   int64   `json:"resumedAt,omitempty"`
	StartedOver string  `json:"startedOver,omitempty"`
	Seconds     float64 `json:"seconds"`
	ExitCode    int     `json:"exitCode"`
	// Message says what went wrong; empty where nothing did.
	Message string `json:"message,omitempty"`
}

// runConvert converts. Its error says what went wrong; the result is printed all the same.
func runConvert(ctx context.Context, o convertOptions) error {
	started := time.Now()
	report, err := o.convert(ctx)
	var refused *image.Refused
	if errors.As(err, &refused) && report.Source != "" {
		err = fmt.Errorf("%s: %w", report.Source, err) // what is wrong with the bytes says nothing of whence they came
	}
	if !o.json {
		return err
	}
	r := convertResult{
		Source: report.Source, Target: o.target, Format: report.Format, Wrappers: report.Wrappers, VirtualBytes: report.VirtualBytes,
		ReadBytes: report.ReadBytes, WrittenBytes: report.WrittenBytes, ContentHash: report.ContentHash,
		ResumedAt: report.ResumedAt, StartedOver: report.StartedOver, Seconds: time.Since(started).Seconds(), ExitCode: exitCode(err),
	}
	if err != nil {
		r.Message = explain(err)
	}
	if printErr := json.NewEncoder(o.stdout).Encode(r); err == nil && printErr != nil {
		return fmt.Errorf("print the result: %w", printErr)
	}
	return err
}

// convert writes what was asked for.
func (o *convertOptions) convert(ctx context.Context) (transfer.Report, error) {
	switch image.Format(o.output) {
	case image.Raw:
		return o.toRaw(ctx)
	case image.QCOW2:
		return o.toQCOW2(ctx)
	default:
		return transfer.Report{}, usage("--output-format is %q: raw and qcow2 can be written", o.output)
	}
}

// toRaw checks what can be checked without reading anything, and transfers.
func (o *convertOptions) toRaw(ctx context.Context) (report transfer.Report, err error) {
	j, err := o.job()
	if err != nil {
		return report, err
	}
	path, block, err := o.targetPath()
	if err != nil {
		return report, err
	}
	kept, err := openResumption(o.resume, path)
	if err != nil {
		return report, err
	}
	if kept != nil {
		defer func() { err = o.endResumption(kept, path, report, err) }()
		j.Checkpoint, j.Resume, j.Resumed = kept.save, kept.checkpoint, kept.resumed
	}
	makeTarget, err := o.targetMaker(path, block, kept)
	if err != nil {
		return report, err
	}
	if j.Resume != nil {
		o.head = image.HeadBytes // most of the image won't be read
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
	j.Make = func(size int64) (target.Target, error) {
		disk, err := makeTarget(size)
		if err == nil {
			j.Target = disk
		}
		return disk, err
	}
	defer func() {
		if j.Target != nil {
			err = firstError(err, j.Target.Close())
		}
	}()
	return transfer.Run(ctx, j)
}

// job is what the flags say of the transfer.
func (o *convertOptions) job() (j transfer.Job, err error) {
	if j.Checksum, err = stream.ParseChecksum(o.checksum); err != nil {
		return j, usage("--checksum: %v", err)
	}
	if j.Limits, err = o.limits(); err != nil {
		return j, err
	}
	if j.Scratch, err = o.scratchOptions(); err != nil {
		return j, err
	}
	j.Format, err = o.imageFormat()
	j.Member, j.Hash, j.Verify = o.member, o.json, o.verify
	return j, err
}

// scratchOptions are where the image may be kept.
func (o *convertOptions) scratchOptions() (transfer.Scratch, error) {
	s := transfer.Scratch{Dir: o.scratch}
	if o.scratch == "" {
		if o.scratchSize != "" {
			return s, usage("--scratch-size is of no use without --scratch DIR")
		}
		return s, nil
	}
	if info, err := os.Stat(o.scratch); err != nil || !info.IsDir() {
		return s, usage("--scratch is %q: name a directory that exists", o.scratch)
	}
	if o.scratchSize == "" {
		return s, nil
	}
	q, err := resource.ParseQuantity(o.scratchSize)
	if err != nil || q.Value() <= 0 {
		return s, usage("--scratch-size is %q: give a size such as 20Gi", o.scratchSize)
	}
	s.Bytes = q.Value()
	return s, nil
}

// endResumption removes what isn't needed any more, and tells the person what is.
func (o *convertOptions) endResumption(kept *resumption, path string, report transfer.Report, err error) error {
	if report.StartedOver != "" {
		fmt.Fprintf(o.stderr, "vmdisk: started over: %s\n", report.StartedOver)
	}
	goesOn, endErr := kept.end(path, err)
	if goesOn {
		fmt.Fprintln(o.stderr, "vmdisk: the same command goes on from where this one has come")
	}
	return firstError(err, endErr)
}

// targetPath looks at what TARGET names, and answers its path and whether it is a block device.
func (o *convertOptions) targetPath() (path string, block bool, err error) {
	if o.target == "" || o.target == "-" {
		return "", false, usage("TARGET is %q: name a file or a block device; a disk with holes can't be written to standard output, but an image of it can, with '-O qcow2'", o.target)
	}
	path, err = resolve(o.target)
	if err != nil {
		return "", false, err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, false, nil
	case err != nil:
		return "", false, usage("TARGET %s: %v", o.target, err)
	case o.isSource(info):
		return "", false, usage("SOURCE and TARGET are the same: writing %s would destroy what is read", o.target)
	case info.IsDir():
		return "", false, usage("TARGET %s is a directory: name a file in it", o.target)
	case info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0:
		return path, true, nil
	case !info.Mode().IsRegular():
		return "", false, usage("TARGET %s is neither a file nor a block device", o.target)
	}
	return path, false, nil
}

// targetMaker answers what makes the target. Nothing is changed yet.
func (o *convertOptions) targetMaker(path string, block bool, kept *resumption) (func(size int64) (target.Target, error), error) {
	preallocation, ok := map[string]target.Preallocation{"off": target.Sparse, "falloc": target.Falloc, "full": target.Full}[o.preallocation]
	if !ok {
		return nil, usage("--preallocation is %q: off, falloc and full are possible", o.preallocation)
	}
	if block {
		zeroed := o.targetZeroed && (kept == nil || kept.checkpoint == nil) // an earlier conversion has written to it
		return func(int64) (target.Target, error) {
			return target.OpenBlock(target.BlockOptions{Path: path, SizeBytes: target.Unknown, Preallocation: preallocation, Zeroed: zeroed, Exclusive: true})
		}, nil
	}
	return func(size int64) (target.Target, error) {
		options := target.FileOptions{Path: path, SizeBytes: size, Preallocation: preallocation, Whole: true}
		if kept == nil {
			return target.OpenFile(options)
		}
		options.Part, options.Keep = kept.part(path), kept.checkpoint != nil
		t, err := target.OpenFile(options)
		kept.begun = kept.begun || err == nil
		return t, err
	}, nil
}

// resolve follows the links at path, so that the file behind them is replaced and not the link. The file need not exist;
// its directory must.
func resolve(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err == nil {
		return resolved, nil
	}
	if _, linkErr := os.Lstat(path); linkErr == nil {
		return "", usage("TARGET %s is a link to nothing: %v", path, err)
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", usage("TARGET %s: there is no directory %s", path, dir)
	}
	return path, nil
}

// isSource reports whether the source is the same file or device.
func (o *convertOptions) isSource(info fs.FileInfo) bool {
	from, err := os.Stat(o.source)
	if err != nil {
		return false // not a path, or one that fails on its own
	}
	if os.SameFile(from, info) {
		return true
	}
	a, aOK := from.Sys().(*syscall.Stat_t)
	b, bOK := info.Sys().(*syscall.Stat_t)
	const device = fs.ModeDevice
	return aOK && bOK && from.Mode()&device != 0 && info.Mode()&device != 0 && a.Rdev == b.Rdev
}

func firstError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}
