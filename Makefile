# Needs only Python 3.11 or newer and make. Choose another Python with `make PYTHON=python3.12 …`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# uv takes a third of pip's time. If it fails (it ignores pip's configuration), fall back to pip.
UV := uv>=0.9,<1
# The embedder is a distribution of its own, on which gircse-search depends. Both come from this folder.
define install
	@$(PIP) install --quiet '$(UV)' \
		&& $(BIN)/python -m uv pip install --quiet --compile-bytecode --python $(BIN)/python -e ./embedder -e '$(1)' \
		|| { echo "uv failed; using pip, which takes longer."; $(PIP) install --quiet -e ./embedder -e '$(1)'; }
endef
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
# One torch thread per test process: more only compete. The empty variable keeps bytecode files, because hundreds of
# tests start a new Python. A third process works while two wait for a browser or server.
TEST_ENV := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
TEST_PROCESSES ?= 3
# Tests keep databases, indexes and homes in memory if /dev/shm has 4 GB free, so that no test waits for a disk.
TEST_PARENT := $(shell test "$$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $$4 }')" -gt 4000000 2>/dev/null \
	&& echo /dev/shm || echo "$${TMPDIR:-/tmp}")
# PostgreSQL runs as its own user and must be able to enter the folder.
IN_TEST_FOLDER = folder=$$(mktemp -d -p '$(TEST_PARENT)' t.XXXX) && trap 'rm -rf "$$folder"' EXIT INT TERM && chmod 711 "$$folder" \
	&& TMPDIR="$$folder" $(TEST_ENV)
# Accessibility checker for the page tests. Part of neither the product nor the repository.
AXE_VERSION := 4.14.1
AXE_FOLDER := $(VENV)/axe-core-$(AXE_VERSION)
AXE := $(AXE_FOLDER)/node_modules/axe-core/axe.min.js
# A third-party OpenID provider, for the long tests of sign-in.
OIDC_VERSION := 9.13.3
OIDC_FOLDER := $(VENV)/oidc-provider-$(OIDC_VERSION)
OIDC_PROVIDER := $(OIDC_FOLDER)/node_modules/oidc-provider/package.json

# The container image. PODMAN may include options; IMAGE_ARGS go to the build.
PODMAN ?= podman
IMAGE ?= localhost/gircse-search
BASE ?= localhost/gircse-base:bookworm
BASE_FOLDER ?= build/base
DEBIAN_MIRROR ?= http://deb.debian.org/debian
LOCK := docker/requirements.txt
TORCH_VERSION := 2.13.0
SBOM_VERSION := 7.5.0
TWINE := twine>=6.2,<7
MKDOCS := mkdocs-material>=9.6,<10

.DEFAULT_GOAL := help
.PHONY: help run test research-test long check server-test chaos fuzz api-fuzz bench docs train evaluation tour screenshots secrets stack stack-test base image lock site dist digests sbom audit client-matrix clean
.DELETE_ON_ERROR:

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

run: $(VENV)/app.stamp ## install, ingest the sample library, serve the page
	$(BIN)/gircse up --sample

test: $(VENV)/dev.stamp $(AXE) ## install and run all tests
	@command -v chromium-headless-shell >/dev/null 2>&1 || command -v chromium >/dev/null 2>&1 \
		|| command -v chromium-browser >/dev/null 2>&1 || echo "No chromium found: skipping the tests of the page."
	@$(IN_TEST_FOLDER) $(BIN)/python -m pytest -n $(TEST_PROCESSES) $(ARGS)

research-test: $(VENV)/dev.stamp ## run the tests of research/, which make test leaves out
	@$(IN_TEST_FOLDER) $(BIN)/python -m pytest -n $(TEST_PROCESSES) research/tests $(ARGS)

check: $(VENV)/dev.stamp ## check format, lint, types, reference pages, import directions, vocabulary
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python scripts/make_docs.py --check
	$(BIN)/python -m pytest tests/unit/test_architecture.py tests/unit/test_terms.py

