# Turnaround. `make run` opens the app, `make test` runs every check; each sets up .venv by itself.
.DEFAULT_GOAL := help
SHELL := /bin/sh

# The first Python on this machine for which every pinned package has a wheel.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$p && break; done)
RUN := .venv/bin/python
PORT ?= 8501
PROFILE ?=
ADDRESS ?= localhost
CALLERS ?= assets/callers
JSON ?= runs/bench.json
ARGS ?=
# A machine without a screen has no browser to open.
HEADLESS := $(if $(or $(DISPLAY),$(WAYLAND_DISPLAY),$(filter Darwin,$(shell uname -s))),false,true)

# On this machine alone, whoever opens the page is its operator, and may start downloads from it.
DOWNLOADS := TURNAROUND_DOWNLOADS=$${TURNAROUND_DOWNLOADS:-$(if $(filter localhost 127.0.0.1 ::1,$(ADDRESS)),1,0)}
PROFILED := $(if $(PROFILE),TURNAROUND_PROFILE='$(PROFILE)')

.PHONY: help python setup setup-dev run test lint unit engines browser bench doctor cosyvoice format clean distclean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile
	@echo "  variables: PORT=$(PORT) ADDRESS=$(ADDRESS) PROFILE=$(PROFILE) CALLERS=$(CALLERS) JSON=$(JSON) ARGS='...' PYTHON=$(PYTHON)"

python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 to 3.13 is needed and none is on the path: install one, or name it (make PYTHON=/path/to/python3.11)"; exit 1; }

setup: python ## install everything the app needs into .venv
	@$(PYTHON) tools/setup.py run

setup-dev: python ## the same, and what the checks and tests need
	@$(PYTHON) tools/setup.py dev

run: setup ## open the app in the browser (PORT, ADDRESS, PROFILE=embedded, article, hosted or a TOML file)
	@$(PROFILED) $(RUN) -m pipeline doctor --engines || case $$? in 1) \
		echo "The page opens all the same, says this again, and lets you choose other engines." ;; *) exit 1 ;; esac
	@echo "Turnaround is at http://$(ADDRESS):$(PORT) in a moment. Stop it with Ctrl+C."
	@$(PROFILED) $(DOWNLOADS) $(RUN) -m streamlit run app.py --server.port $(PORT) --server.address $(ADDRESS) --server.headless $(HEADLESS) --server.showEmailPrompt false $(ARGS)

test: lint unit engines browser ## every check: style, types, and the tests of all three kinds
	@echo "All checks passed."

lint: setup-dev ## style and types
	@echo "== style (ruff)"
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@echo "== types (mypy)"
	@$(RUN) -m mypy

unit: setup-dev ## the tests that need no model and no browser
	@echo "== unit tests"
	@$(RUN) -m pytest -n 3 --dist worksteal -m "not engines and not browser" $(ARGS)

engines: setup-dev ## the tests that load the real models
	@echo "== tests with the real models"
	@$(RUN) -m pytest -m "engines and not memory and not browser" $(ARGS)
	@$(RUN) -m pytest -m "engines and memory" $(ARGS)

# Without a browser these tests are left out, and say so; where CI=true that is a failure instead.
browser: setup-dev ## the tests that drive headless Chromium
	@echo "== tests in headless Chromium"
	@$(PYTHON) tools/setup.py browser; case $$? in \
		0) $(RUN) -m pytest -m browser $(ARGS) ;; \
		3) echo "SKIPPED: the browser tests (no Chromium)" ;; \
		*) exit 1 ;; esac

bench: setup ## recorded callers through a session, with a report (CALLERS, JSON, ARGS="--set draft=false")
	@mkdir -p $(dir $(JSON))
	@$(RUN) -m pipeline bench --callers $(CALLERS) --json $(JSON) $(ARGS)

doctor: setup ## what is wrong with this machine or this installation, and the remedy
	@$(RUN) -m pipeline doctor $(ARGS)

cosyvoice: setup ## the source code and the weights of the voice CosyVoice 3 (FOLDER)
	@$(RUN) tools/fetch_cosyvoice.py $(FOLDER)

format: setup-dev ## put the code into the project's style
	@$(RUN) -m ruff format .
	@$(RUN) -m ruff check --fix .

clean: ## remove caches and reports; .venv stays
	@rm -rf build runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## remove .venv too
	@rm -rf .venv
