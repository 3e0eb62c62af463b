package job

import (
	"fmt"
	"net/netip"
)

// Egress bounds which addresses a worker connects to. What is in neither list is reached.
type Egress struct {
	// Deny are the ranges that are not reached, such as "10.0.0.0/8".
	Deny []string `json:"deny,omitempty"`
	// Allow are the exceptions from Deny.
	Allow []string `json:"allow,omitempty"`
}

// Internal are the ranges that are nobody's on the internet, by the registries of special-purpose addresses (RFC 6890): this machine, links
// with the clouds' metadata services among them, private networks, and the ways to write such an IPv4 address in IPv6.
func Internal() []string {
	return []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16",
		"198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2002::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	}
}

// Parse reads both lists.
func (e Egress) Parse() (deny, allow []netip.Prefix, err error) {
	if deny, err = prefixes(e.Deny); err == nil {
		allow, err = prefixes(e.Allow)
	}
	return deny, allow, err
}

func prefixes(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a range of addresses such as 10.0.0.0/8", text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}
