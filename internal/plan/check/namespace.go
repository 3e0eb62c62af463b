package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/plan/config"
)

// need is what one disk takes of a namespace while it is being filled: the smallest claim, and a worker.
func (s Seen) need() (disk, requests, limits corev1.ResourceList) {
	var operator *cdiv1.CDI
	var found *cdiv1.CDIConfig
	for i := range s.CDIs {
		if s.CDIs[i].Name == cdi.CDIName {
			operator = &s.CDIs[i]
		}
	}
	for i := range s.Configs {
		if s.Configs[i].Name == cdi.ConfigName {
			found = &s.Configs[i]
		}
	}
	r := config.InForce(operator, found, s.Classes).Status.DefaultPodResourceRequirements
	one := resource.MustParse("1")
	disk = corev1.ResourceList{
		corev1.ResourceRequestsStorage: resource.MustParse("1Mi"), corev1.ResourcePersistentVolumeClaims: one, "count/persistentvolumeclaims": one,
		corev1.ResourcePods: one, "count/pods": one, "count/datavolumes.cdi.kubevirt.io": one,
	}
	for name, q := range r.Requests {
		disk[name], disk["requests."+name] = q, q
	}
	for name, q := range r.Limits {
		disk["limits."+name] = q
	}
	return disk, r.Requests, r.Limits
}

// quotas: each quota of the namespace has room for a disk.
func quotas(s Seen) []Finding {
	if s.Tenant == "" {
		return nil
	}
	need, _, _ := s.need()
	var findings []Finding
	for _, q := range s.Quotas {
		if !applies(q) {
			continue
		}
		findings = append(findings, s.quota(q, need)...)
	}
	if len(findings) == 0 {
		findings = append(findings, Finding{OK, "namespace " + s.Tenant, "its quotas have room for a disk, or it has none", ""})
	}
	return findings
}

// quota finds where one quota has no room. What no disk fits into is worse than what is full just now.
func (s Seen) quota(q corev1.ResourceQuota, need corev1.ResourceList) []Finding {
	about := fmt.Sprintf("ResourceQuota %s/%s", q.Namespace, q.Name)
	var never, now []string
	for _, name := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
		hard, used := q.Spec.Hard[name], q.Status.Used[name]
		takes, counts := need[name]
		if !counts {
			continue
		}
		left := hard.DeepCopy()
		left.Sub(used)
		switch {
		case takes.Cmp(hard) > 0:
			never = append(never, fmt.Sprintf("%s is limited to %s, and a disk takes at least %s", name, hard.String(), takes.String()))
		case takes.Cmp(left) > 0:
			now = append(now, fmt.Sprintf("of %s %s are used of %s, and a disk takes at least %s", name, used.String(), hard.String(), takes.String()))
		}
	}
	var findings []Finding
	if len(never) > 0 {
		findings = append(findings, Finding{Problem, about, "no disk can fit: " + strings.Join(never, "; "), "Raise the quota; what a worker takes is podResourceRequirements in the CDI object's config."})
	}
	if len(now) > 0 {
		findings = append(findings, Finding{Warning, about, "it is full, so a new disk waits: " + strings.Join(now, "; "), "Raise the quota, or delete something."})
	}
	return append(findings, s.closed(q, about)...)
}

// closed finds the classes in which a quota allows nothing.
func (s Seen) closed(q corev1.ResourceQuota, about string) []Finding {
	var findings []Finding
	for _, c := range s.Classes {
		for _, suffix := range []string{"requests.storage", "persistentvolumeclaims"} {
			hard, limited := q.Spec.Hard[corev1.ResourceName(c.Name+".storageclass.storage.k8s.io/"+suffix)]
			if limited && hard.IsZero() {
				findings = append(findings, Finding{Warning, about, fmt.Sprintf("no disk can be made in StorageClass %s: %s is 0", c.Name, suffix), "Raise it, unless that is on purpose."})
				break
			}
		}
	}
	return findings
}

// applies says whether a quota counts workers and claims: one with scopes counts some pods only, and a worker has requests and no deadline.
func applies(q corev1.ResourceQuota) bool {
	if q.Spec.ScopeSelector != nil {
		return false
	}
	return !slices.ContainsFunc(q.Spec.Scopes, func(scope corev1.ResourceQuotaScope) bool {
		return scope != corev1.ResourceQuotaScopeNotTerminating && scope != corev1.ResourceQuotaScopeNotBestEffort
	})
}

// limits: the namespace's LimitRanges let a worker and a claim in.
func limits(s Seen) []Finding {
	if s.Tenant == "" {
		return nil
	}
	_, requests, limits := s.need()
	var findings []Finding
	for _, r := range s.Limits {
		for _, item := range r.Spec.Limits {
			var wrong []string
			switch item.Type {
			case corev1.LimitTypePersistentVolumeClaim:
				wrong = exceeds("a claim", corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}, item.Max)
			case corev1.LimitTypeContainer, corev1.LimitTypePod:
				wrong = append(exceeds("a worker's limit", limits, item.Max), below("a worker's request", requests, item.Min)...)
				wrong = append(wrong, steep(requests, limits, item.MaxLimitRequestRatio)...)
			}
			if len(wrong) > 0 {
				findings = append(findings, Finding{Problem, fmt.Sprintf("LimitRange %s/%s", r.Namespace, r.Name),
					fmt.Sprintf("no disk is let in by its limits for each %s: %s", item.Type, strings.Join(wrong, "; ")),
					"Change it, or set podResourceRequirements in the CDI object's config."})
			}
		}
	}
	return findings
}

func exceeds(what string, have, most corev1.ResourceList) []string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(most)) {
		limit, has := most[name], have[name]
		if has.Cmp(limit) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s of %s is %s, and the most is %s", what, name, has.String(), limit.String()))
		}
	}
	return wrong
}

func below(what string, have, least corev1.ResourceList) []string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(least)) {
		limit := least[name]
		if has, ok := have[name]; ok && has.Cmp(limit) < 0 {
			wrong = append(wrong, fmt.Sprintf("%s of %s is %s, and the least is %s", what, name, has.String(), limit.String()))
		}
	}
	return wrong
}

// steep finds limits that are too many times their requests.
func steep(requests, limits, most corev1.ResourceList) []string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(most)) {
		request, limit, ratio := requests[name], limits[name], most[name]
		if request.IsZero() || limit.IsZero() {
			continue
		}
		if limit.AsApproximateFloat64() > request.AsApproximateFloat64()*ratio.AsApproximateFloat64() {
			wrong = append(wrong, fmt.Sprintf("a worker's limit of %s is %s for a request of %s, and at most %s times the request is allowed", name, limit.String(), request.String(), ratio.String()))
		}
	}
	return wrong
}
