package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/formats"
	"vmdisk.io/vmdisk/internal/source"
)

// mapOptions are the arguments and flags of "vmdisk map".
type mapOptions struct {
	sourceOptions
	output string
	stdout io.Writer
}

func newMapCommand() *cobra.Command {
	var o mapOptions
	cmd := &cobra.Command{
		Use:   "map SOURCE",
		Short: "Show which parts of the disk in an image hold data, and where",
		Long: "Show which parts of the disk in an image hold data, and where in the image. Only the image's tables are read.\n\n" +
			sourceHelp + "\nThe image must be readable at any place, so a pipe or a server without range requests won't do.\n" +
			"With -o json the output is that of 'qemu-img map --output=json'." + exitHelp(),
		Args: arguments("SOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.source, o.stdin, o.stdout = args[0], cmd.InOrStdin(), cmd.OutOrStdout()
			return runMap(cmd.Context(), o)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text or json")
	return cmd
}

func runMap(ctx context.Context, o mapOptions) (err error) {
	out := bufio.NewWriter(o.stdout)
	printer, err := newMapPrinter(o.output, out)
	if err != nil {
		return err
	}
	opened, err := o.openImage(ctx)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, opened.source.Close()) }()
	printer.begin()
	if err := image.Map(opened.image, printer.print); err != nil {
		return opened.named(err)
	}
	printer.end()
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print the map: %w", err)
	}
	return nil
}

// openedImage is an image that can be read at any place.
type openedImage struct {
	source      source.Source
	description source.Description
	image       image.Image
}

// named says in an image's refusal which image that is.
func (i openedImage) named(err error) error {
	var refused *image.Refused
	if errors.As(err, &refused) {
		return fmt.Errorf("%s: %w", i.description.Name, err)
	}
	return err
}

// openImage opens the source and the image in it. The caller closes the source unless there is an error.
func (o *sourceOptions) openImage(ctx context.Context) (i openedImage, err error) {
	limits, err := o.limits()
	if err != nil {
		return i, err
	}
	format, err := o.imageFormat()
	if err != nil {
		return i, err
	}
	o.head = image.HeadBytes
	if i.source, err = o.open(); err != nil {
		return i, err
	}
	defer func() {
		if err != nil {
			err = firstError(err, i.source.Close())
		}
	}()
	if i.description, err = i.source.Describe(ctx); err != nil {
		return i, err
	}
	if !i.description.Ranges {
		return i, &source.Error{Reason: source.ForwardOnly, Permanent: true, Message: i.description.Name +
			" can only be read from its beginning to its end, and an image's tables may lie anywhere: save it as a file first"}
	}
	i.image, err = formats.OpenAs(format, anywhere(ctx, i.source, i.description.Length), i.description.Length, limits)
	return i, i.named(err)
}

// anywhere reads a source at any place, and tells its holes where the source does.
func anywhere(ctx context.Context, s source.Source, length int64) io.ReaderAt {
	r := source.NewCache(source.ReaderAt{Context: ctx, Source: s}, length)
	if finder, ok := s.(image.HoleFinder); ok {
		return struct {
			io.ReaderAt
			image.HoleFinder
		}{r, finder}
	}
	return r
}

// mapPrinter prints a map.
type mapPrinter interface {
	begin()
	print(m image.Mapping) error
	end()
}

func newMapPrinter(output string, w *bufio.Writer) (mapPrinter, error) {
	switch output {
	case "json":
		return &jsonMap{w: w}, nil
	case "text":
		return &textMap{w: w}, nil
	default:
		return nil, usage("--output is %q: text and json are possible", output)
	}
}

// jsonMap prints what 'qemu-img map --output=json' prints, one run on each line.
type jsonMap struct {
	w    *bufio.Writer
	some bool
}

func (p *jsonMap) begin() { fmt.Fprint(p.w, "[") }
func (p *jsonMap) end()   { fmt.Fprintln(p.w, "]") }

func (p *jsonMap) print(m image.Mapping) error {
	if p.some {
		fmt.Fprint(p.w, ",\n")
	}
	p.some = true
	fmt.Fprintf(p.w, `{ "start": %d, "length": %d, "depth": 0, "present": %t, "zero": %t, "data": %t, "compressed": %t`,
		m.Start, m.Len, m.Present, m.Zero, m.Data, m.Compressed)
	if m.Offset != image.NoOffset {
		fmt.Fprintf(p.w, `, "offset": %d`, m.Offset)
	}
	_, err := fmt.Fprint(p.w, "}")
	return err
}

// textMap prints a table for people.
type textMap struct{ w *bufio.Writer }

func (p *textMap) begin() {
	fmt.Fprintf(p.w, "%16s %16s  %-10s %16s\n", "START", "LENGTH", "IS", "OFFSET")
}
func (p *textMap) end() {}

func (p *textMap) print(m image.Mapping) error {
	is, offset := "zero", "-"
	switch {
	case m.Compressed:
		is = "compressed"
	case m.Data:
		is = "data"
	}
	if m.Offset != image.NoOffset {
		offset = fmt.Sprint(m.Offset)
	}
	_, err := fmt.Fprintf(p.w, "%16d %16d  %-10s %16s\n", m.Start, m.Len, is, offset)
	return err
}
