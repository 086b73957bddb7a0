# Python 3.11 or newer and make are all that this needs. Choose another Python with `make PYTHON=python3.12 …`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# uv installs in a third of pip's time; where it cannot (it does not read pip's configuration), pip does.
UV := uv>=0.9,<1
define install
	@$(PIP) install --quiet '$(UV)' \
		&& $(BIN)/python -m uv pip install --quiet --compile-bytecode --python $(BIN)/python -e '$(1)' \
		|| { echo "uv cannot install it; pip takes longer."; $(PIP) install --quiet -e '$(1)'; }
endef
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
# Two threads of torch in every test process only wait for each other. The empty variable: byte code is kept, since
# hundreds of tests start Python anew. A third process works while two wait for a browser or a server.
TEST_ENV := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
TEST_PROCESSES ?= 3
# Databases, indexes and homes of tests are made in memory where 4 GB of it are given to files: no test waits for a disk.
TEST_PARENT := $(shell test "$$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $$4 }')" -gt 4000000 2>/dev/null \
	&& echo /dev/shm || echo "$${TMPDIR:-/tmp}")
# PostgreSQL, which has its own user, must be able to enter it.
IN_TEST_FOLDER = folder=$$(mktemp -d -p '$(TEST_PARENT)' t.XXXX) && trap 'rm -rf "$$folder"' EXIT INT TERM && chmod 711 "$$folder" \
	&& TMPDIR="$$folder" $(TEST_ENV)
# What judges the accessibility of the pages in the tests. Never part of the product, nor of the repository.
AXE_VERSION := 4.14.1
AXE_FOLDER := $(VENV)/axe-core-$(AXE_VERSION)
AXE := $(AXE_FOLDER)/node_modules/axe-core/axe.min.js
# An OpenID provider of others, for the long tests of sign-in.
OIDC_VERSION := 9.13.3
OIDC_FOLDER := $(VENV)/oidc-provider-$(OIDC_VERSION)
OIDC_PROVIDER := $(OIDC_FOLDER)/node_modules/oidc-provider/package.json

# The container image. PODMAN may carry options; IMAGE_ARGS are handed to the build.
PODMAN ?= podman
IMAGE ?= localhost/gircse-search
BASE ?= localhost/gircse-base:bookworm
BASE_FOLDER ?= build/base
DEBIAN_MIRROR ?= http://deb.debian.org/debian
LOCK := docker/requirements.txt
TORCH_VERSION := 2.13.0
SBOM_VERSION := 7.5.0

.DEFAULT_GOAL := help
.PHONY: help run test research-test long check server-test chaos fuzz api-fuzz bench docs train evaluation tour screenshots secrets stack stack-test base image lock digests sbom audit clean
.DELETE_ON_ERROR:

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

run: $(VENV)/app.stamp ## install, take in the sample library, serve the page
	$(BIN)/gircse up --sample

test: $(VENV)/dev.stamp $(AXE) ## install and run all tests
	@command -v chromium-headless-shell >/dev/null 2>&1 || command -v chromium >/dev/null 2>&1 \
		|| command -v chromium-browser >/dev/null 2>&1 || echo "No chromium here: the tests of the page are skipped."
	@$(IN_TEST_FOLDER) $(BIN)/python -m pytest -n $(TEST_PROCESSES) $(ARGS)

research-test: $(VENV)/dev.stamp ## run the tests of research/, which make test leaves out
	@$(IN_TEST_FOLDER) $(BIN)/python -m pytest -n $(TEST_PROCESSES) research/tests $(ARGS)

check: $(VENV)/dev.stamp ## format, lint, types, fresh reference pages, import directions, vocabulary
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python scripts/make_docs.py --check
	$(BIN)/python -m pytest tests/unit/test_architecture.py tests/unit/test_terms.py

long: $(VENV)/dev.stamp $(OIDC_PROVIDER) ## run the tests that make test leaves out: a collection moved, lost and reindexed with the real model
	@$(IN_TEST_FOLDER) $(BIN)/python -m pytest --long -m long $(ARGS)

