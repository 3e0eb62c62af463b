package http

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"vmdisk.io/vmdisk/internal/source"
)

// Reach bounds which addresses are connected to, whatever URLs, redirects and names say.
type Reach struct {
	// Deny are the ranges that are not connected to, Allow the exceptions from them.
	Deny, Allow []netip.Prefix
	// Lookup finds a host's addresses; default: the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// guard connects within a Reach. A name is looked up once for the source's life, and what was checked is what is connected to: a name that
// means another address a moment later changes nothing.
//
// Where the administrator has set a proxy, that is connected to wherever it is. It looks names up itself; they are checked here as well, as
// far as they can be looked up here.
type guard struct {
	reach    Reach
	patience time.Duration // with a look-up whose only purpose is the check

	mu      sync.Mutex
	known   map[string][]netip.Addr
	proxies map[string]bool // host:port
}

func newGuard(r Reach, patience time.Duration) *guard {
	if r.Lookup == nil {
		r.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	return &guard{reach: r, patience: patience, known: map[string][]netip.Addr{}, proxies: map[string]bool{}}
}

// dialContext is the type of net.Dialer's method.
type dialContext func(ctx context.Context, network, address string) (net.Conn, error)

// dial is next, for addresses within reach.
func (g *guard) dial(next dialContext) dialContext {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if g.isProxy(address) {
			return next(ctx, network, address)
		}
		all, err := g.permitted(ctx, host)
		if err != nil {
			return nil, err
		}
		var conn net.Conn
		for _, a := range all {
			if conn, err = next(ctx, network, net.JoinHostPort(a.String(), port)); err == nil || ctx.Err() != nil {
				break
			}
		}
		return conn, err
	}
}

// proxy is next, for URLs within reach.
func (g *guard) proxy(next func(*url.URL) (*url.URL, error)) func(*url.URL) (*url.URL, error) {
	return func(u *url.URL) (*url.URL, error) {
		by, err := next(u)
		if by == nil || err != nil {
			return by, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), g.patience)
		defer cancel()
		if _, err := g.permitted(ctx, u.Hostname()); forbidden(err) {
			return nil, err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.proxies[net.JoinHostPort(by.Hostname(), port(by))] = true
		return by, nil
	}
}

func (g *guard) isProxy(address string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.proxies[address]
}

// permitted are a host's addresses within reach. There is at least one, or an error.
func (g *guard) permitted(ctx context.Context, host string) ([]netip.Addr, error) {
	all, err := g.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	within := slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool { return !g.reach.has(a) })
	if len(within) == 0 {
		return nil, &source.Error{Reason: source.AddressForbidden, Permanent: true, Message: fmt.Sprintf(
			"%s is internal to the cluster, its nodes or their network (address %s), and not read from here: use a public server, or ask the administrator to allow that address",
			host, all[0])}
	}
	return within, nil
}

// lookup answers a host's addresses as they were when they were first asked for.
func (g *guard) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	g.mu.Lock()
	all := g.known[host]
	g.mu.Unlock()
	if all != nil {
		return all, nil
	}
	all, err := g.reach.Lookup(ctx, host)
	if err == nil && len(all) == 0 {
		err = &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if first := g.known[host]; first != nil { // another request was quicker
		return first, nil
	}
	g.known[host] = all
	return all, nil
}

// has says whether an address may be connected to. An IPv4 address is one, however it is written.
func (r Reach) has(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	in := func(p netip.Prefix) bool { return p.Contains(a) }
	return slices.ContainsFunc(r.Allow, in) || !slices.ContainsFunc(r.Deny, in)
}
