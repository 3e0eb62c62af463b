package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"vmdisk.io/vmdisk/lab/image"
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
		files := []image.File{{Path: "/program", Source: path, Mode: 0o755}}
		if _, err := image.Build(archive, ref, files, image.Config{Entrypoint: []string{"/program"}}); err != nil {
			return err
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
