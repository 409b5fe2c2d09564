# Everything here runs on a machine with rustup, a C compiler and nothing else; what is missing is installed on first use.

TARGET    := $(or $(CARGO_TARGET_DIR),target)
WASM      := wasm32-unknown-unknown
LRO       := $(TARGET)/release/lro
CARGO     := cargo
.DEFAULT_GOAL := help

# Tests wait for child processes and timers more than they compute: with two threads for each core, those of the gateway keep two cores half idle.
export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc) + 4)))

# Crates that compile to WebAssembly too, without those that only make components, and crates of the host.
GUEST     := -p lro-json -p lro-jsonl -p lro-sql -p lro-text -p lro-payload -p lro-contract -p lro-reading -p lro-mcp -p lro-document -p lro-http
# What of the components has tests that run natively.
GUEST_TESTED := $(GUEST) -p lro-offload -p lro-answer -p lro-redact
COMPONENTS := -p lro-policy -p lro-redact -p lro-extract -p lro-extract-sql -p lro-document-text \
	-p lro-reader -p lro-adapter -p lro-bridge -p lro-results-memory -p lro-results-directory \
	-p lro-middleware -p lro-forward -p lro-store-memory -p lro-store-directory \
	-p lro-act -p lro-act-directory -p lro-no-tools
HOST      := -p lro-system -p lro-transport -p lro-meter -p lro-table -p lro-oci -p lro-setup -p lro-host -p lro-handler -p lro-rmcp -p lro-gateway -p lro
# Cargo gives a dependency the features that all packages of one command need. So that most are compiled once, builds and tests of
# the host name the same packages, and `embedded` stands for what the tests need.
TESTED    := $(HOST) -p lro-tests -p lro-conformance
# What is linted together, so that the crates of others are checked once.
LINTED    := $(TESTED) $(GUEST_TESTED) -p lro-counts -p policy-template
# What fails at marked places is another build, whose speed does not matter.
UNOPTIMIZED := $(foreach crate,$(filter lro-%,$(HOST)) lro-fail-points,--config profile.release.package.$(crate).opt-level=0)

# What a host gives to a component, and gets of it, passes through generic code that is compiled with the host: here, the runners.
MEASURED := --config profile.release.package.lro-tests.opt-level=3
# Where the crates that differ between systems are checked, too; the others need a compiler of C for these.
FOREIGN   := x86_64-pc-windows-gnu aarch64-apple-darwin

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install the wasm target and lay out the WASI interface files
	@rustup target list --installed | grep -qx $(WASM) || { echo "installing the Rust target $(WASM)"; rustup target add $(WASM); }
	@sh tests/tools/wit-deps.sh

.PHONY: component
component: setup ## Build the components alone: policies, those that answer questions, and those around a policy
	@$(CARGO) build --locked --profile component --target $(WASM) $(COMPONENTS)

.PHONY: build
build: setup ## Build the components and the lro command, and compose the default policy
	@[ -e $(LRO) ] || echo "building the components and the lro command: 9 minutes on two cores, the first time"
	@$(CARGO) build --locked --release $(TESTED) --bin lro --example embedded
	@$(LRO) compose $(TARGET)/$(WASM)/component/lro_policy.wasm -o $(TARGET)/$(WASM)/component/lro_filter.wasm

# What is installed comes over the network while the compiler works.
.PHONY: ready
ready:
	@$(MAKE) --no-print-directory -j 2 build test-data

.PHONY: demo
demo: ready ## Offload real data and ask about it, by command and between a real client and a real server
	@LRO=$(LRO) TEST_DATA=$(TARGET)/test-data bash tests/tools/demo.sh

.PHONY: test-data
test-data: ## Install the packages whose data, servers and clients the tests use
	@sh tests/tools/set-up.sh $(TARGET)/test-data

.PHONY: test
test: ready ## Run all tests
	@echo "compiling the tests, 5 minutes on two cores the first time, and running them, 15 minutes"
	@$(CARGO) build --locked --profile component --target $(WASM) -p lro-test-policies -p lro-test-server --lib --examples
	@$(CARGO) test --locked --release --no-fail-fast $(TESTED)
	@$(CARGO) test --locked --release --no-fail-fast $(GUEST_TESTED)
	@$(CARGO) test --locked --release --no-fail-fast $(UNOPTIMIZED) $(TESTED) -p lro-fail-points --test fail_points
	@python3 tests/tools/session.py $(LRO) --check

.PHONY: conformance
conformance: ready ## Run the official conformance suite, directly, through the gateway and through the component
	@$(CARGO) build --locked --release $(TESTED) --bin lro-conformance
	@LRO=$(LRO) bash tests/tools/conformance.sh $(TARGET)

.PHONY: limits
limits: ready ## What every known client gets of every kind of result: the table, no cell beyond its limit, and what the packages of clients say
	@sh tests/tools/set-up.sh $(TARGET)/test-data clients
	@sh tests/tools/clients/limits.sh $(TARGET)
	@LRO_COUNT_TOKENS=1 $(CARGO) test --locked --release $(TESTED) --test gateway limits:: -- --nocapture

