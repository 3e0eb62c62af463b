package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/plan/status"
)

// looks are what is seen of a DataVolume whose phase is another one at each look.
func looks(phases ...cdiv1.DataVolumePhase) func(context.Context) (status.Seen, error) {
	return func(context.Context) (status.Seen, error) {
		if len(phases) == 0 {
			return status.Seen{}, errors.New("looked once too often")
		}
		dv := &cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Status: cdiv1.DataVolumeStatus{Phase: phases[0]}}
		phases = phases[1:]
		return status.Seen{Namespace: "tenant-a", Name: "d", DataVolume: dv, At: time.Unix(0, 0)}, nil
	}
}

func TestStatusEndsAsTheDiskDoes(t *testing.T) {
	for name, c := range map[string]struct {
		watch  bool
		phases []cdiv1.DataVolumePhase
		code   int
		want   []string
	}{
		"ready":                {false, []cdiv1.DataVolumePhase{cdiv1.Succeeded}, exitDone, []string{"filled and ready"}},
		"not ready":            {false, []cdiv1.DataVolumePhase{cdiv1.Pending}, exitDiskNotReady, []string{"waiting for its volume"}},
		"failed":               {false, []cdiv1.DataVolumePhase{cdiv1.Failed}, exitDiskFailed, []string{"failed"}},
		"watched until ready":  {true, []cdiv1.DataVolumePhase{cdiv1.Pending, cdiv1.ImportScheduled, cdiv1.Succeeded}, exitDone, []string{"waiting for its volume", "its worker is starting", "filled and ready"}},
		"watched until failed": {true, []cdiv1.DataVolumePhase{cdiv1.Pending, cdiv1.Failed}, exitDiskFailed, []string{"waiting for its volume", "failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, output := range []string{"text", "json"} {
				var out bytes.Buffer
				o := statusOptions{watch: c.watch, every: time.Nanosecond, output: output, stdout: &out}
				if code := exitCode(o.show(t.Context(), looks(c.phases...))); code != c.code {
					t.Errorf("exit code %d, want %d", code, c.code)
				}
				var got []string
				if output == "text" {
					for _, screen := range strings.Split(strings.TrimSpace(out.String()), "\n\n") {
						if first, doing, ok := strings.Cut(strings.SplitN(screen, "\n", 2)[0], ": "); ok && first == "DataVolume tenant-a/d" {
							got = append(got, doing)
						}
					}
				} else {
					for d := json.NewDecoder(&out); d.More(); {
						var r status.Report
						if err := d.Decode(&r); err != nil {
							t.Fatal(err)
						}
						got = append(got, r.Doing)
					}
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", output, diff)
				}
			}
		})
	}
}

func TestAWatchIsStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	look := func(context.Context) (status.Seen, error) {
		stop()
		return looks(cdiv1.Pending)(ctx)
	}
	o := statusOptions{watch: true, every: time.Hour, output: "text", stdout: &bytes.Buffer{}}
	if code := exitCode(o.show(ctx, look)); code != exitStopped {
		t.Errorf("exit code %d", code)
	}
}

func TestStatusSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no name":   {nil, "vmdisk: vmdisk status takes NAME, and got 0 arguments: see 'vmdisk status --help'\n"},
		"an output": {[]string{"d", "-o", "x"}, "vmdisk: --output is \"x\": set it to text or json\n"},
		"too often": {[]string{"d", "--every=10ms"}, "vmdisk: --every is 10ms: a worker tells its progress once a second, so set it to 1s or more\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(ran{exitUsage, "", c.want}, runHere(t, nil, append([]string{"status"}, c.args...)...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