long: $(VENV)/dev.stamp $(OIDC_PROVIDER) ## run the tests that make test skips: moving, losing and reindexing a collection with the real model
	@$(IN_TEST_FOLDER) $(BIN)/python -m pytest --long -m long $(ARGS)

server-test: $(VENV)/dev.stamp ## test the vector index and its users against Qdrant: GIRCSE_TEST_QDRANT_URL=… or GIRCSE_TEST_QDRANT=PROGRAM
	@$(IN_TEST_FOLDER) $(BIN)/python -m pytest -n $(TEST_PROCESSES) --server --long -m server $(ARGS)

chaos: $(VENV)/dev.stamp ## ingest under kill -9 and network faults: make chaos ARGS="--seeds 1-20 --catalog postgres"
	$(TEST_ENV) $(BIN)/python tests/chaos/run_seeds.py $(ARGS)

fuzz: $(VENV)/dev.stamp ## parse 2,000 damaged files of every format: make fuzz ARGS="--files 2500 --seed 1"
	$(TEST_ENV) $(BIN)/python tests/unit/reader_fuzz.py $(ARGS)

api-fuzz: $(VENV)/dev.stamp ## send the API 5,000 unusual requests: make api-fuzz ARGS="--cases 20000 --seed 2"
	$(TEST_ENV) PYTHONPATH=tests $(BIN)/python tests/e2e/api_fuzz.py $(ARGS)

bench: $(VENV)/dev.stamp ## run all benchmarks, which takes hours; quick ones: make bench ARGS="--quick"
	$(BIN)/python -m research.benchmarks $(ARGS)

docs: $(VENV)/dev.stamp ## generate docs/reference from the code
	$(BIN)/python scripts/make_docs.py

train: $(VENV)/dev.stamp ## train a model: make train ARGS="…", see docs/how-to/train-a-model.md
	$(BIN)/gircse train $(ARGS)

# Figures of docs/evaluation and of gircse-mini's card: make evaluation DEV=… TRAIN=…; takes over an hour on one core.
EVALUATED := gircse-mini
EVALUATE = $(BIN)/gircse eval --model $(EVALUATED) --data $(DEV) --unseen wiki_movies crisislex_t26 emobank selfhosted
FIGURES := docs/evaluation
RESULTS := $(patsubst %,$(FIGURES)/%.json,instructions generic neighbours paraphrased)

evaluation: $(VENV)/dev.stamp ## measure gircse-mini again: make evaluation DEV=data/dev TRAIN=data/train
	$(EVALUATE) --tasks triplets label_names --limit 40 --steps 1 5 10 20 --out $(FIGURES)/instructions.json
	$(EVALUATE) --tasks sts retrieval --steps 1 5 10 20 --out $(FIGURES)/generic.json
	$(EVALUATE) --tasks knn --train-data $(TRAIN) --steps 1 5 --document-steps 5 --alone --out $(FIGURES)/neighbours.json
	$(EVALUATE) --tasks paraphrased --limit 25 --steps 5 --document-steps 5 --alone --out $(FIGURES)/paraphrased.json
	$(BIN)/python -m research.evaluation.tokens --model $(EVALUATED) --data $(DEV) --out $(FIGURES)/tokens
	$(BIN)/gircse eval report $(RESULTS) --out $(FIGURES) --card embedder/models/$(EVALUATED)/README.md

tour: $(VENV)/dev.stamp ## measure the tour of the README again
	$(BIN)/python scripts/make_tour.py $(ARGS)

screenshots: $(VENV)/dev.stamp ## take the pictures of docs/images again (needs chromium)
	$(TEST_ENV) $(BIN)/python -m pytest tests/e2e/test_screenshots.py --screenshots $(ARGS)

