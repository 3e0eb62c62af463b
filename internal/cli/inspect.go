package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/formats"
	"vmdisk.io/vmdisk/internal/plan/volume"
	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/transfer"
)

// inspectOptions are the arguments and flags of "vmdisk inspect".
type inspectOptions struct {
	sourceOptions
	output string
	stdout io.Writer
}

func newInspectCommand() *cobra.Command {
	var o inspectOptions
	cmd := &cobra.Command{
		Use:   "inspect SOURCE",
		Short: "Say what an image is, how large its disk is, and what claim that needs",
		Long: "Say what an image is, how large its disk is, and what claim that needs. Only the image's header and tables\n" +
			"are read, and from a pipe or a server without range requests only its beginning.\n\n" + sourceHelp + exitHelp(),
		Args: arguments("SOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.source, o.stdin, o.stdout = args[0], cmd.InOrStdin(), cmd.OutOrStdout()
			return runInspect(cmd.Context(), o)
		},
	}
	o.addFlags(cmd)
	o.addMemberFlag(cmd)
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text or json")
	return cmd
}

// inspection is what -o json prints.
type inspection struct {
	Source string `json:"source"`
	// Bytes is the image's own length; -1 where the source doesn't tell.
	Bytes int64 `json:"bytes"`
	// Wrappers are what the image is packed in, outermost first.
	Wrappers    []image.Format `json:"wrappers,omitempty"`
	Format      image.Format   `json:"format"`
	Variant     string         `json:"variant,omitempty"`
	Compression string         `json:"compression,omitempty"`
	References  []reference    `json:"references,omitempty"`
	// VirtualBytes is the disk's length; -1 where only the end of the stream tells.
	VirtualBytes int64 `json:"virtualBytes,omitempty"`
	// Data is missing where the tables can't be read.
	Data *dataExtents `json:"data,omitempty"`
	// Forward is missing where the tables can't be read.
	Forward *forwardPass `json:"forward,omitempty"`
	// Claim is the size that a claim needs, in bytes; missing where the disk's isn't known.
	Claim   *claimSizes `json:"claim,omitempty"`
	Refused *refusal    `json:"refused,omitempty"`
}

type reference struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// dataExtents are the parts of the disk that aren't known to be zero.
type dataExtents struct {
	Extents         int64 `json:"extents"`
	Bytes           int64 `json:"bytes"`
	CompressedBytes int64 `json:"compressedBytes"`
}

// forwardPass says whether one pass decodes the image, so that it may come from a pipe or a server without range requests.
type forwardPass struct {
	// Possible is within what --memory allows.
	Possible bool `json:"possible"`
	// MemoryBytes is how much the pass holds back and remembers at most, rounded up.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
}

// claimSizes are by the claim's volumeMode. Filesystem has CDI's default overhead on top.
type claimSizes struct {
	Block      int64 `json:"block"`
	Filesystem int64 `json:"filesystem"`
}

type refusal struct {
	Reason  image.Reason `json:"reason"`
	Message string       `json:"message"`
}

// runInspect prints what it has found, also of an image that is refused; then its error is the refusal.
func runInspect(ctx context.Context, o inspectOptions) error {
	if o.output != "text" && o.output != "json" {
		return usage("--output is %q: text and json are possible", o.output)
	}
	found, err := o.inspect(ctx)
	var refused *image.Refused
	switch {
	case errors.As(err, &refused):
		found.Refused = &refusal{refused.Reason, refused.Message}
	case err != nil:
		return err
	}
	if printErr := found.print(o); printErr != nil {
		return fmt.Errorf("print what was found: %w", printErr)
	}
	return err
}

func (o *inspectOptions) inspect(ctx context.Context) (found inspection, err error) {
	in, err := o.openHead(ctx)
	if err != nil {
		return found, err
	}
	defer func() { err = firstError(in.named(err), in.source.Close()) }()
	found.Source, found.Bytes = in.description.Name, in.description.Length
	if !in.description.Ranges {
		return found, found.fromBeginning(ctx, in, o.member)
	}
	tables := formats.NewTables(in.anywhere(ctx))
	head, err := headOf(io.NewSectionReader(tables, 0, in.description.Length))
	if err != nil {
		return found, fmt.Errorf("read %s: %w", found.Source, err)
	}
	if in.format != image.Raw && transfer.IsWrapper(image.Detect(head)) || o.member != "" {
		return found, found.fromBeginning(ctx, in, o.member)
	}
	found.describe(in.format, head)
	img, err := formats.OpenAs(in.format, in.withHoles(tables), in.description.Length, in.limits)
	if err != nil {
		return found, err
	}
	unmarked := found.Format == image.Raw
	found.judgeEnd(img.Format())
	found.size(img.Size())
	data := &dataExtents{}
	if err := image.Map(img, in.description.Length, data.add); err != nil {
		return found, err
	}
	found.Data = data
	found.Forward = &forwardPass{Possible: true}
	if !unmarked {
		found.Forward.MemoryBytes, found.Forward.Possible, err = tables.ForwardMemory(ctx, head, in.description.Length, in.limits)
	}
	return found, err
}

