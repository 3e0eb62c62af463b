package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/job"
)

func TestWorkerLeavesItsResult(t *testing.T) {
	dir := t.TempDir()
	blank := job.Spec{Source: job.Source{Blank: &job.Blank{}}, Target: job.Target{Kind: job.File, Path: filepath.Join(dir, "disk.img"), SizeBytes: 4096}}
	done := job.Result{Version: job.Version, Outcome: job.Succeeded, Format: "raw", VirtualBytes: 4096}
	refused := job.Result{Version: job.Version, Outcome: job.TargetFailed, Reason: "Missing", Message: "look at the filesystem of /none: no such file or directory"}
	nowhere := blank
	nowhere.Target.Path = "/none/disk.img"
	progress := job.Progress{DoneBytes: 4096, TotalBytes: 4096}.Line() + "\n"
	type left struct{ File, Stdout, Err string }
	tests := map[string]struct {
		spec   job.Spec
		text   string // in place of spec
		inAPod bool
		want   left
	}{
		"in a pod, in the termination message": {
			spec: blank, inAPod: true,
			want: left{File: string(done.Encode()), Stdout: progress},
		},
		"elsewhere, on standard output": {
			spec: blank,
			want: left{Stdout: progress + string(done.Encode()) + "\n"},
		},
		"also after a failure": {
			spec: nowhere, inAPod: true,
			want: left{File: string(refused.Encode()), Err: "the disk was not filled: Missing: look at the filesystem of /none: no such file or directory"},
		},
		"also without a job": {
			text: "{", inAPod: true,
			want: left{
				File: string(job.Result{Outcome: job.Broken, Reason: "InvalidJob", Message: "read job from VMDISK_JOB: unexpected end of JSON input"}.Encode()),
				Err:  "the disk was not filled: InvalidJob: read job from VMDISK_JOB: unexpected end of JSON input",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			result := filepath.Join(t.TempDir(), "termination-log")
			if test.inAPod {
				if err := os.WriteFile(result, []byte("from before, and longer than what will be written here, so that it must be cut off: "+string(make([]byte, 4096))), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			text := test.text
			if text == "" {
				var err error
				if text, err = test.spec.Encode(); err != nil {
					t.Fatal(err)
				}
			}
			var stdout bytes.Buffer
			err := runWorker(t.Context(), workerOptions{spec: text, resultPath: result, stdout: &stdout, stderr: &stdout})
			got := left{Stdout: stdout.String()}
			if err != nil {
				got.Err = err.Error()
			}
			b, err := os.ReadFile(result)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			got.File = string(b)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
