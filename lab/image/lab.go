package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

const (
	// user is KubeVirt's qemu user and group, which must be able to read and write what a worker has made.
	user = "107:107"
	// certificates is where Go programs look for the certificate authorities to trust, on Debian and in our images.
	certificates = "/etc/ssl/certs/ca-certificates.crt"
)

// VMDisk builds vmdisk's own image from its static program: /usr/bin/vmdisk, which is the entrypoint, run as 107:107.
// The certificate authorities that this machine trusts go with it, if it has Debian's file of them; without, a worker
// trusts only what a DataVolume's certConfigMap gives it.
func VMDisk(out, ref, program string) (id string, err error) {
	files := []File{{Path: "/usr/bin/vmdisk", Source: program, Mode: 0o755}}
	switch _, err := os.Stat(certificates); {
	case err == nil:
		files = append(files, File{Path: certificates, Source: certificates})
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("build image %s: look for the certificate authorities: %w", ref, err)
	}
	return Build(out, ref, files, Config{Entrypoint: []string{"/usr/bin/vmdisk"}, User: user})
}

// Tools builds the image for test pods from the static program of lab/tools: /lab-tools, which pauses if the pod
// gives no arguments. It runs as root unless the pod says otherwise.
func Tools(out, ref, program string) (id string, err error) {
	return Build(out, ref, []File{{Path: "/lab-tools", Source: program, Mode: 0o755}},
		Config{Entrypoint: []string{"/lab-tools"}, Cmd: []string{"pause"}})
}

// Compile builds the main package (as `go build` names it, seen from directory dir) into a static program at out. The
// same sources give the same bytes.
func Compile(ctx context.Context, dir, mainPackage, out string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, mainPackage)
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s: %w: %s", mainPackage, err, strings.TrimSpace(string(output)))
	}
	return nil
}