secrets: ## create ./secrets for docker-compose.yml: random values that only you can read; keeps existing ones
	@scripts/make_secrets.sh $(GIRCSE_SECRETS)

stack: ## build the image and start everything under Docker: secrets, `docker compose up`, wait until healthy
	@IMAGE_ARGS="$(IMAGE_ARGS)" BASE="$(if $(filter file,$(origin BASE)),,$(BASE))" scripts/stack.sh

stack-test: $(VENV)/dev.stamp ## test the compose file under Docker, half an hour: make stack-test ARGS="--profiles single"
	$(BIN)/python tests/stack/run_stack.py $(ARGS)

base: ## build a Debian base image with Python on this machine, without a registry (needs root, debootstrap, and podman or docker)
	@mkdir -p $(dir $(BASE_FOLDER))
	debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv bookworm $(BASE_FOLDER) $(DEBIAN_MIRROR)
	rm -rf $(BASE_FOLDER)/var/cache/apt/archives $(BASE_FOLDER)/var/lib/apt/lists/* $(BASE_FOLDER)/usr/share/doc
	tar --create --one-file-system --directory $(BASE_FOLDER) . | $(PODMAN) import - $(BASE)
	rm -rf $(BASE_FOLDER)

image: ## build the container image on that base, or on a registry's: make image BASE=python:3.11.13-slim-bookworm
	@case "$(BASE)" in localhost/*) $(PODMAN) image inspect "$(BASE)" >/dev/null 2>&1 || $(MAKE) base ;; esac
	$(PODMAN) build $(if $(findstring podman,$(PODMAN)),--format docker) --build-arg BASE="$(BASE)" --build-arg REVISION="$$(git rev-parse HEAD)" \
		--tag $(IMAGE) $(IMAGE_ARGS) .

COMPILE = $(BIN)/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_34 --generate-hashes --no-annotate \
	--custom-compile-command "make lock"
WITH_TORCH := filelock fsspec jinja2 markupsafe mpmath networkx setuptools sympy typing-extensions
# PyPI's torch with its CUDA packages, which are in no other lock file.
LOCK_TORCH = echo "torch==$(TORCH_VERSION)" | $(COMPILE) - $(WITH_TORCH:%=--no-emit-package %) --output-file docker/torch-cuda.txt $(LOCK_ARGS)

lock: $(VENV)/app.stamp ## write docker/*.txt: all packages of the image with hashes (LOCK_ARGS go to uv)
	$(PIP) install --quiet '$(UV)'
	$(LOCK_TORCH)
	$(COMPILE) pyproject.toml --extra app --extra server --extra mcp --extra oidc --extra ocr --extra otel --extra postgres \
		--extra office --extra alerts --extra sources --override docker/overrides.txt --no-emit-package gircse-embedder \
		$$(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' docker/torch-cuda.txt) --output-file $(LOCK) $(LOCK_ARGS)
	$(LOCK_TORCH) --constraint $(LOCK)
	echo "cyclonedx-bom==$(SBOM_VERSION)" | $(COMPILE) - --output-file docker/sbom.txt $(LOCK_ARGS)
	echo "torch==$(TORCH_VERSION)+cpu" | $(COMPILE) - --no-deps --default-index $(TORCH_CPU_INDEX) --output-file docker/torch-cpu.txt \
		|| echo "$(TORCH_CPU_INDEX) is unreachable: keeping docker/torch-cpu.txt."

site: $(VENV)/dev.stamp ## build the docs as a site into build/site, and check every link and anchor in them
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m uv tool run --quiet --from 'mkdocs>=1.6,<2' --with '$(MKDOCS)' mkdocs build --strict $(ARGS)

dist: $(VENV)/dev.stamp ## build all distributions into dist/, and check their contents, sizes, licences and descriptions
	rm -rf dist
	for folder in . embedder embedder/models/gircse-base embedder/models/gircse-270m; do \
		$(BIN)/python -m uv build --quiet --out-dir dist $$folder || exit 1; \
	done
	$(BIN)/python scripts/check_distributions.py dist
	$(BIN)/python -m uv tool run --quiet '$(TWINE)' check --strict dist/*

digests: $(BIN)/python ## pin images in Dockerfile and compose file by digest: make digests ARGS=--check lists unpinned ones
	@$(BIN)/python scripts/pin_images.py $(ARGS)

SBOM ?= build/sbom.cdx.json

sbom: $(VENV)/dev.stamp ## write build/sbom.cdx.json (CycloneDX) for the locked packages; the image contains its own
	@mkdir -p $(dir $(SBOM))
	@cat $(LOCK) docker/torch-cpu.txt > $(SBOM).txt
	$(BIN)/cyclonedx-py requirements $(SBOM).txt --pyproject pyproject.toml --output-reproducible --of JSON --output-file $(SBOM)
	@rm $(SBOM).txt

audit: $(VENV)/dev.stamp ## list known vulnerabilities of the locked packages, and packages without an advisory source
	@$(BIN)/python scripts/audit.py $(ARGS)

client-matrix: $(VENV)/dev.stamp ## test clients of others against the real servers, and write docs/clients.md (needs PyPI and npm's registry)
	$(BIN)/python scripts/client_matrix.py $(ARGS)

clean: ## remove the environment and caches; keeps GIRCSE_HOME
	rm -rf $(VENV) build dist ./*.egg-info research/*.egg-info embedder/build embedder/dist embedder/*.egg-info \
		embedder/models/*/build embedder/models/*/dist embedder/models/*/*.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp file per extra: reinstall only after a pyproject.toml changes.
