# Two commands matter: `make demo` runs the main job, `make test` passes the tests. `make quick` is for the time between two changes.
# All make what they need in .venv.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test quick clean

demo: $(VENV)/.demo
	$(BIN)/python examples/digits

test: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy benchmarks examples/digits
	$(BIN)/python -m pytest -n auto

# Lint, types, and the tests that a change touches most, without those that build a model in Verilator or take more than 5 s.
quick: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy
	files=$$($(BIN)/python tests/touched.py) && $(BIN)/python -m pytest -n auto -m "not rtl and not slow" $$files

$(VENV)/.demo: pyproject.toml
	$(call install,.[demo],demo)

$(VENV)/.test: pyproject.toml
	$(call install,.[dev],test)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

# $(call install,REQUIREMENT,MARK): an editable install, after saying in a sentence what is missing to make one.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "make: vtakit needs Python 3.11 or newer, and '$(PYTHON)' is not: make $(2) PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "make: '$(PYTHON)' cannot make virtual environments: apt install python3-venv" >&2; exit 2; }
	@command -v g++ >/dev/null || { echo "make: no C++ compiler: apt install g++" >&2; exit 2; }
	@test -x $(BIN)/python || { echo "making the virtual environment $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing '$(1)' into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '$(1)'
	@touch $@
endef
