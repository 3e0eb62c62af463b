package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// stopGrace is how long calls that are running may take to end once the context is done.
const stopGrace = 5 * time.Second

// Run serves every socket of the configuration until ctx is done, and then returns nil. Volumes that are in use stay
// in use: stopping and starting the process disturbs no pod. Sockets that an earlier process left are replaced.
func Run(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return fmt.Errorf("the driver's configuration is not usable: %w", err)
	}
	lock, err := lockStateDir(ctx, config.StateDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if alive, err := stayDead(ctx, config.StateDir); err != nil || !alive {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	endpoints, err := newEndpoints(config, stop)
	if err != nil {
		return err
	}
	listeners, err := listenAll(ctx, endpoints)
	if err != nil {
		return err
	}
	slog.Info("serving", "drivers", len(config.Drivers), "nodes", len(config.Nodes), "stateDir", config.StateDir)
	var wait sync.WaitGroup
	ended := make([]error, len(endpoints))
	for i, end := range endpoints {
		wait.Go(func() {
			defer stop(nil)
			if err := end.server.Serve(listeners[i]); err != nil && ctx.Err() == nil {
				ended[i] = fmt.Errorf("serve %s: %w", end.socket, err)
			}
		})
	}
	<-ctx.Done()
	died := errors.Is(context.Cause(ctx), errDied)
	if died {
		killAll(endpoints)
	} else {
		stopAll(endpoints)
	}
	wait.Wait()
	if died {
		return errDied
	}
	return errors.Join(ended...)
}

// endpoint is one socket and what answers on it.
type endpoint struct {
	socket string
	server *grpc.Server
}

func newEndpoints(config Config, stop context.CancelCauseFunc) ([]endpoint, error) {
	backend, err := newBackend(config, realPath(config.StateDir), stop)
	if err != nil {
		return nil, err
	}
	var endpoints []endpoint
	for _, driver := range config.Drivers {
		endpoints = append(endpoints, newControllerEndpoint(backend, driver))
		for _, node := range config.Nodes {
			endpoints = append(endpoints, newNodeEndpoint(backend, driver, node), newRegistrationEndpoint(driver, node))
		}
	}
	return endpoints, nil
}

func newControllerEndpoint(b *backend, driver Driver) endpoint {
	faults := interceptor{backend: b, driver: driver.Name}
	server := grpc.NewServer(grpc.UnaryInterceptor(faults.intercept))
	spec.RegisterIdentityServer(server, identity{name: driver.Name})
	spec.RegisterControllerServer(server, &controller{backend: b, driver: driver})
	return endpoint{socket: driver.ControllerSocket, server: server}
}

func newNodeEndpoint(b *backend, driver Driver, n Node) endpoint {
	faults := interceptor{backend: b, driver: driver.Name, node: n.Name}
	server := grpc.NewServer(grpc.UnaryInterceptor(faults.intercept))
	spec.RegisterIdentityServer(server, identity{name: driver.Name})
	spec.RegisterNodeServer(server, &node{backend: b, driver: driver, name: n.Name})
	return endpoint{socket: n.Socket(driver.Name), server: server}
}

func newRegistrationEndpoint(driver Driver, n Node) endpoint {
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, registrar{driver: driver.Name, node: n.Name, socket: n.Socket(driver.Name)})
	return endpoint{socket: n.RegistrationSocket(driver.Name), server: server}
}

// listenAll opens every socket, or none. Registration sockets come after the node socket that they announce, because
// the kubelet calls the driver the moment it sees one.
func listenAll(ctx context.Context, endpoints []endpoint) ([]net.Listener, error) {
	var listeners []net.Listener
	for _, end := range endpoints {
		listener, err := listen(ctx, end.socket)
		if err != nil {
			for _, open := range listeners {
				err = errors.Join(err, open.Close())
			}
			return nil, err
		}
		listeners = append(listeners, listener)
	}
	return listeners, nil
}

func listen(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of socket %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket %s of an earlier process: %w", path, err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return listener, nil
}

func stopAll(endpoints []endpoint) {
	timer := time.AfterFunc(stopGrace, func() { killAll(endpoints) })
	defer timer.Stop()
	var wait sync.WaitGroup
	for _, end := range endpoints {
		wait.Go(end.server.GracefulStop)
	}
	wait.Wait()
}

// killAll ends all connections without another answer.
func killAll(endpoints []endpoint) {
	for _, end := range endpoints {
		end.server.Stop()
	}
}

// registrar tells a kubelet where the driver's node service listens.
type registrar struct {
	registration.UnimplementedRegistrationServer
	driver, node, socket string
}

func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              r.driver,
		Endpoint:          r.socket,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (r registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if s.GetPluginRegistered() {
		slog.Info("registered with the kubelet", "driver", r.driver, "node", r.node)
	} else {
		slog.Error("the kubelet refused the driver", "driver", r.driver, "node", r.node, "error", s.GetError())
	}
	return &registration.RegistrationStatusResponse{}, nil
}