.PHONY: agents
agents: ready ## Run the hooks in the real agents, with a model of a few lines on this machine; downloads 400 MB
	@sh tests/tools/set-up.sh $(TARGET)/test-data agents
	@sh tests/tools/agents/agents.sh $(TARGET)

.PHONY: gateways
gateways: ready packages ## Run the plugins in LiteLLM and ContextForge; downloads 1.2 GB, of which only those two have fixed versions
	@sh tests/tools/set-up.sh $(TARGET)/test-data runtimes
	@sh tests/tools/set-up.sh $(TARGET)/test-data gateways
	@PYTHONPATH=host-example/python CARGO_TARGET_DIR=$(abspath $(TARGET)) $(TARGET)/test-data/venv-runtimes/bin/python host-example/python/tests/other_gateways.py

.PHONY: session
session: build ## Record `lro setup` with five configurations in the documentation
	@python3 tests/tools/session.py $(LRO)

.PHONY: packages
packages: component build ## Put the components into the packages for Python, Node and edge runtimes
	@sh tests/tools/packages.sh $(TARGET)

# Packages for these platforms; or of PROGRAM, built already for the platform PLATFORMS, to try the packages without a build.
PLATFORMS := $(if $(PROGRAM),$(shell uname -m)-unknown-linux-gnu,x86_64-unknown-linux-musl)
DIST      := $(TARGET)/dist

.PHONY: dist
dist: build packages ## Make packages of the command for PLATFORMS: archive, Debian, npm, PyPI, container
	@rm -rf $(DIST)
	@set -e; for platform in $(PLATFORMS); do \
		program=$(or $(PROGRAM),$$(sh tests/tools/platform.sh $$platform)); \
		python3 host-example/dist/dist.py --program $$program --target $$platform --lro $(LRO) --output $(DIST) $(if $(PROGRAM),--quick); \
	done
	@python3 host-example/dist/dist.py --finish --output $(DIST)

.PHONY: dist-test
dist-test: dist test-data ## Install each package from its file, offline, where there is no compiler, and use it
	@sh tests/tools/dist-test.sh $(DIST) $(TARGET)/test-data

CRATES    := $(TARGET)/crates

.PHONY: crates
crates: component ## Make the crates of the command and the libraries, with the components in them
	@python3 host-example/dist/crates.py --components $(TARGET)/$(WASM)/component --output $(CRATES)

# Where the test serves the archives.
.PHONY: crates-test
crates-test: export RELEASE_URL := https://127.0.0.1:8443
crates-test: crates ## Install the command from its crates, offline, and use it: compiles for 15 minutes
	@sh tests/tools/crates-test.sh $(CRATES) $(wildcard $(DIST))

# Built with the command, and tested, under an emulator: the store, the sandbox, transports and what differs between systems.
# `embedded` stands for what the tests need, as in TESTED.
EMULATED  := -p lro-host -p lro-system -p lro-transport -p lro-tests
SUITES    := store growing jobs pages questions reader files process transport it

.PHONY: emulated
emulated: ready ## Build for PLATFORM, such as aarch64-unknown-linux-musl, run that and its tests under an emulator, and compare
	@$(CARGO) build --locked --profile component --target $(WASM) -p lro-test-policies -p lro-test-server --lib --examples
	@BESIDE="$(EMULATED) --example embedded" sh tests/tools/platform.sh $(or $(PLATFORM),$(error make emulated PLATFORM=aarch64-unknown-linux-musl)) > /dev/null
	@GUEST_SUITES="$(GUEST) --tests" HOST_SUITES="-p lro $(EMULATED) --lib $(SUITES:%=--test %)" sh tests/tools/emulated.sh $(TARGET) $(PLATFORM)

.PHONY: release
release: ## Prepare the release VERSION: set it, run all checks, make and try its packages, tag it; uploads nothing
	@sh tests/tools/release.sh set $(or $(VERSION),$(error make release VERSION=0.2.0))
	@.ci/run --all
	@$(MAKE) --no-print-directory reproducible limits dist-test crates
	@sh tests/tools/release.sh tag $(VERSION)

.PHONY: publish
publish: build component ## Push the contract and the components to REGISTRY, such as REGISTRY=127.0.0.1:5000
	@$(CARGO) build --locked --release $(TESTED) --example wit-package
	@sh tests/tools/publish.sh $(TARGET) $(or $(REGISTRY),$(error make publish REGISTRY=HOST[:PORT]))

.PHONY: runtimes
runtimes: ready packages ## Run the same component in every runtime, and build what authors of policies and of other hosts build
	@sh tests/tools/set-up.sh $(TARGET)/test-data runtimes
	@$(CARGO) build --locked --release $(MEASURED) $(TESTED) --bins --example composed
	@sh tests/tools/runtimes.sh $(TARGET)

