package check

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// mendsItself is the advice for what the controller keeps.
const mendsItself = "The controller mends this by itself; if it lasts, see its log."

// webhooks: the API server knows whom to ask, and whom to trust.
func webhooks(s Seen) []Finding {
	if len(s.Controllers) == 0 { // there is a finding for that
		return nil
	}
	if s.Webhooks == nil {
		return []Finding{{Problem, "webhooks", "the ValidatingWebhookConfiguration vmdisk is missing: wrong disks are let in, and fail later", "Apply vmdisk's manifests again."}}
	}
	var findings []Finding
	namespace := s.Controllers[0].Namespace
	for _, w := range s.Webhooks.Webhooks {
		about := "webhook " + w.Name
		service := w.ClientConfig.Service
		switch {
		case len(w.ClientConfig.CABundle) == 0:
			findings = append(findings, Finding{Problem, about, "it has no caBundle, so the API server can't ask the controller", mendsItself})
		case service == nil:
			findings = append(findings, Finding{Warning, about, "it asks a URL, and not vmdisk's Service", "Apply vmdisk's manifests again, unless that is on purpose."})
		case service.Namespace != namespace:
			findings = append(findings, Finding{Problem, about, fmt.Sprintf("it asks a Service in namespace %s, and the controller runs in %s", service.Namespace, namespace),
				"Apply vmdisk's manifests again, all for one namespace."})
		}
	}
	if len(findings) == 0 {
		findings = append(findings, Finding{OK, "webhooks", fmt.Sprintf("all %d are configured, and trust an authority", len(s.Webhooks.Webhooks)), ""})
	}
	return findings
}

// answered: somebody is behind the webhooks' Service.
func answered(s Seen) []Finding {
	if s.Webhooks == nil || len(s.Controllers) == 0 {
		return nil
	}
	ready := 0
	for _, slice := range s.Endpoints {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				ready += len(e.Addresses)
			}
		}
	}
	if ready == 0 {
		return []Finding{{Problem, "the webhooks' Service", "no ready controller is behind it, so what the webhooks are asked about can't be created",
			"See why the controller isn't ready: kubectl -n " + s.Controllers[0].Namespace + " get pods."}}
	}
	return []Finding{{OK, "the webhooks' Service", fmt.Sprintf("%d endpoints are ready", ready), ""}}
}

// followed is how long before its end a certificate is followed by another one at the latest.
const followed = 25 * 24 * time.Hour

// certificates: what the controller shows is what the API server trusts, and will be.
func certificates(s Seen) []Finding {
	if s.Webhooks == nil || len(s.Controllers) == 0 {
		return nil
	}
	const about = "the webhooks' certificate"
	shown, err := parse(s.Serving)
	if err != nil {
		return []Finding{{Problem, about, "the controller's Secret has none that can be read: " + err.Error(), "Delete Secret vmdisk-webhooks: the controller makes it again."}}
	}
	for _, w := range s.Webhooks.Webhooks {
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(w.ClientConfig.CABundle)
		if _, err := shown.Verify(x509.VerifyOptions{Roots: trusted, CurrentTime: inside(shown, s.At)}); err != nil {
			return []Finding{{Problem, about, fmt.Sprintf("webhook %s doesn't trust it, so the API server can't ask the controller", w.Name), mendsItself}}
		}
	}
	end := shown.NotAfter.UTC().Format("2006-01-02")
	switch left := shown.NotAfter.Sub(s.At); {
	case left <= 0:
		return []Finding{{Problem, about, fmt.Sprintf("it has expired on %s", end), mendsItself}}
	case left < followed:
		return []Finding{{Warning, about, fmt.Sprintf("it ends on %s, and should have been followed by another one by now", end), mendsItself}}
	default:
		return []Finding{{OK, about, fmt.Sprintf("it is trusted, and holds until %s", end), ""}}
	}
}

// inside is a time at which a certificate holds, so that one that has expired is told from one that isn't trusted.
func inside(c *x509.Certificate, now time.Time) time.Time {
	if now.After(c.NotAfter) {
		return c.NotAfter
	}
	return now
}

func parse(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it is not in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}
