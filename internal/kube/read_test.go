package kube

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/populate"
)

func TestTheEndOfALog(t *testing.T) {
	at := time.Date(2026, 11, 30, 20, 0, 0, 5, time.UTC)
	line := func(after time.Duration, text string) string {
		return at.Add(after).Format(time.RFC3339Nano) + " " + text + "\n"
	}
	first, second := job.Progress{DoneBytes: 1, TotalBytes: 9}, job.Progress{DoneBytes: 5, TotalBytes: 9, Checkpoint: "c", ResumedAt: 3}
	for name, c := range map[string]struct {
		log  string
		want populate.Log
	}{
		"nothing yet":             {"", populate.Log{}},
		"two lines":               {line(0, first.Line()) + line(time.Second, second.Line()), populate.Log{Progress: second, At: at.Add(time.Second)}},
		"a stack behind it":       {line(0, second.Line()) + line(time.Minute, "panic: oh") + line(time.Minute, "\t/x.go:1"), populate.Log{Progress: second, At: at.Add(time.Minute)}},
		"a node without times":    {second.Line() + "\n", populate.Log{}},
		"more than is looked at":  {line(0, first.Line()) + strings.Repeat(line(time.Hour, strings.Repeat("x", 100)), 3000) + line(0, second.Line()), populate.Log{Progress: first, At: at.Add(time.Hour)}},
		"a line that is too long": {line(0, first.Line()) + line(0, strings.Repeat("x", 100<<10)), populate.Log{Progress: first, At: at}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(&c.want, lastOf(strings.NewReader(c.log))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
