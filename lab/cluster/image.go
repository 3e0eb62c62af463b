package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sync/errgroup"
)

// Load imports a docker-style image archive into both nodes, under the names that the archive gives its images. Pods
// then use it with imagePullPolicy Never.
func Load(ctx context.Context, archive string) error {
	if _, err := os.Stat(archive); err != nil {
		return fmt.Errorf("load an image: %w", err)
	}
	nodes, ctx := errgroup.WithContext(ctx)
	for _, node := range NodeNames() {
		nodes.Go(func() error {
			if _, err := ctr(ctx, node, "images", "import", archive); err != nil {
				return fmt.Errorf("load %s into %s: %w: is the lab up?", archive, node, err)
			}
			return nil
		})
	}
	return nodes.Wait()
}

// dnsImage is the image of the cluster's DNS. Its tag follows from the program, so that a changed one is rolled out.
func dnsImage() (string, error) {
	content, err := os.ReadFile(program("lab-dns"))
	if err != nil {
		return "", fmt.Errorf("read the DNS server's program: %w", err)
	}
	sum := sha256.Sum256(content)
	return "vmdisk-lab/dns:" + hex.EncodeToString(sum[:6]), nil
}

// loadOwnImages gives the nodes the images that the cluster itself needs.
func loadOwnImages(ctx context.Context) error {
	dns, err := dnsImage()
	if err != nil {
		return err
	}
	for ref, path := range map[string]string{pauseImage: program("pause"), dns: program("lab-dns")} {
		if loaded(ctx, ref) {
			continue
		}
		archive := within("image.tar")
		if err := oneProgramImage(archive, ref, path); err != nil {
			return fmt.Errorf("make the image %s: %w", ref, err)
		}
		if err := Load(ctx, archive); err != nil {
			return err
		}
		if err := removeFile(archive); err != nil {
			return err
		}
	}
	return nil
}

// loaded reports whether both nodes have an image of that name.
func loaded(ctx context.Context, ref string) bool {
	for _, node := range NodeNames() {
		out, err := ctr(ctx, node, "images", "list", "-q")
		if err != nil || !strings.Contains("\n"+out, "/"+ref+"\n") {
			return false
		}
	}
	return true
}

// oneProgramImage writes an archive of an image that holds nothing but one static program, which it runs.
func oneProgramImage(archive, ref, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "program", Mode: 0o755, Size: int64(len(content))}); err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	opened, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, opened)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: []string{"/program"}}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	return tarball.WriteToFile(archive, tag, image)
}
