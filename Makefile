# `make` prints the targets. Everything is installed into subfolders of this folder:
#   .venv-uv          what installs all others
#   .venv             checks, tests and the demo
#   .venv-engine      the local DynamoDB, which is separate because it pins botocore
#   .venv-bench       the libraries that the benchmarks compare with
#   .venv-interop     the older Python client
#   .venv-cdk-oldest  the oldest CDK that is supported
#   .venv-durable     the SDK of durable functions, with its testing package
#   .venv-docs        what builds the documentation site
#   .venv-lint        what looks for mistakes in templates of CloudFormation
#   .venv-pythons     an environment for each other version of Python, with few packages
#   .venv-middlewares the middlewares that benchmarks/middlewares compares idempotent APIs with
#   .venv-limiters    the rate limiter that benchmarks/rates/published.py compares with, installed by hand
#   node_modules      the CDK's command line
# Build results go into build/.

PYTHON ?= python3
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory --no-builtin-rules

# Tests start hundreds of processes on several workers, so Python keeps the files that it has compiled.
export PYTHONDONTWRITEBYTECODE :=

BIN := .venv/bin
# More tests than cores run at once, because some of them wait for leases and processes. But each worker first collects
# all tests, which costs it 7 s of a core, and has an engine of its own.
JOBS ?= 5
DIST := loadfile
PARALLEL = --numprocesses $(JOBS) --dist $(DIST)
# Folders of tests that are not about the library, but about what stands around it: tests/README.md.
AROUND := $(addprefix tests/,benchmarks demo docs event_sources examples infra prove recipes rig step_functions)
# Of the CDK's constructs, what they grant and the templates that they make are the library's.
TEMPLATES := $(patsubst %,tests/cdk/test_%.py,connect grants public_names table wake_templates waker)
LOADING_CDK := tests/infra $(filter-out $(TEMPLATES),$(wildcard tests/cdk/test_*.py))
LIBRARY := $(filter-out $(AROUND) tests/cdk tests/support tests/__pycache__,$(patsubst %/,%,$(wildcard tests/*/))) $(wildcard tests/test_*.py)
# What sends each shape of request, with each condition: the other tests repeat them.
REQUESTS := $(addprefix tests/,core client several table transactions holds rates row_format expressions rig) \
  $(patsubst %,tests/deduplicate/test_%.py,events forget commit)

# pytest(tests, tests of the CDK): run them, or those that ARGS name. The CDK takes seconds to load: one process does.
pytest = $(if $(findstring tests/,$(ARGS)),@$(BIN)/pytest --quiet $(PARALLEL) $(ARGS),$(beside))
define beside
	@mkdir -p build; first=0; second=0; \
	$(BIN)/pytest --quiet -o cache_dir=.pytest_cache/cdk $(2) $(ARGS) >build/$@.txt 2>&1 & \
	$(BIN)/pytest --quiet $(PARALLEL) $(1) $(ARGS) || first=$$?; \
	wait $$! || second=$$?; cat build/$@.txt; \
	if (( first == 5 && second == 0 )); then first=0; fi; exit $$(( first ? first : second == 5 ? 0 : second )) # 5: no tests
endef
SOURCES := $(wildcard lambda_lock rig demo benchmarks examples infra tests hatch_build.py)

# Installing a virtual environment ends with a stamp file. So an installation that failed is repeated, and a complete one
# costs nothing.
UV := .venv-uv/.installed
DEV := .venv/.installed
ENGINE := .venv-engine/.installed
BENCH := .venv-bench/.installed
INTEROP := .venv-interop/.installed
CDK_OLDEST := .venv-cdk-oldest/.installed
DURABLE := .venv-durable/.installed
DOCS := .venv-docs/.installed
MIDDLEWARES := .venv-middlewares/.installed
LINT := .venv-lint/.installed
CDK := node_modules/.package-lock.json
JAVA_PEER := build/interop/java/.built
DYNAMODB_LOCAL := build/dynamodb-local/.built
# Python 3.14, where it is not on the PATH and Maven has it for this machine.
NEWEST := $(if $(shell python3.14 --version 2>/dev/null),,$(if $(filter Linux-x86_64,$(shell uname -s)-$(shell uname \
  -m)),$(if $(shell command -v mvn),build/python/.built)))

.PHONY: help
help: ## Print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup: $(DEV) $(ENGINE) ## Install what the checks, tests and demo need (their targets do this too)

.PHONY: environments
environments: $(DEV) $(ENGINE) $(INTEROP) $(CDK_OLDEST) $(DURABLE) $(DOCS) $(LINT) $(CDK) $(JAVA_PEER) $(DYNAMODB_LOCAL) pythons ## Install what all of CI needs (needs Node, Java and Maven)

.PHONY: pythons
pythons: $(NEWEST) | $(UV)
	@$(PYTHON) -m rig.pythons --install

.PHONY: check
check: $(DEV) ## Check lint, security, format, types, and the pins for known vulnerabilities
	@$(BIN)/ruff check --quiet $(SOURCES)
	@$(BIN)/ruff format --quiet --check $(SOURCES) || { echo "The files above are not formatted: run 'make format'."; exit 1; }
	@$(BIN)/mypy $(SOURCES)
	@$(BIN)/python -m rig.audit

.PHONY: audit
audit: $(DEV) ## Ask the registries for known vulnerabilities of all pins (ARGS=--required: an error if they do not tell)
	@$(BIN)/python -m rig.audit $(ARGS)

.PHONY: format
format: $(DEV) ## Format the sources, and fix what the linter can fix
	@$(BIN)/ruff check --quiet --fix-only $(SOURCES)
	@$(BIN)/ruff format --quiet $(SOURCES)

# With five, a core is idle for a sixth of the time, because many of these tests wait.
.PHONY: test
test: JOBS := 6
# Without Node the tests of the CDK are skipped, so its command line is not needed either.
test: $(DEV) $(ENGINE) $(if $(shell command -v npm),$(CDK)) ## Test the library (ARGS='-k name' selects some, JOBS=1 runs them one after another)
	$(call pytest,$(LIBRARY),$(TEMPLATES))

.PHONY: test-around
test-around: $(DEV) $(ENGINE) $(if $(shell command -v npm),$(CDK)) ## Test docs, examples, demo, benchmarks, rig and deployments
	$(call pytest,$(filter-out $(LOADING_CDK),$(AROUND)),$(LOADING_CDK))

.PHONY: test-planted
test-planted: DIST := load
test-planted: $(DEV) $(ENGINE) ## See that planted mistakes are noticed, if what they are planted in has changed (ARGS=--all: anyway)
	@LAMBDA_LOCK_SCHEDULES=$(SCHEDULES) $(BIN)/python -m tests.prove.noted planted $(ARGS) -- $(PARALLEL)

.PHONY: test-all
test-all: ## All three
	@$(MAKE) test
	@$(MAKE) test-around
	@$(MAKE) test-planted ARGS=

.PHONY: test-pythons
test-pythons: $(DEV) $(ENGINE) $(NEWEST) ## Run the tests that need few packages on each other version of Python that is claimed
	@$(BIN)/python -m rig.pythons $(PARALLEL) $(ARGS)

.PHONY: quick
quick: JOBS := 3
quick: $(DEV) $(ENGINE) ## Run the tests of the core, transport, decorators, batches and lambda_lock.testing
	@$(BIN)/pytest --quiet $(PARALLEL) $(addprefix tests/,core transport with_lock deduplicate batch testing) $(ARGS)

.PHONY: test-slow
test-slow: DIST := load
test-slow: $(DEV) $(ENGINE) $(NEWEST) $(if $(shell command -v npm),$(CDK)) ## Run what takes longer, if what it tests has changed (ARGS=--all: anyway; SCHEDULES=1500: in the short form that CI runs)
	@LAMBDA_LOCK_SCHEDULES=$(SCHEDULES) $(BIN)/python -m tests.prove.noted slow $(ARGS) -- $(PARALLEL)

.PHONY: checker
checker: # The first time, Go compiles its standard library too: not while tests run
	@cd tests/histories/checker && go build -buildvcs=false -o ../../../build/histories/checker . \
	  && go test -buildvcs=false -vet=off -c -o /dev/null . || echo "Tests of histories are skipped: Go cannot build their checker."

.PHONY: test-prove
test-prove: JOBS := 2
test-prove: DIST := load
test-prove: $(DEV) $(ENGINE) checker ## Run the tests of what `make prove` runs, and the longest others
	@$(BIN)/pytest --quiet $(PARALLEL) -m prove -o timeout=900 $(ARGS)

.PHONY: one-token
one-token: $(DEV) $(ENGINE) $(DURABLE) ## Change one token of the library at a time, and tell what no test notices (ARGS='--count 40 --seed 7')
	@$(BIN)/python -m tests.prove.one_token $(ARGS)

.PHONY: prove
prove: $(DEV) $(ENGINE) $(DYNAMODB_LOCAL) ## Prove exclusion in half an hour, and write docs/safety-figures.md (needs Go, Java, Maven)
	@$(BIN)/python -m tests.prove $(ARGS)

.PHONY: prove-long
prove-long: $(DEV) $(ENGINE) $(DYNAMODB_LOCAL) ## The same for hours
	@$(BIN)/python -m tests.prove --long $(ARGS)

.PHONY: test-dynamodb-local
test-dynamodb-local: $(DEV) $(NEWEST) $(DYNAMODB_LOCAL) ## Run the tests that send each kind of request on Amazon's DynamoDB Local (needs Java and Maven)
	@# CI, which sets SCHEDULES, leaves the long ones out here: test-slow runs them on ministack.
	@LAMBDA_LOCK_ENGINE=dynamodb-local $(BIN)/pytest --quiet $(PARALLEL) \
	  -m "not slow and not planted and not prove$(if $(SCHEDULES), and not long)" $(if $(findstring tests/,$(ARGS)),,$(REQUESTS)) $(ARGS)

.PHONY: peers
peers: $(INTEROP) $(JAVA_PEER) ## Install the older clients that tests/interop runs (needs Java and Maven)

.PHONY: interop
interop: $(DEV) $(ENGINE) peers ## Run the tests that share a table with the Java and Python clients (needs Java and Maven)
	@CI=true $(BIN)/pytest --quiet $(PARALLEL) -m "not prove" tests/interop $(ARGS)

.PHONY: test-cdk
test-cdk: $(CDK_OLDEST) ## Run tests/cdk on the oldest CDK that is supported (needs Node)
	@# `make test` and `make test-around` run the other seven: cdk-nag, look-ups of roles and state machines in JSONata need a newer CDK, and
	@# other tools do not depend on the CDK's version.
	@CI=true .venv-cdk-oldest/bin/python -m pytest --quiet tests/cdk \
	  --ignore=tests/cdk/test_nag.py --ignore=tests/cdk/test_other_tools.py --ignore=tests/cdk/test_command_line.py \
	  --ignore=tests/cdk/test_step_functions.py --ignore=tests/cdk/test_asleep.py --ignore=tests/cdk/test_wake_templates.py \
	  --ignore=tests/cdk/test_public_names.py \
	  $(ARGS)

.PHONY: test-durable
test-durable: JOBS := 3
test-durable: $(DURABLE) $(ENGINE) ## Run tests/durable on the SDK of durable functions, and check lambda_lock/durable against its types
	@# What these import is checked by make check, with all extras.
	@.venv-durable/bin/mypy --follow-imports silent lambda_lock/durable tests/durable
	@# The testing package does not close its event loops.
	@.venv-durable/bin/python -m pytest --quiet $(PARALLEL) -W "ignore:unclosed event loop:ResourceWarning" \
	  tests/durable $(ARGS)

.PHONY: demo
demo: $(DEV) $(ENGINE) ## Show Lambda environments that contend for locks, with a timeline
	@$(BIN)/python -m demo $(ARGS)

.PHONY: deploy-local
deploy-local: $(DEV) $(ENGINE) $(CDK) ## Deploy infra/ to a local engine with the CDK, use it and destroy it (needs Node)
	@$(BIN)/python -m rig.deploy

.PHONY: verify-aws
verify-aws: $(DEV) ## Check in your AWS account what the library assumes: it asks, and cleans up (docs/verified.md)
	@$(BIN)/python -m rig.verify $(ARGS)

.PHONY: bench
bench: $(DEV) $(ENGINE) $(BENCH) ## Run all benchmarks and write docs/performance.md (ARGS='--only contention' runs one)
	@$(BIN)/python -m benchmarks $(ARGS)

.PHONY: bench-short
bench-short: $(DEV) $(ENGINE) ## Check requests, modules and instructions against benchmarks/limits.toml
	@$(BIN)/python -m benchmarks.limits $(ARGS)

.PHONY: compare-middlewares
compare-middlewares: $(DEV) $(ENGINE) $(MIDDLEWARES) ## Ask idempotent APIs behind lambda_lock, Powertools and published middlewares the same (ARGS=--write: into docs/)
	@$(BIN)/python -m benchmarks.middlewares $(ARGS)

.PHONY: docs
docs: $(DOCS) $(DEV) ## Build the documentation site into build/site, and search it; a broken link or reference is an error
	@rm -rf build/site
	@.venv-docs/bin/python -m sphinx --quiet --fail-on-warning --keep-going -d build/site-cache docs build/site
	@LAMBDA_LOCK_SITE=build/site $(BIN)/pytest --quiet tests/docs/test_search.py
	@echo "build/site/index.html"

.PHONY: templates
templates: $(LINT) $(DEV) ## Let cfn-lint and the CDK's rules look at the templates of the docs, and at those that the constructs make (needs Node)
	@CDK_VALIDATION=true LAMBDA_LOCK_CFN_LINT=$(CURDIR)/.venv-lint/bin/cfn-lint $(BIN)/pytest --quiet tests/cdk/test_lint.py

.PHONY: build
build: $(DEV) ## Build the wheel and the sdist into dist/
	@rm -rf dist
	@said=$$($(BIN)/python -m build --no-isolation --outdir dist . 2>&1) || { echo "$$said"; exit 1; }
	@ls dist

.PHONY: layer
# Needs a plain Python alone, and none of the environments above, whose installation takes minutes.
layer: ## Build a Lambda layer, build/lambda-lock-layer.zip, for each Python on the PATH (ARGS=python3.13: for that one)
	@$(PYTHON) -I lambda_lock/cdk/layer_files.py build/lambda-lock-layer.zip $(ARGS)

.PHONY: clean
clean: ## Remove everything that make has created
	@rm -rf .venv .venv-uv .venv-engine .venv-bench .venv-interop .venv-cdk-oldest .venv-durable .venv-docs .venv-lint .venv-pythons .venv-limiters .venv-middlewares node_modules build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: requirements
requirements: $(UV) ## Pin requirements/*.in again, with hashes
	@cd requirements && for name in uv dev engine bench interop cdk-oldest durable docs lint pythons limiters middlewares; do \
	  ../.venv-uv/bin/uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-annotate \
	    --no-emit-index-url --no-emit-find-links --python-version 3.11 "$$name.in" --output-file "$$name.txt" >/dev/null; done

# Installs all other environments, by rig/environment.py.
$(UV): requirements/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer is needed, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)."; \
	  echo "Name another Python: make PYTHON=python3.12"; exit 1; } >&2
	@$(PYTHON) -m venv --clear $(@D) || { \
	  echo "'$(PYTHON) -m venv' failed: install Python's venv module (on Debian and Ubuntu: apt install python3-venv)."; \
	  exit 1; } >&2
	@$(@D)/bin/python -m pip install --quiet --no-input --disable-pip-version-check --no-compile --require-hashes -r $<
	@touch $@

$(DEV): requirements/dev.txt | $(UV)
	@$(PYTHON) -m rig.environment .venv $<
	@# This has the effect of an editable installation without a build: a process can import this folder from anywhere.
	@$(BIN)/python -c 'import pathlib, sysconfig; \
	  pathlib.Path(sysconfig.get_path("purelib"), "lambda_lock.pth").write_text("$(CURDIR)\n")'
	@touch $@

$(ENGINE) $(BENCH) $(INTEROP) $(CDK_OLDEST) $(DURABLE) $(DOCS) $(LINT) $(MIDDLEWARES): .venv-%/.installed: requirements/%.txt | $(UV)
	@$(PYTHON) -m rig.environment $(@D) $<
	@touch $@

$(CDK): package.json package-lock.json
	@command -v npm >/dev/null || { echo "npm is not installed: install Node 22 or newer"; exit 1; } >&2
	@echo "Installing the CDK's command line into node_modules"
	@npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# build_java(folder with a pom.xml): compile its sources, and copy the libraries that it names
define build_java
	@for program in java mvn; do command -v $$program >/dev/null || { \
	  echo "$$program is not installed: install a JDK of Java 17 or newer, and Maven (on Debian and Ubuntu:" \
	    "apt install openjdk-17-jdk-headless maven)."; exit 1; } >&2; done
	@echo "Building $(1) into $(@D)"
	@mvn --quiet --batch-mode -Dstyle.color=never --file $(1)/pom.xml compiler:compile dependency:copy-dependencies
	@touch $@
endef

$(JAVA_PEER): $(wildcard tests/interop/java/*)
	$(call build_java,tests/interop/java)

$(DYNAMODB_LOCAL): $(wildcard rig/java/*)
	$(call build_java,rig/java)

build/python/.built: rig/python/pom.xml
	@echo "Unpacking Python 3.14 into build/python"
	@rm -rf build/python
	@mvn --quiet --batch-mode -Dstyle.color=never --file rig/python/pom.xml dependency:unpack-dependencies
	@chmod +x build/python/org/bytedeco/cpython/linux-x86_64/bin/*
	@touch $@
