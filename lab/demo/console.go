package demo

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
)

// console is the reader of a serial line: it shows each line with a margin, remembers the last ones, and tells when
// the line spoke and when it asks for a login.
type console struct {
	// spoke has an element after the line said something; prompt is closed when "login:" showed.
	spoke  chan struct{}
	prompt chan struct{}

	mu       sync.Mutex
	out      io.Writer
	line     []byte // the unfinished line
	lines    []string
	prompted bool
}

// maxLine bounds an unfinished line: a guest may print without end.
const maxLine = 4096

func newConsole(out io.Writer) *console {
	return &console{spoke: make(chan struct{}, 1), prompt: make(chan struct{}), out: out}
}

// Write takes what came over the line. It never fails: a terminal that went away doesn't stop the boot.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.spoke <- struct{}{}:
	default:
	}
	for _, b := range p {
		if b == '\n' || len(c.line) >= maxLine {
			c.finish()
		}
		if b != '\n' {
			c.line = append(c.line, b)
		}
	}
	// A prompt has no end of line. Debian's is "<hostname> login: ", getty(8).
	if !c.prompted && bytes.Contains(c.line, []byte(" login:")) {
		c.prompted = true
		close(c.prompt)
	}
	return len(p), nil
}

// flush shows an unfinished line.
func (c *console) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.line) > 0 {
		c.finish()
	}
}

// last returns the last lines that weren't empty, indented; "" if there were none.
func (c *console) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lines) == 0 {
		return ""
	}
	return tail(strings.Join(c.lines, "\n"), lastLines)
}

func (c *console) finish() {
	text := plain(c.line)
	c.line = c.line[:0]
	if text == "" {
		return
	}
	if c.lines = append(c.lines, text); len(c.lines) > lastLines {
		c.lines = c.lines[1:]
	}
	// The reader of the demo may be gone (a closed pipe); the boot goes on.
	_, _ = fmt.Fprintf(c.out, "  | %s\n", text)
}

// plain drops what would move the cursor or clear the reader's screen: escape sequences (ECMA-48) and controls.
func plain(line []byte) string {
	escape := regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07]*\x07|[()][A-Z0-9]|[@-Z\\\\^_a-z=>])")
	text := escape.ReplaceAll(line, nil)
	text = bytes.Map(func(r rune) rune {
		if (r < ' ' && r != '\t') || r == 0x7f {
			return -1
		}
		return r
	}, text)
	return strings.TrimRight(string(text), " \t")
}
