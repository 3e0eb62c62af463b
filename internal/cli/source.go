package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/file"
	"vmdisk.io/vmdisk/internal/source/http"
	"vmdisk.io/vmdisk/internal/source/pipe"
)

// standardInput is the SOURCE that is no path.
const standardInput = "-"

// minMemory is the least that --memory takes, in bytes: less than one piece of an image makes no sense.
const minMemory = 1 << 20

// sourceOptions are what the commands that read an image have in common.
type sourceOptions struct {
	source  string // path, URL, or standardInput
	format  string
	member  string
	memory  string
	cacerts []string
	headers []string
	stdin   io.Reader

	// head is how many bytes are asked for at first; 0: all of them.
	head int64
}

// opened is a source, and what holds for the image in it.
type opened struct {
	source      source.Source
	description source.Description
	limits      image.Limits
	format      image.Format // that it must be of, if any
}

// openHead checks the flags, opens the source to read an image's tables, and asks it what it is. The caller closes the
// source unless there is an error.
func (o *sourceOptions) openHead(ctx context.Context) (i opened, err error) {
	if i.limits, err = o.limits(); err != nil {
		return i, err
	}
	if i.format, err = o.imageFormat(); err != nil {
		return i, err
	}
	o.head = image.HeadBytes
	if i.source, err = o.open(); err != nil {
		return i, err
	}
	if i.description, err = i.source.Describe(ctx); err != nil {
		return i, firstError(err, i.source.Close())
	}
	return i, nil
}

// named says in an image's refusal which image that is.
func (i opened) named(err error) error {
	var refused *image.Refused
	if errors.As(err, &refused) {
		return fmt.Errorf("%s: %w", i.description.Name, err)
	}
	return err
}

// anywhere reads the source at any place, which it must be able to.
func (i opened) anywhere(ctx context.Context) io.ReaderAt {
	return source.NewCache(source.ReaderAt{Context: ctx, Source: i.source}, i.description.Length)
}

// withHoles lets r tell the source's holes, where the source knows them.
func (i opened) withHoles(r io.ReaderAt) io.ReaderAt {
	finder, ok := i.source.(image.HoleFinder)
	if !ok {
		return r
	}
	return struct {
		io.ReaderAt
		image.HoleFinder
	}{r, finder}
}

func (o *sourceOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.format, "format", "", "what the image is, such as qcow2: anything else is refused. raw takes the bytes as they are, whatever they look like (default: detected)")
	f.StringVar(&o.memory, "memory", "", "how much decoding may hold back and remember, such as 64Mi; an image that needs more is refused, unless it can be read at any place (default 64Mi)")
	f.StringArrayVar(&o.cacerts, "cacert", nil, "PEM file of certificate authorities to trust besides the system's (may be given several times)")
	f.StringArrayVar(&o.headers, "header", nil, "header to send with each request, 'Name: value', to the URL's own host only (may be given several times)")
}

// addMemberFlag is for the commands that read a packed image.
func (o *sourceOptions) addMemberFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.member, "member", "", "the disk's file in a tar archive or OVA, by its name there (default: the only file that is a disk)")
}

// sourceHelp says what SOURCE can be.
const sourceHelp = `SOURCE is a path, an http or https URL, or - for standard input. A user and password for a server are
part of its URL. An image may be packed with gzip, xz, zstd, bzip2 or tar (as an OVA is), also one in
the other. What an image refers to is never opened.`

// limits are the limits that hold for the image.
func (o *sourceOptions) limits() (image.Limits, error) {
	if o.memory == "" {
		return image.Limits{}, nil
	}
	q, err := resource.ParseQuantity(o.memory)
	if err != nil || q.Value() < minMemory {
		return image.Limits{}, usage("--memory is %q: give a size of at least 1Mi, such as 64Mi or 256Mi", o.memory)
	}
	return image.Limits{MemoryBytes: q.Value()}, nil
}

// imageFormat is what the image must be.
func (o *sourceOptions) imageFormat() (image.Format, error) {
	switch f := image.Format(o.format); {
	case f == "" || image.RefuseFormat(f) == nil:
		return f, nil
	case strings.ContainsAny(o.format, " ") || len(o.format) > 20:
		return "", usage("--format is %q: raw and qcow2 are examples", o.format)
	default:
		return "", usage("--format is %q, which isn't read by this version, or is none: leave it out, and the image tells", o.format)
	}
}

// open makes the source. Nothing is read or sent yet, but a path is opened.
func (o *sourceOptions) open() (source.Source, error) {
	switch {
	case o.source == "":
		return nil, usage("SOURCE is empty: give a path, a URL, or - for standard input")
	case o.source == standardInput:
		f, ok := o.stdin.(*os.File)
		if !ok {
			return nil, usage("there is no standard input")
		}
		if info, err := f.Stat(); err == nil && info.Mode()&fs.ModeCharDevice != 0 {
			return nil, usage("standard input is a terminal: pipe an image into this command, or name its path or URL")
		}
		return pipe.New(f, "standard input"), nil
	case regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`).MatchString(o.source):
		return o.openURL()
	default:
		return openPath(o.source)
	}
}

func (o *sourceOptions) openURL() (source.Source, error) {
	cas := map[string][]byte{}
	for _, path := range o.cacerts {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, usage("--cacert can't be read: %v", err)
		}
		cas[path] = pem
	}
	return http.New(http.Options{URL: o.source, Headers: o.headers, CAs: cas, Head: o.head, Advice: http.Advice{
		Authority:   "give that authority's certificate with --cacert",
		Credentials: "put them into the URL, as in https://user:password@host/",
	}})
}

// openPath opens a file, a block device, or a named pipe such as a shell's <(command).
func openPath(path string) (source.Source, error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return file.New(path) // which says what is wrong
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // so that Ctrl-C ends the wait for a writer
	if err != nil {
		return nil, &source.Error{Reason: source.ReadFailed, Err: err, Message: err.Error()}
	}
	return &ownedPipe{pipe.New(f, path), f}, nil
}

// ownedPipe is a pipe that was opened for this source.
type ownedPipe struct {
	source.Source
	f *os.File
}

// Close implements source.Source.
func (p *ownedPipe) Close() error { return errors.Join(p.Source.Close(), p.f.Close()) }
