// Command probe is what the tests of the lab run in pods: each subcommand does one thing and says how it went.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := probe(os.Args[1], os.Args[2:]); err != nil {
		fmt.Println("no:", err)
		os.Exit(1)
	}
	fmt.Println("yes")
}

func probe(what string, args []string) error {
	switch what {
	case "serve":
		return serve(args)
	case "get":
		client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		response, err := client.Get(args[0])
		if err != nil {
			return err
		}
		return response.Body.Close()
	case "resolve":
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		started := time.Now()
		addresses, err := net.DefaultResolver.LookupHost(ctx, args[0])
		fmt.Println(addresses, time.Since(started).Round(time.Millisecond))
		return err
	case "write":
		return write(args[0])
	}
	return fmt.Errorf("unknown subcommand %q", what)
}

// serve answers on all of the ports, forever.
func serve(ports []string) error {
	failed := make(chan error)
	for _, port := range ports {
		go func() {
			failed <- http.ListenAndServe(":"+port, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "here\n")
			}))
		}()
	}
	return <-failed
}

// write puts bytes into a file or a block device, and reads them back.
func write(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o660)
	if err != nil {
		return err
	}
	defer f.Close()
	want := bytes.Repeat([]byte("vmdisk"), 1<<15)
	if _, err := f.WriteAt(want, 4096); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, 4096); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s gives other bytes back", path)
	}
	return nil
}
