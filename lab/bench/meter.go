package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// usage is what one run has cost. All sizes are in bytes.
type usage struct {
	wall time.Duration
	// cpu is user's and system's time of all programs. What the kernel writes back later is nobody's.
	cpu time.Duration
	// anonymous is the peak of memory that isn't backed by files, of all programs that ran at once.
	anonymous int64
	// resident is the same with what is mapped from files, the programs' own code above all.
	resident int64
	// written is what the programs made the kernel write to storage, getrusage(2)'s ru_oublock.
	written int64
	// served is what the server sent, allocated what the target takes on its filesystem.
	served, allocated int64
	// image is the image's size.
	image int64
}

// lookEvery is how often the memory of running programs is read. A peak that lasts less can be missed, except for the
// resident one, of which the kernel keeps the maximum.
const lookEvery = 10 * time.Millisecond

// meter adds up what programs use.
type meter struct {
	ended   chan struct{}
	looking sync.WaitGroup
	once    sync.Once

	mu      sync.Mutex
	running map[int]bool // by process id
	usage   usage
}

// newMeter starts to look. The caller must stop it.
func newMeter() *meter {
	m := &meter{ended: make(chan struct{}), running: map[int]bool{}}
	m.looking.Go(func() {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			select {
			case <-m.ended:
				return
			case <-ticker.C:
				m.look()
			}
		}
	})
	return m
}

// stop ends the looking; the usage may be read afterwards. It may be called again.
func (m *meter) stop() {
	m.once.Do(func() { close(m.ended) })
	m.looking.Wait()
}

func (m *meter) begin(pid int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running[pid] = true
}

// end counts what the kernel has counted for a process that has ended.
func (m *meter) end(pid int, state *os.ProcessState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, pid)
	m.usage.cpu += state.UserTime() + state.SystemTime()
	if used, ok := state.SysUsage().(*syscall.Rusage); ok {
		const block = 512 // getrusage(2)
		m.usage.written += used.Oublock * block
	}
}

// look adds up the memory of the processes that run.
func (m *meter) look() {
	m.mu.Lock()
	defer m.mu.Unlock()
	var anonymous, resident int64
	for pid := range m.running {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it has just ended
		}
		anonymous += memoryField(string(status), "RssAnon")
		resident += memoryField(string(status), "VmHWM")
	}
	m.usage.anonymous = max(m.usage.anonymous, anonymous)
	m.usage.resident = max(m.usage.resident, resident)
}

// memoryField reads one of the sizes of /proc/PID/status, proc(5), in bytes. It is 0 where there is none, as for a process
// that has ended and wasn't waited for yet.
func memoryField(status, name string) int64 {
	for line := range strings.Lines(status) {
		value, ok := strings.CutPrefix(line, name+":")
		if !ok {
			continue
		}
		kibibytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if err != nil {
			return 0
		}
		return kibibytes << 10
	}
	return 0
}

// together is what several runs at the same time have cost: the memory is that of the hungriest of them, because each
// has a limit of its own. The wall time isn't known here.
func together(runs []usage) usage {
	var all usage
	for _, u := range runs {
		all.cpu += u.cpu
		all.written += u.written
		all.served += u.served
		all.image += u.image
		all.allocated += u.allocated
		all.anonymous = max(all.anonymous, u.anonymous)
		all.resident = max(all.resident, u.resident)
	}
	return all
}
