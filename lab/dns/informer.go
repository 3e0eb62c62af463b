package dns

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	byService   = "service"
	byNamespace = cache.NamespaceIndex
)

// informed is a Source that follows the API server.
type informed struct {
	services cache.Indexer
	slices   cache.Indexer
}

// Follow returns a Source once it knows every Service of the cluster; it is kept up to date until the context ends.
func Follow(ctx context.Context, client kubernetes.Interface) (Source, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	services := factory.Core().V1().Services().Informer()
	slices := factory.Discovery().V1().EndpointSlices().Informer()
	err := slices.AddIndexers(cache.Indexers{byService: func(object any) ([]string, error) {
		slice, ok := object.(*discoveryv1.EndpointSlice)
		if !ok {
			return nil, fmt.Errorf("a store of EndpointSlices holds a %T", object)
		}
		return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index endpoints by their Service: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), services.HasSynced, slices.HasSynced) {
		return nil, errors.New("read the cluster's Services: stopped before they were all there")
	}
	return informed{services: services.GetIndexer(), slices: slices.GetIndexer()}, nil
}

func (s informed) Service(namespace, name string) *corev1.Service {
	object, ok, err := s.services.GetByKey(namespace + "/" + name)
	if err != nil || !ok {
		return nil
	}
	service, _ := object.(*corev1.Service)
	return service
}

func (s informed) Slices(namespace, service string) []*discoveryv1.EndpointSlice {
	objects, err := s.slices.ByIndex(byService, namespace+"/"+service)
	if err != nil { // only if the index didn't exist
		return nil
	}
	found := make([]*discoveryv1.EndpointSlice, 0, len(objects))
	for _, object := range objects {
		if slice, ok := object.(*discoveryv1.EndpointSlice); ok {
			found = append(found, slice)
		}
	}
	return found
}

func (s informed) HasNamespace(namespace string) bool {
	keys, err := s.services.IndexKeys(byNamespace, namespace)
	return err == nil && len(keys) > 0
}
