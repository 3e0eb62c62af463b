package metrics

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	storagev1 "k8s.io/api/storage/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/internal/plan/measure"
)

// Disks measures the cluster's disks each time that Prometheus asks, from the cache.
type Disks struct {
	// Reader is the cache.
	Reader client.Reader
	// Leads is closed once this controller leads: of several, only one answers.
	Leads <-chan struct{}
	// CDIServes says that CDI makes the disks, and so serves its own metrics.
	CDIServes bool
}

// Describe says nothing: which series there are depends on the cluster.
func (d *Disks) Describe(chan<- *prometheus.Desc) {}

// Collect measures. A cache that isn't there yet gives nothing.
func (d *Disks) Collect(into chan<- prometheus.Metric) {
	select {
	case <-d.Leads:
	default:
		return
	}
	world, err := d.observe()
	if err != nil {
		into <- prometheus.NewInvalidMetric(prometheus.NewDesc(string(measure.Disks), "", nil, nil), err)
		return
	}
	for _, s := range measure.Of(world) {
		def := definition(s.Name)
		kind := prometheus.GaugeValue
		if def.Type == "counter" {
			kind = prometheus.CounterValue
		}
		into <- prometheus.MustNewConstMetric(prometheus.NewDesc(string(s.Name), def.Help, def.Labels, nil), kind, s.Value, s.Labels...)
	}
}

// patience is how long the cache may take. It is in memory.
const patience = 5 * time.Second

func (d *Disks) observe() (measure.World, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience) // Collect has no context
	defer cancel()
	var (
		cdis        cdiv1.CDIList
		dataVolumes cdiv1.DataVolumeList
		classes     storagev1.StorageClassList
		profiles    cdiv1.StorageProfileList
	)
	for _, list := range []client.ObjectList{&cdis, &dataVolumes, &classes, &profiles} {
		if err := d.Reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return measure.World{}, fmt.Errorf("list %T: %w", list, err)
		}
	}
	return measure.World{CDIs: cdis.Items, DataVolumes: dataVolumes.Items, Classes: classes.Items, Profiles: profiles.Items, CDIServes: d.CDIServes}, nil
}
