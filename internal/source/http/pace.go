package http

import "time"

// pace decides over how many connections an object is read: over one, until its reader waits for the network most of the
// time; then over twice as many, as long as each doubling brings more bytes per second. So a server that is faster than
// its reader costs one connection and no memory, and one that gives each connection only so much is read at the speed of
// several. It knows no clock and does no I/O.
type pace struct {
	most        int
	connections int // now
	since       moment
	before      float64 // bytes per second with fewer connections, while trial
	fewer       int     // their number
	trial       bool
	rest        int // periods without a trial, after one that failed
	nextRest    int
	rate        float64 // bytes per second in the last period

	rules paceRules
}

// paceRules are what a pace goes by.
type paceRules struct {
	// period is how long a number of connections is watched before it is judged.
	period time.Duration
	// starved is the part of a period that the reader must have waited, so that more connections are tried.
	starved float64
	// gain is the part of the bytes per second before that more connections must bring, else they are given up.
	gain float64
	// worth is how long the rest must take at the present rate, so that more connections are tried.
	worth time.Duration
	// lead is how far ahead of the one stream a second connection begins, by the time until the stream comes there. It
	// must have answered by then.
	lead time.Duration
	// rest is for how many periods nothing more is tried after a trial that failed, doubled each time up to maxRest.
	rest int
}

func newPace(most int) pace {
	rules := paceRules{period: time.Second, starved: 0.5, gain: 1.25, worth: 4 * time.Second, lead: time.Second / 2, rest: 8}
	return pace{most: most, connections: 1, nextRest: rules.rest, rules: rules}
}

// maxRest is the most periods for which nothing is tried.
const maxRest = 1000

// moment is what has happened until a time.
type moment struct {
	at      time.Time
	arrived int64         // bytes
	waited  time.Duration // by the reader
}

// begin begins a period.
func (p *pace) begin(m moment) { p.since = m }

// judge judges the period that ends now, if it was long enough, while left bytes are to come.
func (p *pace) judge(m moment, left int64) {
	took := m.at.Sub(p.since.at)
	if took < p.rules.period || took <= 0 {
		return
	}
	p.rate = float64(m.arrived-p.since.arrived) / took.Seconds()
	starved := float64(m.waited-p.since.waited) > p.rules.starved*float64(took)
	p.begin(m)
	if p.trial && p.rate < p.rules.gain*p.before {
		p.giveUp()
		return
	}
	p.trial = false
	if p.rest > 0 {
		p.rest--
		return
	}
	if starved && p.connections < p.most && float64(left) > p.rate*p.rules.worth.Seconds() {
		p.trial, p.before, p.fewer = true, p.rate, p.connections
		p.connections = min(2*p.connections, p.most)
	}
}

// giveUp ends a trial without success.
func (p *pace) giveUp() {
	p.trial = false
	p.connections = max(1, p.fewer)
	p.rest = p.nextRest
	p.nextRest = min(2*p.nextRest, maxRest)
}

// trouble is a connection that failed, maybe because there were too many.
func (p *pace) trouble() {
	p.fewer = 1
	p.giveUp()
}
