# Every target has a line after ##, which `make help` prints. CI (.ci/run)
# calls the same targets.

# The toolchain that builds, tests and releases. go.mod asks for less, so that
# the README's commands run with whatever Go is there; this one has the
# security fixes of the standard library. The go command fetches it by itself.
export GOTOOLCHAIN := go1.27.3

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -X main.version=$(VERSION)
BUILD   := CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)'

# How long each fuzz target runs.
FUZZTIME ?= 10m
export FUZZTIME

# What `make bench` passes on, for example BENCH='-scenario small64 -rounds 3'.
BENCH ?=

# What `make soak` passes on, for example SOAK='-run TestSoak/loop'. Each engine
# takes FAIRLEAD_SOAK_MINUTES (30) in TestSoak, at most 60 for both to be done.
SOAK ?=

# Debian packages: what the tests use, and what the benchmark does beyond it.
TEST_PACKAGES  := curl nghttp2-client openssl iproute2 socat gcc libc6-dev bind9-dnsutils bind9-utils knot-dnsutils unbound chromium-headless-shell
BENCH_PACKAGES := haproxy nginx-light wrk nghttp2-client util-linux

.DEFAULT_GOAL := help
.PHONY: help build test installed goroutine race check lint fuzz bench h2spec vuln gen e2e soak websocket cross deps toolchain

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build ./fairlead
	$(BUILD) -o fairlead ./cmd/fairlead

test: ## run all tests
	go test ./...

# The toolchain above is not everybody's: the README's command takes what is there.
# What the binary does under load takes minutes and is the same for both.
installed: ## run the tests but those of load with the Go that is installed
	GOTOOLCHAIN=local go test $$(GOTOOLCHAIN=local go list ./... | grep -v '/test/load$$')

goroutine: ## run the tests of the data plane on goroutines in place of event loops
	FAIRLEAD_IO=goroutine go test ./internal/httplb ./internal/node ./internal/dnslb ./test/http ./test/dns ./test/grpc ./test/acme ./test/load ./cmd/fairlead

race: ## run all tests with the race detector
	CGO_ENABLED=1 go test -race ./...

check: ## gofmt and go vet
	@unformatted=$$("$$(go env GOROOT)/bin/gofmt" -l .) && test -z "$$unformatted" || { \
		printf 'gofmt would change these, run gofmt -w .:\n%s\n' "$$unformatted" >&2; exit 1; }
	go vet ./...

lint: ## run golangci-lint (building it the first time takes minutes)
	linter=$$(go -C tools/lint tool -n golangci-lint) && "$$linter" run ./...

fuzz: ## run each fuzz target for FUZZTIME (default 10m)
	tools/fuzz

bench: ## compare with HAProxy and nginx; options in BENCH='-h'
	@tools/apt-ensure $(BENCH_PACKAGES)
	go run ./bench $(BENCH)

# The tests run it, when it has been built, and fetch nothing themselves.
h2spec: ## build h2spec, with which the tests try HTTP/2
	@CGO_ENABLED=0 go -C tools/h2spec tool -n h2spec

vuln: ## scan the binary for known vulnerabilities, offline
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
		CGO_ENABLED=0 go build -o "$$dir/fairlead" ./cmd/fairlead && tools/vuln/check "$$dir/fairlead"

gen: ## write generated files again: go generate, and the list of public names
	go generate ./...
	go test ./test/taste -run '^TestNames$$' -update

e2e: ## run the tests under test/ against the real binary, uncached
	go test -count=1 ./test/...

soak: ## run the tests that need load and time in their long form, hours; options in SOAK
	FAIRLEAD_SOAK=1 go test -count=1 -timeout 3h -v $(SOAK) ./test/load

websocket: ## relay a thousand WebSockets, 10 minutes on each engine
	FAIRLEAD_SOAK=1 go test -count=1 -timeout 1h -v -run '^TestWebSocketRelay$$' ./test/load

cross: ## build for the other platforms that are supported
	@set -e; for platform in linux/arm64 darwin/arm64; do \
		echo "build $$platform"; \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} $(BUILD) -o /dev/null ./cmd/fairlead; \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} go vet ./...; \
	done

deps: h2spec ## install the Debian packages and build the tools that the tests use
	@tools/apt-ensure $(TEST_PACKAGES)

toolchain: ## print the Go toolchain that is used here
	@echo $(GOTOOLCHAIN)