server-test: $(VENV)/dev.stamp ## test the vector index and what stands on it against Qdrant: GIRCSE_TEST_QDRANT_URL=… or GIRCSE_TEST_QDRANT=PROGRAM
	@$(IN_TEST_FOLDER) $(BIN)/python -m pytest -n $(TEST_PROCESSES) --server --long -m server $(ARGS)

chaos: $(VENV)/dev.stamp ## ingest under kill -9 and network faults: make chaos ARGS="--seeds 1-20 --catalog postgres"
	$(TEST_ENV) $(BIN)/python tests/chaos/run_seeds.py $(ARGS)

fuzz: $(VENV)/dev.stamp ## read 2,000 damaged files of every format: make fuzz ARGS="--files 2500 --seed 1"
	$(TEST_ENV) $(BIN)/python tests/unit/reader_fuzz.py $(ARGS)

api-fuzz: $(VENV)/dev.stamp ## ask the API 5,000 odd questions: make api-fuzz ARGS="--cases 20000 --seed 2"
	$(TEST_ENV) $(BIN)/python tests/e2e/api_fuzz.py $(ARGS)

bench: $(VENV)/dev.stamp ## measure the speed of everything on this machine: make bench ARGS="--quick", or all of it in hours
	$(BIN)/python -m research.benchmarks $(ARGS)

docs: $(VENV)/dev.stamp ## write docs/reference from the code
	$(BIN)/python scripts/make_docs.py

train: $(VENV)/dev.stamp ## train a model: make train ARGS="…", see docs/how-to/train-a-model.md
	$(BIN)/gircse train $(ARGS)

# Figures of docs/evaluation and of gircse-mini's card: make evaluation DEV=… TRAIN=…, an hour and more on one core.
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

secrets: ## make ./secrets for docker-compose.yml: random values that only you can read; what is there stays
	@scripts/make_secrets.sh $(GIRCSE_SECRETS)

stack: ## build the image and start everything under Docker: secrets, `docker compose up`, wait until healthy
	@IMAGE_ARGS="$(IMAGE_ARGS)" BASE="$(if $(filter file,$(origin BASE)),,$(BASE))" scripts/stack.sh

stack-test: $(VENV)/dev.stamp ## try the compose file under Docker for half an hour: make stack-test ARGS="--profiles single"
	$(BIN)/python tests/stack/run_stack.py $(ARGS)

