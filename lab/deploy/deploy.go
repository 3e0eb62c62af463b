package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"vmdisk.io/vmdisk/lab/cluster"
	"vmdisk.io/vmdisk/lab/image"
)

// Options say where the sources are and who listens.
type Options struct {
	// Out receives one line per step; nil drops them.
	Out io.Writer
	// Source is the root of the clone that is built; empty means the working directory.
	Source string
}

func (o Options) say(format string, args ...any) {
	if o.Out != nil {
		_, _ = fmt.Fprintf(o.Out, format+"\n", args...) // a terminal that went away must not stop the deployment
	}
}

// product is a program of ours and the image that it goes into.
type product struct {
	name        string
	mainPackage string
	build       func(out, ref, program string) (id string, err error)
}

func vmdisk() product { return product{"vmdisk", "./cmd/vmdisk", image.VMDisk} }
func tools() product  { return product{"lab-tools", "./lab/tools", image.Tools} }

// Run builds vmdisk from the sources, installs it in the lab, or brings it up to date there, and returns once the
// controller is available. The image's tag follows from its content: an unchanged vmdisk is left running.
func Run(ctx context.Context, o Options) error {
	start := time.Now()
	access, err := cluster.RESTConfig()
	if err != nil {
		return fmt.Errorf("%w (make lab-up starts it)", err)
	}
	ref, err := o.load(ctx, vmdisk())
	if err != nil {
		return err
	}
	o.say("installing the kinds and objects")
	if err := Apply(ctx, access, ref); err != nil {
		return err
	}
	if err := waitAvailable(ctx, access); err != nil {
		return err
	}
	o.say("vmdisk runs in namespace vmdisk (image %s, %s)", ref, time.Since(start).Round(100*time.Millisecond))
	return nil
}

// Tools builds the image for test pods, loads it into both nodes and returns its name.
func Tools(ctx context.Context, o Options) (ref string, err error) {
	return o.load(ctx, tools())
}

// Image writes vmdisk's image to an archive that any container tool loads or pushes.
func Image(ctx context.Context, o Options, ref, archive string) error {
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return fmt.Errorf("make the archive's directory: %w", err)
	}
	return scratch(func(dir string) error {
		p, program := vmdisk(), filepath.Join(dir, "program")
		if err := image.Compile(ctx, o.Source, p.mainPackage, program); err != nil {
			return err
		}
		if _, err := p.build(archive, ref, program); err != nil {
			return err
		}
		o.say("wrote the image %s to %s", ref, archive)
		return nil
	})
}

// load compiles a product, makes its image and loads that into both nodes.
func (o Options) load(ctx context.Context, p product) (ref string, err error) {
	err = scratch(func(dir string) error {
		program, archive := filepath.Join(dir, "program"), filepath.Join(dir, "image.tar")
		o.say("building %s", p.name)
		if err := image.Compile(ctx, o.Source, p.mainPackage, program); err != nil {
			return err
		}
		// The first archive only serves to learn the image's ID, which names the second.
		id, err := p.build(archive, p.name+":unnamed", program)
		if err != nil {
			return err
		}
		ref = p.name + ":" + strings.TrimPrefix(id, "sha256:")[:12]
		if _, err := p.build(archive, ref, program); err != nil {
			return err
		}
		o.say("loading %s into the nodes", ref)
		return cluster.Load(ctx, archive)
	})
	return ref, err
}

// scratch runs something with a directory of its own, and removes that afterwards.
func scratch(do func(dir string) error) error {
	dir, err := os.MkdirTemp("", "vmdisk-deploy-")
	if err != nil {
		return fmt.Errorf("make a directory to build in: %w", err)
	}
	return errors.Join(do(dir), os.RemoveAll(dir))
}
