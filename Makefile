# Every target works in a fresh clone; each makes the virtual environment .venv as it needs it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --quiet

.PHONY: demo demo-live test test-html screenshots test-slow lint fuzz bench bench-cases bench-bugs bench-large mutate-checker bench-elastic test-elastic docs clean help

help:
	@echo "make demo          verify a captured Megatron GPT at 8 ranks, then show a found bug"
	@echo "make demo-live     capture a PyTorch transformer, right and wrong (installs PyTorch)"
	@echo "make test          linters, type checker, import rules and all tests"
	@echo "make test-html     reports in headless Chromium (apt-get install chromium), Model Explorer"
	@echo "make screenshots   the pictures of docs/screenshots"
	@echo "make test-slow     the long tests that make test leaves out"
	@echo "make lint          the first three of these"
	@echo "make fuzz          10,000 random programs and 50,000 mutants against replay (about an hour)"
	@echo "make bench         check every packaged graph pair, with times and memory"
	@echo "make bench-cases   live PyTorch programs and their faulty twins (about 20 minutes)"
	@echo "make bench-bugs    the corpus of reported bugs (about 4 minutes)"
	@echo "make bench-large   Llama 3 8B at its real sizes on 8 ranks, from its code (about 15 minutes)"
	@echo "make mutate-checker  mutants of the checker of certificates (an hour; goes on where it was stopped)"
	@echo "make bench-elastic planner, simulation and training figures (about 40 minutes)"
	@echo "make test-elastic  the tests of the elastic trainer alone"
	@echo "make docs          the documentation site in build/docs; any warning is an error"
	@echo "make clean         remove .venv and caches"

demo: $(VENV)/.core
	@$(BIN)/shardproof demo

demo-live: $(VENV)/.torch
	@$(BIN)/shardproof check examples/tp_transformer.py:right
	@$(BIN)/shardproof check examples/tp_transformer.py:wrong_scale; test $$? -eq 1

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

test-html: $(VENV)/.html
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	  { echo "make test-html needs Chromium: apt-get install chromium" >&2; exit 1; }
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/html tests/report tests/present

screenshots: $(VENV)/.html
	OMP_NUM_THREADS=1 $(BIN)/python tests/html/screenshots.py

test-slow: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m slow --timeout 1800

fuzz: $(VENV)/.core
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fuzz.py --programs 10000 --mutants 5 --json fuzz.json

bench: $(VENV)/.core
	$(BIN)/python benchmarks/graphs.py

bench-cases: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/cases.py --json cases.json

bench-bugs: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/bugs.py --json bugs.json

bench-large: $(VENV)/.torch
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/large.py --json large.json

mutate-checker: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/mutate_checker.py --json mutants-checker.json

bench-elastic: $(VENV)/.dev
	$(BIN)/python benchmarks/elastic.py --json elastic.json
	$(BIN)/python benchmarks/elastic_matched.py --json elastic_matched.json

test-elastic: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "slow or not slow" --timeout 1800 tests/elastic

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -n -E -q -b html docs build/docs
	@echo "open build/docs/index.html"

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps depend on pyproject.toml, so that a change of dependencies installs again.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "shardproof needs Python 3.11 or newer; run make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "could not make a virtual environment; on Debian install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.core: $(VENV)/.made pyproject.toml
	@echo "Installing shardproof into .venv; pip downloads numpy, rich, cyclopts, msgspec (about 25 MB)."
	@$(PIP) --editable .
	@touch $@

$(VENV)/.torch: $(VENV)/.core pyproject.toml
	@echo "Installing PyTorch 2.13.0 for the live capture (CPU build where pip is told so)."
	@$(PIP) --editable '.[torch]' torch==2.13.0
	@touch $@

$(VENV)/.dev: $(VENV)/.core pyproject.toml
	@echo "Installing the tools for tests; pip downloads pytest, mypy, ruff, jax, torch and more."
	@$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/.html: $(VENV)/.dev pyproject.toml
	@echo "Installing Playwright and Model Explorer for the tests of reports."
	@$(PIP) --editable '.[html]'
	@touch $@

$(VENV)/.docs: $(VENV)/.core pyproject.toml
	@echo "Installing the tools of the documentation site; pip downloads sphinx and its theme."
	@$(PIP) --editable '.[docs]'
	@touch $@