base: ## make a Debian with Python on this machine, for images without a registry (needs root, debootstrap, and podman or docker)
	@mkdir -p $(dir $(BASE_FOLDER))
	debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv bookworm $(BASE_FOLDER) $(DEBIAN_MIRROR)
	rm -rf $(BASE_FOLDER)/var/cache/apt/archives $(BASE_FOLDER)/var/lib/apt/lists/* $(BASE_FOLDER)/usr/share/doc
	tar --create --one-file-system --directory $(BASE_FOLDER) . | $(PODMAN) import - $(BASE)
	rm -rf $(BASE_FOLDER)

image: ## build the container image on that base: make image BASE=python:3.11.13-slim-bookworm takes a registry's
	@case "$(BASE)" in localhost/*) $(PODMAN) image inspect "$(BASE)" >/dev/null 2>&1 || $(MAKE) base ;; esac
	$(PODMAN) build $(if $(findstring podman,$(PODMAN)),--format docker) --build-arg BASE="$(BASE)" --build-arg REVISION="$$(git rev-parse HEAD)" \
		--tag $(IMAGE) $(IMAGE_ARGS) .

COMPILE = $(BIN)/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_34 --generate-hashes --no-annotate \
	--custom-compile-command "make lock"
WITH_TORCH := filelock fsspec jinja2 markupsafe mpmath networkx setuptools sympy typing-extensions
# PyPI's torch, with what it needs of CUDA, which no other list holds.
LOCK_TORCH = echo "torch==$(TORCH_VERSION)" | $(COMPILE) - $(WITH_TORCH:%=--no-emit-package %) --output-file docker/torch-cuda.txt $(LOCK_ARGS)

lock: $(VENV)/app.stamp ## write docker/*.txt: every package of the image, with hashes (LOCK_ARGS for uv)
	$(PIP) install --quiet '$(UV)'
	$(LOCK_TORCH)
	$(COMPILE) pyproject.toml --extra app --extra server --extra mcp --extra oidc --extra ocr --extra otel --extra postgres \
		--extra office --extra alerts --extra sources --override docker/overrides.txt \
		$$(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' docker/torch-cuda.txt) --output-file $(LOCK) $(LOCK_ARGS)
	$(LOCK_TORCH) --constraint $(LOCK)
	echo "cyclonedx-bom==$(SBOM_VERSION)" | $(COMPILE) - --output-file docker/sbom.txt $(LOCK_ARGS)
	echo "torch==$(TORCH_VERSION)+cpu" | $(COMPILE) - --no-deps --default-index $(TORCH_CPU_INDEX) --output-file docker/torch-cpu.txt \
		|| echo "$(TORCH_CPU_INDEX) cannot be reached: docker/torch-cpu.txt stays as it is."

digests: $(BIN)/python ## write digests to the tags of images in Dockerfile and compose file: make digests ARGS=--check names those without
	@$(BIN)/python scripts/pin_images.py $(ARGS)

SBOM ?= build/sbom.cdx.json

sbom: $(VENV)/dev.stamp ## write build/sbom.cdx.json (CycloneDX): the locked packages; the image holds one of what it has
	@mkdir -p $(dir $(SBOM))
	@cat $(LOCK) docker/torch-cpu.txt > $(SBOM).txt
	$(BIN)/cyclonedx-py requirements $(SBOM).txt --pyproject pyproject.toml --output-reproducible --of JSON --output-file $(SBOM)
	@rm $(SBOM).txt

audit: $(VENV)/dev.stamp ## look up known vulnerabilities of the locked packages, and say so where no source answers
	@$(BIN)/python scripts/audit.py $(ARGS)

clean: ## remove the environment and caches; GIRCSE_HOME stays
	rm -rf $(VENV) build ./*.egg-info research/*.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp per extra: nothing is installed twice until pyproject.toml changes.
$(VENV)/app.stamp: $(VENV)/torch.stamp
	@echo "Installing gircse-search with its service and page."
	$(call install,.[app])
	@touch $@

$(VENV)/dev.stamp: $(VENV)/torch.stamp
	@echo "Installing gircse-search with all that its tests need."
	$(call install,.[dev])
	@touch $(VENV)/app.stamp $@

$(AXE): | $(BIN)/python
	@if ! command -v npm >/dev/null 2>&1; then \
		echo "No npm here: the tests of accessibility are skipped."; \
	elif ! npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix $(AXE_FOLDER) axe-core@$(AXE_VERSION); then \
		echo "axe-core cannot be fetched: the tests of accessibility are skipped."; \
	fi

$(OIDC_PROVIDER): | $(BIN)/python
	@if ! command -v npm >/dev/null 2>&1; then \
		echo "No npm here: the tests of sign-in by a provider of others are skipped."; \
	elif ! npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix $(OIDC_FOLDER) oidc-provider@$(OIDC_VERSION); then \
		echo "oidc-provider cannot be fetched: the tests of sign-in by it are skipped."; \
	fi

# The default wheels of Linux and Windows carry gigabytes for NVIDIA GPUs.
$(VENV)/torch.stamp: pyproject.toml | $(BIN)/python
	@torch="$$(sed -n 's/^ *"\(torch[<>=][^"]*\)".*/\1/p' pyproject.toml)"; \
	if [ "$$(uname)" = Darwin ] || command -v nvidia-smi >/dev/null 2>&1; then \
		echo "Installing $$torch from the default index. This takes minutes."; \
	elif echo "No NVIDIA GPU: installing the CPU build of $$torch. This takes minutes."; \
		$(PIP) install --quiet --no-deps --timeout 10 --retries 0 --index-url $(TORCH_CPU_INDEX) "$$torch" 2>/dev/null; then :; \
	else \
		echo "$(TORCH_CPU_INDEX) cannot be reached: going on with what the default index gives."; \
	fi
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one, as in: make PYTHON=python3.12 run"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
		|| { rm -rf $(VENV); echo "$(PYTHON) cannot make environments; on Debian: apt install python3-venv"; exit 1; }
