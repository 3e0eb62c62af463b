package http_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	nethttp "net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/http"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

// internal denies what a populator's worker is denied.
func internal(t *testing.T, allow ...string) *http.Reach {
	t.Helper()
	deny, exceptions, err := job.Egress{Deny: job.Internal(), Allow: allow}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return &http.Reach{Deny: deny, Allow: exceptions}
}

// named answers a name's addresses, whatever the name.
func named(addresses ...string) func(context.Context, string) ([]netip.Addr, error) {
	return func(context.Context, string) ([]netip.Addr, error) {
		var all []netip.Addr
		for _, a := range addresses {
			all = append(all, netip.MustParseAddr(a))
		}
		return all, nil
	}
}

func TestInternalAddressesAreNotReached(t *testing.T) {
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ host, address string }{
		"the metadata service, by a name":        {"images.example", "169.254.169.254"},
		"this machine, by a name":                {"images.example", "127.0.0.1"},
		"this machine in IPv6, by a name":        {"images.example", "::1"},
		"this machine, mapped into IPv6":         {"images.example", "::ffff:127.0.0.1"},
		"the metadata service, mapped into IPv6": {"images.example", "::ffff:169.254.169.254"},
		"the metadata service, by NAT64":         {"images.example", "64:ff9b::a9fe:a9fe"},
		"the metadata service, by 6to4":          {"images.example", "2002:a9fe:a9fe::1"},
		"the metadata service of AWS in IPv6":    {"images.example", "fd00:ec2::254"},
		"a link-local address with a zone":       {"images.example", "fe80::1%lo"},
		"a service of the cluster":               {"kubernetes.default.svc", "10.96.0.1"},
		"any address":                            {"images.example", "0.0.0.0"},
		"any address in IPv6":                    {"images.example", "::"},
		"this machine, written as an address":    {"127.0.0.1", ""},
		"the same in IPv6":                       {"[::1]", ""},
		"the same, mapped":                       {"[::ffff:127.0.0.1]", ""},
		"the same as a number":                   {"2130706433", "127.0.0.1"},
		"the metadata service by address":        {"169.254.169.254", ""},
		"carriers' addresses":                    {"100.64.0.1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			reach := internal(t)
			reach.Lookup = named()
			if test.address != "" {
				reach.Lookup = named(test.address)
			}
			_, _, err := readAll(t.Context(), open(t, http.Options{URL: "http://" + test.host + ":" + port, Reach: reach}))
			var e *source.Error
			if !errors.As(err, &e) || e.Reason != source.AddressForbidden || !e.Permanent {
				t.Fatalf("got %v", err)
			}
			if strings.Contains(e.Message, "%!") || !strings.Contains(e.Message, "internal to the cluster") {
				t.Errorf("it says %s", e.Message)
			}
		})
	}
	if n := len(server.Requests()); n > 0 {
		t.Errorf("the server was asked %d times", n)
	}
}

func TestARedirectToAnInternalAddressIsNotFollowed(t *testing.T) {
	secret := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	for name, location := range map[string]string{
		"by address":  strings.Replace(secret.URL, "127.0.0.1", "127.0.0.2", 1),
		"by its name": strings.Replace(secret.URL, "127.0.0.1", "metadata.internal", 1),
		"to a cloud":  "http://169.254.169.254/latest/meta-data/",
	} {
		t.Run(name, func(t *testing.T) {
			public := sourcetest.Serve(t, sourcetest.Behaviour{Status: []int{302, 302, 302}, Header: nethttp.Header{"Location": {location}}})
			reach := internal(t, "127.0.0.1/32") // the lab's stand-in for the internet
			reach.Lookup = named("127.0.0.2")
			_, _, err := readAll(t.Context(), open(t, http.Options{URL: public.URL, Reach: reach}))
			var e *source.Error
			if !errors.As(err, &e) || e.Reason != source.AddressForbidden {
				t.Errorf("got %v", err)
			}
		})
	}
	if n := len(secret.Requests()); n > 0 {
		t.Errorf("the secret was asked for %d times", n)
	}
}

// TestANameIsLookedUpOnce: it means a public address when it is checked, and the metadata service from then on. The connection breaks, so
// that it is needed again.
func TestANameIsLookedUpOnce(t *testing.T) {
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content, CutAfter: 1 << 20, Cuts: 2})
	var asked atomic.Int64
	reach := internal(t, "127.0.0.1/32")
	reach.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		if asked.Add(1) == 1 {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
	}
	u := strings.Replace(server.URL, "127.0.0.1", "rebinding.example", 1)
	_, got, err := readAll(t.Context(), open(t, http.Options{URL: u, Reach: reach}))
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the name was looked up %d times", n)
	}
}

func TestOfSeveralAddressesThoseWithinReachAreTaken(t *testing.T) {
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	reach := internal(t, "127.0.0.1/32")
	reach.Lookup = named("169.254.169.254", "127.0.0.1")
	u := strings.Replace(server.URL, "127.0.0.1", "images.example", 1)
	if _, got, err := readAll(t.Context(), open(t, http.Options{URL: u, Reach: reach})); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestTheAdministratorsProxyIsReachedWhereverItIs, and doesn't lead to what is out of reach.
func TestTheAdministratorsProxyIsReachedWhereverItIs(t *testing.T) {
	proxy := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	by, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		lookup    func(context.Context, string) ([]netip.Addr, error)
		forbidden bool
	}{
		"a public name": {named("192.0.2.1"), false},
		"a name that only the proxy knows": {func(context.Context, string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
		}, false},
		"an internal name": {named("10.96.0.1"), true},
	} {
		t.Run(name, func(t *testing.T) {
			reach := internal(t)
			reach.Lookup = test.lookup
			_, got, err := readAll(t.Context(), open(t, http.Options{URL: "http://images.example/disk", Reach: reach, Proxy: func(*url.URL) (*url.URL, error) { return by, nil }}))
			var e *source.Error
			if is := errors.As(err, &e) && e.Reason == source.AddressForbidden; is != test.forbidden {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		})
	}
}

func TestANameThatDoesNotExistIsSaidAsEver(t *testing.T) {
	reach := internal(t)
	reach.Lookup = named()
	_, _, err := readAll(t.Context(), open(t, http.Options{URL: "http://nowhere.example/disk", Reach: reach}))
	var e *source.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`no such host "nowhere.example"`, e.Message); diff != "" || e.Reason != source.NoSuchHost {
		t.Errorf("%s %s", e.Reason, diff)
	}
}
