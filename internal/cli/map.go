package cli

import (
	"bufio"
	"context"
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
	in, err := o.openHead(ctx)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, in.source.Close()) }()
	if !in.description.Ranges {
		return &source.Error{Reason: source.ForwardOnly, Permanent: true, Message: in.description.Name +
			" can only be read from its beginning to its end, and an image's tables may lie anywhere: save it as a file first"}
	}
	img, err := formats.OpenAs(in.format, in.withHoles(in.anywhere(ctx)), in.description.Length, in.limits)
	if err != nil {
		return in.named(err)
	}
	printer.begin()
	if err := image.Map(img, in.description.Length, printer.print); err != nil {
		return in.named(err)
	}
	printer.end()
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print the map: %w", err)
	}
	return nil
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