.PHONY: fuzz
fuzz: setup ## Run each fuzz target for FUZZ_SECONDS, 60 by default
	@bash tests/tools/fuzz.sh $(TARGET) $(or $(FUZZ_SECONDS),60)

.PHONY: miri
miri: ## Run unit tests of the crates of plain Rust that have unsafe code in Miri, with a nightly toolchain
	@sh tests/tools/miri.sh $(TARGET)

.PHONY: mutants
mutants: setup ## Change what decides about a result, in one place after another, and see that tests notice: 20 minutes
	@sh tests/tools/mutants.sh $(TARGET)

.PHONY: bench
bench: ready ## Measure against plain writes, native code, Python, jq and DuckDB
	@sh tests/tools/set-up.sh $(TARGET)/test-data bench || echo "set-up: going on without what is missing"
	@node tests/tools/tokens/accuracy.mjs $(TARGET)/test-data
	@rm -f $(TARGET)/bench.json
	@$(CARGO) bench --locked $(TESTED) --bench "*"
	@echo "as data: $(TARGET)/bench.json"

.PHONY: stages
stages: ready ## Measure where the time of a result goes, and write the table and the plot of it
	@LRO_WRITE_STAGES=1 $(CARGO) bench --locked $(TESTED) --bench gateway -- --stages

.PHONY: soak
soak: ready ## Call the gateway at a fixed rate: LRO_SOAK_SECONDS=60 LRO_SOAK_RATE=10000 LRO_SOAK_SESSIONS=1000
	@$(CARGO) bench --locked $(TESTED) --bench gateway -- --soak

.PHONY: bench-compare
bench-compare: ## Compare what `make bench` has measured with BASE, an earlier target/bench.json; fails where it is worse
	@python3 tests/tools/bench.py $(or $(BASE),$(error make bench-compare BASE=FILE)) $(TARGET)/bench.json

.PHONY: counts
counts: ready ## Count the instructions of hot paths, and compare them with tests/counts.txt
	@$(CARGO) build --locked --release $(TESTED) --example counts-host
	@$(CARGO) build --locked --release -p lro-counts
	@python3 tests/tools/counts.py $(TARGET)/release/lro-counts $(TARGET)/release/examples/counts-host

.PHONY: test-crate
test-crate: build ## Run the tests of one crate, such as CRATE=lro-mcp
	@$(CARGO) test --locked --release --no-fail-fast -p $(or $(CRATE),$(error make test-crate CRATE=NAME))

.PHONY: site
site: ## Build the documentation as a site that works without a network, and check its links
	@sh tests/tools/set-up.sh $(TARGET)/test-data lint
	@python3 tests/tools/site.py $(TARGET)/test-data/venv-lint/bin/mdbook $(TARGET)

.PHONY: fmt
fmt: ## Format the Rust sources
	@$(CARGO) fmt --all

.PHONY: lint
lint: setup ## Check formatting, spelling, lints, documentation and its links
	@$(CARGO) fmt --all --check
	@$(CARGO) metadata --locked --manifest-path tests/fuzz/Cargo.toml --format-version 1 > /dev/null
	@sh tests/tools/set-up.sh $(TARGET)/test-data lint
	@$(TARGET)/test-data/venv-lint/bin/typos
	@python3 tests/tools/site.py $(TARGET)/test-data/venv-lint/bin/mdbook $(TARGET)
	@# Without what fails at marked places, and with it: the latter without tests, which are the same.
	@$(CARGO) clippy --locked --release --all-targets $(LINTED) -- -D warnings
	@$(CARGO) clippy --locked --release --lib --bins --test fail_points $(LINTED) -p lro-fail-points -- -D warnings
	@$(CARGO) clippy --locked --profile component --target $(WASM) -p lro-offload $(COMPONENTS) -p lro-test-policies -p lro-test-server -p lro-test-tools -- -D warnings
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --release --no-deps --lib --bins --example embedded $(TESTED) $(GUEST) -p lro-counts
	@$(MAKE) --no-print-directory foreign

.PHONY: foreign
foreign: ## Check for Windows and macOS what differs between systems
	@for target in $(FOREIGN); do \
		rustup target list --installed | grep -qx $$target || rustup target add $$target; \
		$(CARGO) clippy --locked --release --target $$target -p lro-system -p lro-transport -- -D warnings || exit 1; \
	done

.PHONY: reproducible
reproducible: component ## Build the components once more from nothing, and compare
	@CARGO_TARGET_DIR=$(TARGET)/again $(CARGO) build --locked --profile component --target $(WASM) $(COMPONENTS)
	@for name in $(subst -,_,$(filter lro-%,$(COMPONENTS))); do cmp $(TARGET)/again/$(WASM)/component/$$name.wasm $(TARGET)/$(WASM)/component/$$name.wasm || exit 1; done
	@rm -rf $(TARGET)/again
	@echo "the same bytes twice"

.PHONY: clean
clean: ## Remove everything that was built or installed here
	@$(CARGO) clean
	@rm -rf wit/deps wit/adapter/deps wit/http/deps
