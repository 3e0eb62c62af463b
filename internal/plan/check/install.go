package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
)

// kinds: the cluster serves what vmdisk needs, in the version that it needs.
func kinds(s Seen) []Finding {
	var findings []Finding
	found := func(severity Severity, c CRD, message, do string) {
		findings = append(findings, Finding{severity, "CustomResourceDefinition " + c.Name, message, do})
	}
	const install = "Apply the CRDs of vmdisk's release (make manifests writes dist/crds.yaml)."
	for _, c := range s.CRDs {
		switch {
		case len(c.Served) == 0:
			found(Problem, c, "it doesn't exist", install)
		case !c.Established:
			found(Problem, c, "the API server has not accepted it", "See why: kubectl describe crd "+c.Name+".")
		case !slices.Contains(c.Served, c.Wanted):
			found(Problem, c, fmt.Sprintf("it serves %s, and %s is needed", strings.Join(c.Served, ", "), c.Wanted), install)
		case c.Differs && s.argument("--engine") == "cdi" && strings.HasSuffix(c.Name, "."+cdiv1.SchemeGroupVersion.Group): // it is CDI's
		case c.Differs:
			found(Warning, c, "it is of another release than this program", "Compare vmdisk --version with the controller's image. "+install)
		}
	}
	if len(findings) == 0 {
		findings = append(findings, Finding{OK, "CustomResourceDefinitions", fmt.Sprintf("all %d are served, in the versions that are needed", len(s.CRDs)), ""})
	}
	return findings
}

// controller: vmdisk itself runs, once.
func controller(s Seen) []Finding {
	switch len(s.Controllers) {
	case 0:
		return []Finding{{Problem, "the controller", "there is no Deployment of it, so nobody makes disks", "Install vmdisk: README.md has a quick start."}}
	case 1:
	default:
		return []Finding{{Problem, "the controller", fmt.Sprintf("it is installed %d times (%s), and each would act on every disk", len(s.Controllers), names(s.Controllers)),
			"Remove all but one. More replicas of one Deployment are fine: only the one that leads acts."}}
	}
	d := s.Controllers[0]
	about := fmt.Sprintf("Deployment %s/%s", d.Namespace, d.Name)
	if d.Status.AvailableReplicas == 0 {
		return []Finding{{Problem, about, "no controller is available, so nobody makes disks, and disks from images can't be created",
			fmt.Sprintf("See why: kubectl -n %s describe pods -l app.kubernetes.io/name=vmdisk.", d.Namespace)}}
	}
	return []Finding{{OK, about, fmt.Sprintf("%d of %d replicas are available, image %s", d.Status.AvailableReplicas, replicas(d), image(d)), ""}}
}

func names(deployments []appsv1.Deployment) string {
	var all []string
	for _, d := range deployments {
		all = append(all, d.Namespace+"/"+d.Name)
	}
	return strings.Join(all, ", ")
}

func replicas(d appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func image(d appsv1.Deployment) string {
	if c := d.Spec.Template.Spec.Containers; len(c) > 0 {
		return c[0].Image
	}
	return "none"
}

// argument is a flag's value on the controller's command line; empty if it isn't there.
func (s Seen) argument(flag string) string {
	for _, d := range s.Controllers {
		for _, c := range d.Spec.Template.Spec.Containers {
			for i, a := range c.Args {
				if value, ok := strings.CutPrefix(a, flag+"="); ok {
					return value
				}
				if a == flag && i+1 < len(c.Args) {
					return c.Args[i+1]
				}
			}
		}
	}
	return ""
}

// others: CDI is there exactly if it is to make the disks.
func others(s Seen) []Finding {
	wanted := s.argument("--engine") == "cdi"
	switch {
	case wanted && len(s.Others) == 0:
		return []Finding{{Problem, "CDI", "vmdisk runs with --engine=cdi, and CDI is not installed: nobody fills the disks", "Install CDI, or run vmdisk with --engine=vmdisk."}}
	case !wanted && len(s.Others) > 0 && len(s.Controllers) > 0:
		return []Finding{{Problem, "CDI", fmt.Sprintf("it runs beside vmdisk (%s), and both would fill the same disks", names(s.Others)),
			"Remove CDI, or run vmdisk with --engine=cdi."}}
	case wanted:
		return []Finding{{OK, "CDI", "it makes the disks of DataVolumes, as --engine=cdi wants it", ""}}
	default:
		return []Finding{{OK, "CDI", "no other controller serves DataVolumes", ""}}
	}
}

// configuration: KubeVirt finds exactly one CDI object, and users find the CDIConfig.
func configuration(s Seen) []Finding {
	var findings []Finding
	if len(s.CDIs) != 1 {
		findings = append(findings, Finding{Problem, "CDI objects", fmt.Sprintf("there are %d, and KubeVirt uses disks only where it finds exactly one", len(s.CDIs)),
			"Keep the one that is named cdi, which comes with vmdisk's manifests."})
	} else if phase := s.CDIs[0].Status.Phase; phase != "Deployed" {
		findings = append(findings, Finding{Problem, "CDI " + s.CDIs[0].Name, fmt.Sprintf("its phase is %q, and KubeVirt waits for Deployed", phase),
			"Apply vmdisk's manifests again."})
	}
	for _, c := range s.Configs {
		if c.Name == cdi.ConfigName && c.Status.FilesystemOverhead != nil {
			return append(findings, Finding{OK, "CDIConfig " + cdi.ConfigName, "it says what is in force", ""})
		}
	}
	return append(findings, Finding{Problem, "CDIConfig " + cdi.ConfigName, "it is missing or empty, and KubeVirt and virtctl read it",
		cmp.Or(s.configDo(), "The controller makes it: see that it runs.")})
}

func (s Seen) configDo() string {
	if s.argument("--engine") == "cdi" {
		return "CDI makes it: see that its operator runs."
	}
	return ""
}
