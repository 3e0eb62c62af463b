package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// call is what is asked of the API server.
type call struct {
	verb, resource string
}

// calls counts the calls of each kind, and apart from that those that were answered with an error.
type calls struct {
	of     map[call]int
	failed map[call]int
}

func (c calls) total() int {
	var n int
	for _, of := range c.of {
		n += of
	}
	return n
}

// entry is what is of interest in a line of the audit log.
type entry struct {
	Verb      string
	Stage     string
	ObjectRef struct{ Resource, Subresource string }
	// RequestReceivedTimestamp says when the call came.
	RequestReceivedTimestamp time.Time
	ResponseStatus           struct{ Code int }
}

// countCalls counts the calls in an audit log that came after began. Watches are left out: they last.
func countCalls(log io.Reader, began time.Time) (calls, error) {
	c := calls{map[call]int{}, map[call]int{}}
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a line that isn't whole is still being written
			return c, nil
		}
		if err != nil {
			return c, err
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return c, fmt.Errorf("read the audit log: %w", err)
		}
		if e.Stage != "ResponseComplete" || e.Verb == "watch" || e.RequestReceivedTimestamp.Before(began) {
			continue
		}
		what := call{e.Verb, e.ObjectRef.Resource}
		if e.ObjectRef.Subresource != "" {
			what.resource += "/" + e.ObjectRef.Subresource
		}
		c.of[what]++
		if e.ResponseStatus.Code >= 400 {
			c.failed[what]++
		}
	}
}

// quietCalls counts the calls once no more come, but for those that keep the lease.
func quietCalls(ctx context.Context, path string, began time.Time) (calls, error) {
	const quiet = 3 * time.Second
	read := func() (calls, error) {
		log, err := os.Open(path)
		if err != nil {
			return calls{}, fmt.Errorf("open the audit log: %w", err)
		}
		defer log.Close()
		return countCalls(log, began)
	}
	for before := -1; ; {
		c, err := read()
		if err != nil {
			return c, err
		}
		delete(c.of, call{"get", "leases"})
		delete(c.of, call{"update", "leases"})
		if c.total() == before {
			return c, nil
		}
		before = c.total()
		select {
		case <-ctx.Done():
			return c, context.Cause(ctx)
		case <-time.After(quiet):
		}
	}
}
