// Package image makes container images out of files, without Docker and without a registry: one layer, one
// configuration, written as the archive that `ctr images import` and `docker load` take. The same input gives the same
// bytes, so an image's digest says whether it has changed.
//
// It knows what the lab's images hold (VMDisk, Tools). It must not know clusters: loading is lab/cluster's work.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is one file of an image. It belongs to root.
type File struct {
	// Path is absolute, in the image. The directories above it are made.
	Path string
	// Source is the file on this machine whose content is taken; empty means Content.
	Source  string
	Content []byte
	// Mode holds permission bits; zero means 0644.
	Mode fs.FileMode
}

// Config is what a container of the image runs, unless the pod says otherwise.
type Config struct {
	Entrypoint []string
	Cmd        []string
	// User is "uid:gid"; empty means root.
	User string
	// Env holds NAME=value.
	Env []string
}

// Build writes to out (which is replaced) an archive of one image with the name ref, and returns the digest of the
// image's configuration, which is what a container runtime calls the image's ID.
func Build(out, ref string, files []File, config Config) (id string, err error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return "", fmt.Errorf("build image: name %q: %w", ref, err)
	}
	image, err := assemble(files, config)
	if err != nil {
		return "", fmt.Errorf("build image %s: %w", ref, err)
	}
	digest, err := image.ConfigName()
	if err != nil {
		return "", fmt.Errorf("build image %s: digest: %w", ref, err)
	}
	temporary := out + ".new"
	if err := tarball.WriteToFile(temporary, tag, image); err != nil {
		return "", fmt.Errorf("build image %s: write the archive: %w", ref, err)
	}
	if err := os.Rename(temporary, out); err != nil {
		return "", fmt.Errorf("build image %s: %w", ref, err)
	}
	return digest.String(), nil
}

func assemble(files []File, config Config) (v1.Image, error) {
	content, err := archive(files)
	if err != nil {
		return nil, err
	}
	// The archive is imported on the machine that made it: speed matters and size doesn't.
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("make the layer: %w", err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("append the layer: %w", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the empty image's configuration: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{
		Entrypoint: config.Entrypoint,
		Cmd:        config.Cmd,
		User:       config.User,
		Env:        config.Env,
	}
	image, err = mutate.ConfigFile(image, file)
	if err != nil {
		return nil, fmt.Errorf("set the configuration: %w", err)
	}
	return image, nil
}

// archive makes the layer: the files in the order of their paths, each directory before what is in it, no times.
func archive(files []File) ([]byte, error) {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{"/": true}
	for _, file := range files {
		if !path.IsAbs(file.Path) || path.Clean(file.Path) != file.Path || made[file.Path] {
			return nil, fmt.Errorf("path %q of a file is not absolute and clean, or is given twice", file.Path)
		}
		if err := addDirectories(w, path.Dir(file.Path), made); err != nil {
			return nil, err
		}
		made[file.Path] = true
		if err := addFile(w, file); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("end the layer: %w", err)
	}
	return out.Bytes(), nil
}

func addDirectories(w *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := addDirectories(w, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(dir, "/") + "/", Mode: 0o755, ModTime: time.Unix(0, 0)})
	if err != nil {
		return fmt.Errorf("add directory %s: %w", dir, err)
	}
	return nil
}

func addFile(w *tar.Writer, file File) error {
	content := file.Content
	if file.Source != "" {
		var err error
		if content, err = os.ReadFile(file.Source); err != nil {
			return fmt.Errorf("add %s: %w", file.Path, err)
		}
	}
	mode := file.Mode
	if mode == 0 {
		mode = 0o644
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     strings.TrimPrefix(file.Path, "/"),
		Mode:     int64(mode.Perm()),
		Size:     int64(len(content)),
		ModTime:  time.Unix(0, 0),
	}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("add %s: %w", file.Path, err)
	}
	if _, err := w.Write(content); err != nil {
		return fmt.Errorf("add %s: %w", file.Path, err)
	}
	return nil
}