// fromBeginning takes what the beginning tells, of an image that can't be read at any place: its source can't be, or it is
// packed.
func (i *inspection) fromBeginning(ctx context.Context, in opened, member string) (err error) {
	body, err := in.source.Open(ctx, 0, -1)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, body.Close()) }()
	content, err := transfer.Unwrap(body, transfer.Wrapping{Length: in.description.Length, Format: in.format, Member: member, Limits: in.limits})
	defer func() { err = firstError(err, content.Close()) }()
	i.Wrappers = content.Wrappers
	var refused *image.Refused
	if err != nil && !errors.As(err, &refused) {
		err = fmt.Errorf("read %s: %w", i.Source, err)
	}
	if err != nil {
		return err
	}
	i.describe(in.format, content.Head)
	f, err := formats.BeginAs(in.format, formats.Beginning{Head: content.Head, Length: content.Length}, in.limits)
	if err != nil {
		return err
	}
	i.judgeEnd(f.Format())
	i.size(f.Size())
	return nil
}

// headOf reads as much from the beginning of an image as judging it takes.
func headOf(r io.Reader) ([]byte, error) {
	for want := image.HeadBytes; ; {
		head, whole, err := stream.Peek(r, want)
		if err != nil {
			return nil, err
		}
		more := formats.Wants(head)
		if more <= want || len(head) < want {
			return head, nil
		}
		r, want = whole, more
	}
}

// describe takes what the image's beginning tells.
func (i *inspection) describe(format image.Format, head []byte) {
	i.Format = image.Detect(head)
	if format == image.Raw {
		i.Format = format
		return
	}
	d := formats.Details(head)
	i.Variant, i.Compression = d.Variant, d.Compression
	for _, r := range d.References {
		i.References = append(i.References, reference(r))
	}
}

// judgeEnd takes the format that the image turned out to have: a fixed VHD is only told by its end.
func (i *inspection) judgeEnd(format image.Format) {
	if i.Format == image.Raw && format == image.VHD {
		i.Format, i.Variant = format, "fixed"
	}
}

// size takes the disk's size. A claim for less than the smallest disk is refused, so that is what it needs at least.
func (i *inspection) size(bytes int64) {
	i.VirtualBytes = bytes
	if bytes != image.Unknown {
		bytes = max(bytes, volume.MiB)
		i.Claim = &claimSizes{Block: bytes, Filesystem: volume.Inflated(bytes, cdi.DefaultOverhead)}
	}
}

// add counts a run of the disk.
func (d *dataExtents) add(m image.Mapping) error {
	if m.Data {
		d.Extents++
		d.Bytes += m.Len
	}
	if m.Compressed {
		d.CompressedBytes += m.Len
	}
	return nil
}

// print prints it as JSON or for people.
func (i inspection) print(o inspectOptions) error {
	if o.output == "json" {
		e := json.NewEncoder(o.stdout)
		e.SetIndent("", "  ")
		return e.Encode(i)
	}
	var text bytes.Buffer
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&text, "%-13s %s\n", name+":", fmt.Sprintf(format, args...))
	}
	line("source", "%s", i.Source)
	if len(i.Wrappers) > 0 {
		line("packed in", "%s", strings.Trim(fmt.Sprint(i.Wrappers), "[]"))
	}
	line("format", "%s", i.Format)
	if i.Variant != "" {
		line("variant", "%s", i.Variant)
	}
	if i.Compression != "" {
		line("compression", "%s", i.Compression)
	}
	for _, r := range i.References {
		line(r.Kind, "%q (never opened)", r.Name)
	}
	switch {
	case i.VirtualBytes == image.Unknown:
		line("virtual size", "unknown until its end is read")
	case i.VirtualBytes > 0:
		line("virtual size", "%d bytes", i.VirtualBytes)
	}
	if i.Data != nil {
		line("data", "%d bytes in %d extents, %d bytes of them compressed", i.Data.Bytes, i.Data.Extents, i.Data.CompressedBytes)
	}
	if f := i.Forward; f != nil {
		switch {
		case !f.Possible:
			line("one pass", "not within --memory: a server must answer range requests, and a pipe won't do")
		case f.MemoryBytes > 0:
			line("one pass", "within %d bytes of memory", f.MemoryBytes)
		default:
			line("one pass", "nothing is held back")
		}
	}
	if i.Claim != nil {
		line("claim", "%d bytes as Block, %d bytes as Filesystem", i.Claim.Block, i.Claim.Filesystem)
	}
	_, err := o.stdout.Write(text.Bytes())
	return err
}
