# The two commands that matter: `make demo` and `make test`. Each sets up what it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CHROMIUM := /usr/bin/chromium
CLAUDE_CODE := 2.1.197
CLIENT := $(if $(CLAUDE_CODE_BINARY),,build/claude/.$(CLAUDE_CODE))
SOURCES := $(shell find rlmnb -name '*.py')

# Bytecode that is never written is compiled again at every start.
unexport PYTHONDONTWRITEBYTECODE
unexport PYTHONPATH

.PHONY: demo test lint unit kernel oracle test-oracle test-client test-offline test-browser test-windows \
  prepare screenshot wheel bench schema lock clean

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# In seconds what takes pip a minute. What is set up for pip alone, a mirror say, pip can reach.
install = VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --compile-bytecode --require-hashes -r $(1) \
  || $(PIP) --require-hashes -r $(1)

# One after the other: side by side, the second would find the package lists locked.
apt = flock Makefile sh -c 'apt-get update -qq && \
  apt-get install -qq --yes --no-install-recommends $(1) >/dev/null'

$(VENV)/.ready: requirements-dev.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rlmnb needs Python 3.11 or later; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	sed -n '/^uv==/,/[^\\]$$/p' requirements-dev.lock > $(VENV)/uv.lock
	$(PIP) --no-deps --require-hashes -r $(VENV)/uv.lock
	$(call install,requirements-dev.lock)
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

# The browser, JupyterLab and the offline model, on top of what `make test` needs.
$(VENV)/.tiers: $(VENV)/.ready requirements-tiers.lock
	$(call install,requirements-tiers.lock)
	touch $@

$(VENV)/.compiled: $(VENV)/.ready $(SOURCES)
	$(BIN)/python -m compileall -q rlmnb
	touch $@

# What the tiers need from elsewhere, fetched side by side: make --jobs 3 prepare
prepare: $(VENV)/.compiled $(CLIENT) $(CHROMIUM)

demo: $(VENV)/.compiled
	@$(BIN)/python examples/demo.py

test: lint unit kernel oracle wheel

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A test waits for other processes for a good part of its time: others run meanwhile. Whoever has
# none left takes some of another's, as a few take long.
CORES := $(shell $(PYTHON) -c 'import os; print(os.cpu_count())')
at_once = -n $(shell expr $(1) '*' $(CORES)) --dist worksteal

unit: $(VENV)/.compiled
	$(BIN)/pytest $(call at_once,2) tests/unit tests/property tests/lab

kernel: $(VENV)/.compiled
	$(BIN)/pytest $(call at_once,3) tests/kernel

# Random notebooks, edited at random: a selective replay against a full run in a plain kernel.
oracle: $(VENV)/.compiled
	RLMNB_ORACLE=50 $(BIN)/pytest -q $(call at_once,2) tests/oracle

test-oracle: $(VENV)/.compiled
	RLMNB_ORACLE=500 $(BIN)/pytest -q $(call at_once,2) tests/oracle

# The real client with a scripted model: `make test-client CLAUDE_CODE=latest` tries another version,
# and CLAUDE_CODE_BINARY names one that is installed already.
test-client: $(VENV)/.compiled $(CLIENT)
	$(BIN)/pytest -n auto --dist loadfile tests/client

build/claude/.$(CLAUDE_CODE):
	@if ! command -v npm >/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    $(call apt,nodejs npm); \
	  else \
	    echo "make test-client needs npm: install Node.js 18 or later," \
	      "or set CLAUDE_CODE_BINARY to a Claude Code client" >&2; exit 1; \
	  fi; \
	fi
	rm -rf build/claude
	mkdir -p build/claude
	npm install --prefix build/claude --no-save --no-package-lock --no-audit --no-fund --loglevel error \
	  @anthropic-ai/claude-code@$(CLAUDE_CODE)
	touch $@

# A small model that runs here, end to end; its weights are fetched once, by the user's command.
test-offline: $(VENV)/.tiers $(VENV)/.compiled
	RLMNB_MODELS=$(CURDIR)/build/models $(BIN)/rlmnb model fetch
	RLMNB_MODELS=$(CURDIR)/build/models $(BIN)/pytest -q tests/offline


# The real JupyterLab and Notebook 7 in a real browser.
test-browser: $(VENV)/.compiled $(VENV)/.tiers $(CHROMIUM)
	$(BIN)/pytest -n 2 --dist loadfile tests/browser

# The real Python for Windows, in Wine. What runs there: tests/windows/selection.py.
WINE := /usr/lib/wine/wine64

test-windows: $(VENV)/.compiled $(WINE)
	$(BIN)/python -m tests.windows.wine

$(WINE):
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  $(call apt,wine64 binutils); \
	else \
	  echo "make test-windows needs Wine as $@ and ld; on Debian: sudo apt-get install wine64 binutils" >&2; exit 1; \
	fi

screenshot: $(VENV)/.compiled $(VENV)/.tiers $(CHROMIUM)
	$(BIN)/python examples/screenshot.py

$(CHROMIUM):
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  $(call apt,chromium fonts-dejavu-core); \
	else \
	  echo "make $(MAKECMDGOALS) needs Chromium as $@; on Debian: sudo apt-get install chromium" >&2; exit 1; \
	fi

# What users get is the wheel, so the wheel is what is tested here.
wheel: $(VENV)/.ready
	rm -rf build/wheel
	$(BIN)/python -m build --wheel --no-isolation --outdir build/wheel . >/dev/null
	$(PIP) --no-deps --target build/wheel/site build/wheel/*.whl
	$(BIN)/python -m zipfile -l build/wheel/*.whl | grep share/jupyter/labextensions/rlmnb/static/remoteEntry.js >/dev/null
	cp -r tests README.md examples build/wheel/
	cd build/wheel && export PYTHONPATH=$(CURDIR)/build/wheel/site && \
	  ../../$(BIN)/python -c 'import rlmnb; assert "/build/wheel/site/" in rlmnb.__file__' && \
	  ../../$(BIN)/pytest -q -c ../../pyproject.toml --rootdir . -p no:cacheprovider -n auto \
	  tests/unit/test_append.py tests/unit/test_format.py tests/unit/test_which_session.py

bench: $(VENV)/.compiled
	@$(BIN)/python -m benchmarks $(BENCH)

schema: $(VENV)/.ready
	$(BIN)/rlmnb schema > build/schema.json && mv build/schema.json rlmnb/format/schema.json

lock: $(VENV)/.ready
	$(BIN)/uv pip compile pyproject.toml --group dev $(LOCKED) --upgrade -o requirements-dev.lock
	$(BIN)/uv pip compile pyproject.toml --group dev --group tiers -c requirements-dev.lock $(LOCKED) -o requirements-tiers.lock

LOCKED := --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
