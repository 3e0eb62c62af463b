package metrics

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/measure"
	"vmdisk.io/vmdisk/internal/plan/populate"
)

// Attempts counts how attempts end. It is safe for concurrent use.
type Attempts struct {
	total, read, written *prometheus.CounterVec
	duration, ready      *prometheus.HistogramVec

	mutex sync.Mutex
	// counted are the pods that were counted last: an end that couldn't be remembered at once is seen again.
	counted map[types.UID]bool
	order   []types.UID
}

// mostCounted is how many pods are known as counted. Far fewer end within the moment until their end is remembered.
const mostCounted = 1000

// NewAttempts registers the metrics of attempts.
func NewAttempts(registry prometheus.Registerer) (*Attempts, error) {
	// From the smallest blank disk to a terabyte over a slow line.
	buckets := []float64{1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600}
	a := &Attempts{
		total: counter(attemptsTotal), read: counter(readTotal), written: counter(writtenTotal),
		duration: histogram(attemptDuration, buckets), ready: histogram(readyDuration, buckets),
		counted: map[types.UID]bool{},
	}
	for _, c := range []prometheus.Collector{a.total, a.read, a.written, a.duration, a.ready} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return a, nil
}

func counter(name measure.Name) *prometheus.CounterVec {
	d := definition(name)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: string(name), Help: d.Help}, d.Labels)
}

func histogram(name measure.Name, buckets []float64) *prometheus.HistogramVec {
	d := definition(name)
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: string(name), Help: d.Help, Buckets: buckets}, d.Labels)
}

// Count counts an attempt, once.
func (a *Attempts) Count(attempt populate.Attempt) {
	if !a.first(attempt.Pod) {
		return
	}
	outcome := string(attempt.Outcome)
	a.total.WithLabelValues(attempt.Source, outcome).Inc()
	a.read.WithLabelValues(attempt.Source).Add(float64(attempt.ReadBytes))
	a.written.WithLabelValues(attempt.Source).Add(float64(attempt.WrittenBytes))
	a.duration.WithLabelValues(attempt.Source, outcome).Observe(attempt.Took.Seconds())
	if attempt.Outcome == job.Succeeded {
		a.ready.WithLabelValues(attempt.Source).Observe(attempt.Whole.Seconds())
	}
}

func (a *Attempts) first(pod types.UID) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.counted[pod] {
		return false
	}
	a.counted[pod] = true
	if a.order = append(a.order, pod); len(a.order) > mostCounted {
		delete(a.counted, a.order[0])
		a.order = a.order[1:]
	}
	return true
}
