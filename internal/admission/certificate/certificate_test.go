package certificate

import (
	"crypto/rand"
	"crypto/x509"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const day = 24 * time.Hour

func hosts() []string { return []string{"vmdisk-webhooks.vmdisk.svc"} }

// born is when the certificates of these tests were made.
func born() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

func do(t *testing.T, step Step, h Held, hosts []string, now time.Time) Held {
	t.Helper()
	h, err := Do(step, h, hosts, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// fresh is what is held by a new installation.
func fresh(t *testing.T) Held { return do(t, StartOver, Held{}, hosts(), born()) }

func TestNext(t *testing.T) {
	at := func(now time.Time) func(*testing.T) (Held, time.Time) {
		return func(t *testing.T) (Held, time.Time) { return fresh(t), now }
	}
	renewed := born().Add(authorityLife - authorityEarly)
	// following has the authority replaced at its time, by when the certificate had been renewed often.
	following := func(t *testing.T) Held {
		return do(t, NewAuthority, do(t, NewServing, fresh(t), hosts(), renewed), hosts(), renewed)
	}
	for name, c := range map[string]struct {
		held func(*testing.T) (Held, time.Time)
		want Step
		why  string
	}{
		"a new installation has nothing":                  {func(*testing.T) (Held, time.Time) { return Held{}, born() }, StartOver, "there is none yet"},
		"what was just made is kept":                      {at(born()), Keep, ""},
		"an API server whose clock is behind accepts it":  {at(born().Add(-59 * time.Minute)), Keep, ""},
		"a day before its last month it is kept":          {at(born().Add(servingLife - servingEarly - day)), Keep, ""},
		"in its last month it is followed":                {at(born().Add(servingLife - servingEarly)), NewServing, "the certificate ends soon"},
		"a certificate that has ended is replaced":        {at(born().Add(servingLife)), NewServing, "the certificate has ended"},
		"in its last year an authority is followed":       {at(renewed), NewAuthority, "the authority ends soon"},
		"an authority that has ended is nobody's":         {at(born().Add(authorityLife)), StartOver, "the authority has ended"},
		"a clock that was set back far makes another one": {at(born().Add(-2 * day)), StartOver, "the authority has ended"},
		"a certificate for another Service is replaced": {func(t *testing.T) (Held, time.Time) {
			return do(t, NewServing, fresh(t), []string{"elsewhere.svc"}, born()), born()
		}, NewServing, "the certificate is for other names"},
		"another one's certificate is replaced": {func(t *testing.T) (Held, time.Time) {
			h := fresh(t)
			h.Serving = fresh(t).Serving
			return h, born()
		}, NewServing, "the certificate is by an authority that nobody trusts"},
		"an authority that isn't the trusted one is replaced": {func(t *testing.T) (Held, time.Time) {
			h := fresh(t)
			h.Authority = fresh(t).Authority
			return h, born()
		}, StartOver, "the authority is not the one that is trusted"},
		"a certificate can't stand for an authority": {func(t *testing.T) (Held, time.Time) {
			h := fresh(t)
			h.Authority, h.Trust = h.Serving, []*x509.Certificate{h.Serving.Leaf}
			return h, born()
		}, StartOver, "the authority is not the one that is trusted"},
		"a new authority is only trusted at first": {func(t *testing.T) (Held, time.Time) {
			return following(t), renewed.Add(settle - time.Second)
		}, Keep, ""},
		"a certificate in its last month waits until the new authority is known": {func(t *testing.T) (Held, time.Time) {
			h := do(t, NewServing, fresh(t), hosts(), renewed.Add(servingEarly-servingLife))
			return do(t, NewAuthority, h, hosts(), renewed), renewed.Add(time.Minute)
		}, Keep, ""},
		"once it is known everywhere it signs": {func(t *testing.T) (Held, time.Time) {
			return following(t), renewed.Add(settle)
		}, NewServing, "the certificate is by the authority before this one"},
	} {
		t.Run(name, func(t *testing.T) {
			type answer struct {
				step Step
				why  string
			}
			h, now := c.held(t)
			step, why := Next(h, hosts(), now)
			if got, want := (answer{step, why}), (answer{c.want, c.why}); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// TestTenYears lets the time pass, looking only when something is due. At no moment may the certificate that is served be one that somebody
// who knows what was kept a while ago, as an API server may, doesn't trust.
func TestTenYears(t *testing.T) {
	h, now := fresh(t), born()
	steps := map[Step]int{}
	known := h.Trust
	for end := born().Add(11 * 365 * day); now.Before(end); {
		now = Due(h)
		for {
			step, why := Next(h, hosts(), now)
			if step == Keep {
				break
			}
			steps[step]++
			if step == StartOver {
				t.Fatalf("%s: it starts over, because %s", now, why)
			}
			h = do(t, step, h, hosts(), now)
			verify(t, h.Serving.Leaf, known, now)
		}
		if !Due(h).After(now) {
			t.Fatalf("%s: nothing is to be done, and yet something is due at %s", now, Due(h))
		}
		known = h.Trust
	}
	if steps[NewAuthority] != 1 || steps[NewServing] < 11*6 {
		t.Errorf("in eleven years there were %v, want one new authority and a certificate every other month", steps)
	}
	if len(h.Trust) != 1 && len(h.Trust) != 2 {
		t.Errorf("%d authorities are trusted", len(h.Trust))
	}
}

func verify(t *testing.T, c *x509.Certificate, trust []*x509.Certificate, now time.Time) {
	t.Helper()
	roots := x509.NewCertPool()
	for _, authority := range trust {
		roots.AddCert(authority)
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: roots, DNSName: hosts()[0], CurrentTime: now}); err != nil {
		t.Errorf("%s: %v", now, err)
	}
}

func TestWhatIsKeptIsReadAgain(t *testing.T) {
	h := do(t, NewAuthority, fresh(t), hosts(), born())
	data, err := h.Data()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read(data)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := again.Data()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(data, twice); diff != "" {
		t.Error(diff)
	}
	if step, why := Next(again, hosts(), born()); step != Keep {
		t.Errorf("what was kept needs %s: %s", step, why)
	}
	if nothing, err := Read(nil); err != nil || nothing.Trust != nil {
		t.Errorf("nothing reads as %v, %v", nothing, err)
	}
}

func TestWhatIsKeptAndBroken(t *testing.T) {
	for name, broken := range map[string]string{"the authority": trustKey, "its key": authorityKey, "the certificate": servingCert, "the certificate's key": servingKey} {
		t.Run(name+" can't be read", func(t *testing.T) {
			data, err := fresh(t).Data()
			if err != nil {
				t.Fatal(err)
			}
			data[broken] = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
			if h, err := Read(data); err == nil || h.Trust != nil {
				t.Errorf("it reads as %v, %v", h, err)
			}
		})
	}
}
