# vmdisk's tasks. `make` alone lists them. Each one installs what it lacks and says so; only Go and make must be there.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-unit test-apiserver test-e2e lint generate verify lab-up lab-down lab-status deploy \
	bench bench-go fuzz build image manifests clean go

# IMAGE is the name that `make image` and `make manifests` give the image. The lab names its own.
IMAGE ?= vmdisk:latest
# DIST is where they put what they make.
DIST ?= dist
# FUZZTIME is how long `make fuzz` spends on each target.
FUZZTIME ?= 30s
# BENCH is the suite that `make bench` runs, with its flags: "full", or "quick --only 'qcow2|networks' --rounds 5".
BENCH ?= quick

help: ## List the tasks
	@echo "make demo and make test are the two to begin with. Both need a Debian machine, root and Go, and no cluster."
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-15s %s\n", $$1, $$2}'

# The lab's commands are one Go program; nothing but Go is needed to start it.
LAB := go run ./lab

go:
	@command -v go >/dev/null || { echo "Go is missing. Install the version that go.mod names (or a newer one) and put it on PATH, then try again."; exit 1; }

demo: go ## From a cloud image behind a URL to a bootable disk, in a quota of exactly its size, on a real cluster
	$(LAB) demo

test: go ## All tests: static checks, units, the API against a real API server, and every capability in the lab
	$(LAB) test

test-all: go ## As test, with the long scenarios, the race detector everywhere and the linter
	$(LAB) test --all

test-unit: go ## Unit tests only: quick, no cluster
	$(LAB) test --only unit

test-apiserver: go ## Only the tests against a real API server
	$(LAB) test --only apiserver

test-e2e: go ## Only the scenarios in the lab
	$(LAB) test --only e2e

lint: go ## Run golangci-lint (building it takes a few minutes the first time)
	go tool -modfile=tools/go.mod golangci-lint run ./...

# What is generated, into the tree at $(1).
define generate-into
	go tool controller-gen object paths=./api/v1alpha1 output:object:dir=$(1)/api/v1alpha1
	go tool controller-gen crd paths=./api/v1alpha1 output:crd:dir=$(1)/config/crd
	go tool controller-gen crd:maxDescLen=300,ignoreUnexportedFields=true \
		paths=kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1 output:crd:dir=$(1)/.cache/cdi-crd
	cd $(1) && for kind in datavolumes cdis cdiconfigs datasources storageprofiles volumeimportsources; do \
		cp .cache/cdi-crd/cdi.kubevirt.io_$$kind.yaml config/crd/ || exit 1; done
endef

generate: go ## Make the deepcopy functions, the CRDs and the Helm chart's templates again
	$(call generate-into,.)
	$(LAB) chart charts/vmdisk

verify: go ## Check that generated files are current, and formatting and go vet
	@rm -rf .cache/verify && mkdir -p .cache/verify/api/v1alpha1 .cache/verify/config/crd
	$(call generate-into,.cache/verify)
	@diff -r .cache/verify/config/crd config/crd && diff .cache/verify/api/v1alpha1/zz_generated.deepcopy.go api/v1alpha1/zz_generated.deepcopy.go \
		|| { echo "Generated files are out of date: run make generate and commit what it changes."; exit 1; }
	@rm -rf .cache/chart && cp -r charts/vmdisk .cache/chart && $(LAB) chart .cache/chart && diff -r .cache/chart charts/vmdisk \
		|| { echo "The Helm chart is out of date: run make generate and commit what it changes."; exit 1; }
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "Not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	go vet -tags 'apiserver e2e lifecycle' ./...

lab-up: go ## Start the lab: a real two-node Kubernetes on this machine (about 15 minutes the first time, it builds it)
	$(LAB) up

lab-down: go ## Stop the lab and clean up after it, whatever state it is in
	$(LAB) down

lab-status: go ## Show what runs in the lab, and how to use it
	$(LAB) status

deploy: go ## Build vmdisk and install it in the lab, or bring it up to date there
	$(LAB) deploy

bench: build ## Compare vmdisk with CDI's path and qemu-img, in one run; BENCH=quick (about 8 minutes, and once 10 to make images) or full
	$(LAB) bench $(BENCH)

bench-go: go ## Run the Go benchmarks of the data plane's parts
	go test -run '^$$' -bench . -benchmem ./internal/...

fuzz: go ## Fuzz everything that reads untrusted bytes, FUZZTIME (30s) each
	@set -e; grep -rlE '^func Fuzz' --include '*_test.go' internal | while read -r file; do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$$file"); do \
			echo "fuzz $$target in $$(dirname "$$file") for $(FUZZTIME)"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 50x "./$$(dirname "$$file")"; \
		done; done

build: go ## Build bin/vmdisk, one static binary (it also works as kubectl-vmdisk)
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/vmdisk ./cmd/vmdisk

image: go ## Build the image IMAGE as dist/vmdisk-image.tar, without Docker; load or push it with any tool
	$(LAB) image $(IMAGE) $(DIST)/vmdisk-image.tar

manifests: go ## Write dist/crds.yaml and dist/install.yaml, for IMAGE: what to apply to an existing cluster, in this order
	@mkdir -p $(DIST)
	@for file in config/crd/*.yaml; do echo ---; cat "$$file"; done > $(DIST)/crds.yaml
	@for file in config/manifests/*.yaml; do echo ---; cat "$$file"; done | sed 's|vmdisk:latest|$(IMAGE)|g' > $(DIST)/install.yaml
	@for file in config/populator/*.yaml; do echo ---; cat "$$file"; done | sed 's|vmdisk:latest|$(IMAGE)|g' > $(DIST)/populator.yaml
	@echo "Wrote $(DIST)/crds.yaml, $(DIST)/install.yaml and, for who wants populators (docs/security.md), $(DIST)/populator.yaml. To install:"
	@echo "  kubectl apply --server-side -f $(DIST)/crds.yaml && kubectl wait --for=condition=Established -f $(DIST)/crds.yaml"
	@echo "  kubectl apply --server-side -f $(DIST)/install.yaml"

clean: ## Remove what was built in this clone (the lab's own directory is kept; see lab-down)
	rm -rf bin dist .cache
