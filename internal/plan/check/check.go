// Package check judges whether a cluster is fit for disks: what was seen of it in, findings out. It is pure. Each finding is a sentence that
// an administrator can act on.
package check

import (
	"maps"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// Kind is a kind of object that a judge needs.
type Kind string

// The kinds.
const (
	Kinds           Kind = "CustomResourceDefinitions"
	Deployments     Kind = "Deployments"
	CDIs            Kind = "CDIs"
	Configs         Kind = "CDIConfigs"
	Classes         Kind = "StorageClasses"
	Profiles        Kind = "StorageProfiles"
	SnapshotClasses Kind = "VolumeSnapshotClasses"
	Drivers         Kind = "CSIDrivers"
	DriverNodes     Kind = "CSINodes"
	Nodes           Kind = "Nodes"
	Webhooks        Kind = "ValidatingWebhookConfigurations"
	Endpoints       Kind = "EndpointSlices"
	Certificate     Kind = "Secrets"
	Quotas          Kind = "ResourceQuotas"
	Limits          Kind = "LimitRanges"
)

// Seen is what was seen of a cluster.
type Seen struct {
	At time.Time
	// Tenant is the namespace whose quotas are judged; empty for none.
	Tenant string
	// Unread says of each kind that couldn't be read why not. What rests on it isn't judged.
	Unread map[Kind]string

	CRDs []CRD
	// Controllers are vmdisk's Deployments, Others those of CDI.
	Controllers, Others []appsv1.Deployment
	CDIs                []cdiv1.CDI
	Configs             []cdiv1.CDIConfig
	Classes             []storagev1.StorageClass
	Profiles            []cdiv1.StorageProfile
	SnapshotClasses     []SnapshotClass
	// NoSnapshots says that the cluster doesn't serve VolumeSnapshotClasses.
	NoSnapshots bool
	Drivers     []storagev1.CSIDriver
	DriverNodes []storagev1.CSINode
	Nodes       []corev1.Node
	// Webhooks is vmdisk's configuration; nil if there is none.
	Webhooks *admissionv1.ValidatingWebhookConfiguration
	// Endpoints are those of the webhooks' Service.
	Endpoints []discoveryv1.EndpointSlice
	// Serving is the webhooks' certificate, in PEM.
	Serving []byte
	Quotas  []corev1.ResourceQuota
	Limits  []corev1.LimitRange
}

// CRD is one of the kinds that vmdisk needs.
type CRD struct {
	Name string
	// Wanted is the version that is needed, Served are those that the cluster serves; none: there is no such CRD.
	Wanted string
	Served []string
	// Established says that the API server has accepted it.
	Established bool
	// Differs says that its schema is not that of this program's release.
	Differs bool
}

// SnapshotClass is a VolumeSnapshotClass.
type SnapshotClass struct {
	Name, Driver string
	Default      bool
}

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	OK Severity = "ok"
	// Unknown: it can't be told from here.
	Unknown Severity = "unknown"
	// Warning: disks work, but not as well as they could, or not all of them.
	Warning Severity = "warning"
	// Problem: disks don't work, or will stop.
	Problem Severity = "problem"
)

// Finding is one sentence about a cluster.
type Finding struct {
	Severity Severity `json:"severity"`
	// About is what it is about, such as "StorageClass local".
	About   string `json:"about"`
	Message string `json:"message"`
	// Do is what to do; empty where there is nothing.
	Do string `json:"do,omitempty"`
}

// judge is one judgement, and the kinds that it needs.
type judge struct {
	needs []Kind
	find  func(Seen) []Finding
}

func judges() []judge {
	return []judge{
		{[]Kind{Kinds}, kinds},
		{[]Kind{Deployments}, controller},
		{[]Kind{Deployments}, others},
		{[]Kind{CDIs, Configs}, configuration},
		{[]Kind{Webhooks}, webhooks},
		{[]Kind{Webhooks, Endpoints}, answered},
		{[]Kind{Webhooks, Certificate}, certificates},
		{[]Kind{Classes}, defaults},
		{[]Kind{Classes, Profiles}, profiles},
		{[]Kind{Classes}, places},
		{[]Kind{Classes, Drivers, DriverNodes}, drivers},
		{[]Kind{Classes, Profiles, SnapshotClasses}, snapshots},
		{[]Kind{Profiles, Nodes}, devices},
		{[]Kind{Quotas, Configs, CDIs, Classes}, quotas},
		{[]Kind{Limits, Configs, CDIs, Classes}, limits},
	}
}

// Of judges a cluster. The findings are in the order in which they should be read.
func Of(s Seen) []Finding {
	var findings []Finding
	for _, kind := range slices.Sorted(maps.Keys(s.Unread)) {
		findings = append(findings, Finding{Unknown, string(kind), "what rests on them is not checked: " + s.Unread[kind],
			"Ask an administrator to run vmdisk check."})
	}
	for _, j := range judges() {
		unread := func(k Kind) bool { _, is := s.Unread[k]; return is }
		if !slices.ContainsFunc(j.needs, unread) {
			findings = append(findings, j.find(s)...)
		}
	}
	return findings
}

// Count is how many findings have a severity.
func Count(findings []Finding, severity Severity) int {
	n := 0
	for _, f := range findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}
