package http_test

import (
	"bytes"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/http"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

func TestAProxyIsUsed(t *testing.T) {
	proxy := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, http.Options{URL: "http://nowhere.invalid/disk.img", Proxy: func(*url.URL) (*url.URL, error) { return u, nil }})
	if _, b, err := readAll(t.Context(), s); err != nil || !bytes.Equal(b, content) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// fromEnvironment makes a source that finds its proxy as a process does.
func fromEnvironment(t *testing.T, o http.Options) source.Source {
	t.Helper()
	s, err := http.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestTheEnvironmentNamesTheProxy(t *testing.T) {
	proxy := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	none := &source.Error{Reason: source.NoSuchHost, Message: `no such host "nowhere.invalid"`}
	for name, test := range map[string]struct {
		environment map[string]string
		want        *source.Error
	}{
		"in upper case":            {map[string]string{"HTTP_PROXY": proxy.URL}, nil},
		"in lower case":            {map[string]string{"http_proxy": proxy.URL}, nil},
		"without a scheme":         {map[string]string{"http_proxy": strings.TrimPrefix(proxy.URL, "http://")}, nil},
		"for https only":           {map[string]string{"HTTPS_PROXY": proxy.URL}, none},
		"but not for this host":    {map[string]string{"HTTP_PROXY": proxy.URL, "NO_PROXY": "example.com,nowhere.invalid"}, none},
		"but not for its domain":   {map[string]string{"HTTP_PROXY": proxy.URL, "no_proxy": ".invalid"}, none},
		"but not for another host": {map[string]string{"HTTP_PROXY": proxy.URL, "NO_PROXY": "somewhere.invalid"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"} {
				t.Setenv(variable, test.environment[variable])
			}
			_, b, err := readAll(t.Context(), fromEnvironment(t, http.Options{URL: "http://nowhere.invalid/disk.img"}))
			requireError(t, err, test.want, "")
			if test.want == nil && !bytes.Equal(b, content) {
				t.Errorf("%d bytes", len(b))
			}
		})
	}
}

// connectProxy is a proxy that connects whoever gives the password to one server, whatever host they ask for.
func connectProxy(t *testing.T, to string) *httptest.Server {
	proxy := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		switch {
		case r.Method != nethttp.MethodConnect:
			w.WriteHeader(nethttp.StatusMethodNotAllowed)
		case r.Header.Get("Proxy-Authorization") != "Basic dXNlcjpwdw==":
			w.WriteHeader(nethttp.StatusProxyAuthRequired)
		default:
			there, err := net.Dial("tcp", to)
			if err != nil {
				w.WriteHeader(nethttp.StatusBadGateway)
				return
			}
			defer there.Close()
			here, buffered, err := nethttp.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer here.Close()
			if _, err := io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(there, buffered)
				_ = there.Close()
			}()
			_, _ = io.Copy(here, there)
		}
	}))
	t.Cleanup(proxy.Close)
	return proxy
}

func TestAProxyThatOnlyConnects(t *testing.T) {
	server := sourcetest.ServeTLS(t, sourcetest.Behaviour{Content: content})
	proxy := connectProxy(t, server.Listener.Addr().String())
	address := proxy.Listener.Addr().String()
	broken := connectProxy(t, "127.0.0.1:1")
	for name, test := range map[string]struct {
		proxy string
		want  *source.Error
	}{
		"with the right password": {"http://user:pw@" + address, nil},
		"with a wrong one": {"http://user:secret@" + address, &source.Error{
			Reason: source.ProxyRefused, Permanent: true,
			Message: "the proxy " + address + " answered 407 Proxy Authentication Required instead of connecting; check the proxy's address, user and password, and whether it allows the host",
		}},
		"that can't connect": {"http://user:pw@" + broken.Listener.Addr().String(), &source.Error{
			Reason:  source.ProxyRefused,
			Message: "the proxy " + broken.Listener.Addr().String() + " answered 502 Bad Gateway instead of connecting; check the proxy's address, user and password, and whether it allows the host",
		}},
		"that isn't there": {"http://user:secret@127.0.0.1:1", &source.Error{
			Reason:  source.ConnectionRefused,
			Message: "the proxy can't be reached: connection refused by 127.0.0.1:1; nothing listens there, or a firewall or NetworkPolicy rejects it",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"HTTPS_PROXY", "NO_PROXY", "no_proxy"} {
				t.Setenv(variable, "")
			}
			t.Setenv("https_proxy", test.proxy)
			_, b, err := readAll(t.Context(), fromEnvironment(t, http.Options{URL: "https://nowhere.invalid/disk.img", InsecureSkipVerify: true}))
			requireError(t, err, test.want, "")
			if test.want == nil && !bytes.Equal(b, content) {
				t.Errorf("%d bytes", len(b))
			}
		})
	}
}

func TestAnHTTPProxyThatIsNotThereIsNamed(t *testing.T) {
	s := open(t, http.Options{URL: "http://nowhere.invalid/disk.img", Proxy: func(*url.URL) (*url.URL, error) {
		return &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, nil
	}})
	_, err := s.Describe(t.Context())
	requireError(t, err, &source.Error{
		Reason:  source.ConnectionRefused,
		Message: "the proxy can't be reached: connection refused by 127.0.0.1:1; nothing listens there, or a firewall or NetworkPolicy rejects it",
	}, "")
}