$(VENV)/app.stamp: $(VENV)/torch.stamp
	@echo "Installing gircse-search with the extra app."
	$(call install,.[app])
	@touch $@

$(VENV)/dev.stamp: $(VENV)/torch.stamp
	@echo "Installing gircse-search with everything for its tests."
	$(call install,.[dev])
	@touch $(VENV)/app.stamp $@

$(AXE): | $(BIN)/python
	@if ! command -v npm >/dev/null 2>&1; then \
		echo "No npm found: skipping the tests of accessibility."; \
	elif ! npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix $(AXE_FOLDER) axe-core@$(AXE_VERSION); then \
		echo "Cannot fetch axe-core: skipping the tests of accessibility."; \
	fi

$(OIDC_PROVIDER): | $(BIN)/python
	@if ! command -v npm >/dev/null 2>&1; then \
		echo "No npm found: skipping the tests of sign-in with oidc-provider."; \
	elif ! npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix $(OIDC_FOLDER) oidc-provider@$(OIDC_VERSION); then \
		echo "Cannot fetch oidc-provider: skipping the tests of sign-in with it."; \
	fi

# The default wheels for Linux and Windows include gigabytes of libraries for NVIDIA GPUs.
$(VENV)/torch.stamp: pyproject.toml embedder/pyproject.toml | $(BIN)/python
	@torch="$$(sed -n 's/^ *"\(torch[<>=][^"]*\)".*/\1/p' embedder/pyproject.toml)"; \
	if [ "$$(uname)" = Darwin ] || command -v nvidia-smi >/dev/null 2>&1; then \
		echo "Installing $$torch from the default index. This takes minutes."; \
	elif echo "No NVIDIA GPU: installing the CPU build of $$torch. This takes minutes."; \
		$(PIP) install --quiet --no-deps --timeout 10 --retries 0 --index-url $(TORCH_CPU_INDEX) "$$torch" 2>/dev/null; then :; \
	else \
		echo "$(TORCH_CPU_INDEX) is unreachable: using the default index."; \
	fi
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is required; choose one, as in: make PYTHON=python3.12 run"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
		|| { rm -rf $(VENV); echo "$(PYTHON) cannot create environments; on Debian: apt install python3-venv"; exit 1; }
