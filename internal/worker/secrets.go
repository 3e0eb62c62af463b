package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/source/http"
)

// The files in a job's CredentialsDir, by the names that CDI gives to a Secret's keys.
const (
	userFile     = "accessKeyId"
	passwordFile = "secretKey"
)

// maxSecret is the size in bytes up to which a mounted file is read; Kubernetes has the same limit.
const maxSecret = 1 << 20

// httpOptions reads what a job refers to and puts it on top of ground.
func httpOptions(spec job.HTTP, ground http.Options) (http.Options, error) {
	o := ground
	o.URL, o.InsecureSkipVerify = spec.URL, spec.InsecureSkipVerify
	o.Headers = append(o.Headers[:len(o.Headers):len(o.Headers)], spec.Headers...)
	for _, dir := range spec.HeaderDirs {
		files, err := readDir(dir)
		if err != nil {
			return o, err
		}
		for _, f := range files {
			o.Headers = append(o.Headers, strings.TrimSpace(f.content))
		}
	}
	if spec.CredentialsDir != "" {
		files, err := readDir(spec.CredentialsDir)
		if err != nil {
			return o, err
		}
		for _, f := range files {
			switch f.name {
			case userFile:
				o.User = strings.TrimSpace(f.content)
			case passwordFile:
				o.Password = strings.TrimSpace(f.content)
			}
		}
	}
	if spec.CADir != "" {
		files, err := readDir(spec.CADir)
		if err != nil {
			return o, err
		}
		o.CAs = map[string][]byte{}
		for _, f := range files {
			o.CAs[f.name] = []byte(f.content)
		}
	}
	return o, nil
}

// mounted is a key of a mounted Secret or ConfigMap.
type mounted struct{ name, content string }

// readDir reads the regular files of a mounted volume, by name, also where they are links into the volume's hidden
// directories, which is how the kubelet mounts them.
func readDir(dir string) ([]mounted, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, unreadable(dir, err)
	}
	var files []mounted
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || strings.HasPrefix(e.Name(), "..")) {
			continue
		}
		if err != nil {
			return nil, unreadable(path, err)
		}
		if info.Size() > maxSecret {
			return nil, broken("%s has %d bytes, more than a Secret can have", path, info.Size())
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, unreadable(path, err)
		}
		files = append(files, mounted{e.Name(), string(content)})
	}
	return files, nil
}
