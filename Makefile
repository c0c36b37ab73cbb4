# Counterfoil. Needs Python 3.11 or newer, make and git; everything else is installed into .venv.
#   make demo    run the main job on the embedded stack      (KEEP=1 leaves the stack running)
#   make test    run the tests
#   make check   ruff, mypy, import-linter, locks up to date
#   make faults  play every fault there is, and random ones       (SEED=7 repeats one, ARGS='--rows none')
#   make bench-operations    measure an operation beside a bare workflow
#   make bench-documents     measure a document beside bare pycrdt, and beside yjs on node
#   make lock    renew the pinned requirements
#   make record-histories    record the histories that replay tests keep (after a deliberate workflow change)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test check faults bench-operations bench-documents lock record-histories clean typing
.DELETE_ON_ERROR:

demo: $(VENV)/.run
	@$(BIN)/python examples/demo.py $(if $(KEEP),--keep)

test: $(VENV)/.dev
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

check: $(VENV)/.dev typing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=.typing $(BIN)/mypy -p counterfoil
	cd .typing && ../$(BIN)/lint-imports ../pyproject.toml
	$(BIN)/python -m pytest -q tests/test_repository.py

faults: $(VENV)/.dev
	@$(BIN)/python -m counterfoil.worker.faults $(if $(SEED),--seed $(SEED)) $(ARGS)

bench-operations: $(VENV)/.dev
	@$(BIN)/python benchmarks/operations.py $(ARGS)

bench-documents: $(VENV)/.dev
	@$(BIN)/python benchmarks/documents.py $(ARGS)

record-histories: $(VENV)/.dev
	@$(BIN)/python tests/replay/record.py

# The environment: what running needs, then what developing needs. Hashes are checked; addresses are yours to configure.
$(VENV)/.run: requirements/run.txt pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; say which with PYTHON=…"; exit 1; }
	@echo "Installing Counterfoil into $(VENV) (once; a minute or so)…"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --require-hashes -r requirements/run.txt
	@$(BIN)/python -m pip install -q --no-deps -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	@echo "Installing what tests and checks need…"
	@$(BIN)/python -m pip install -q --require-hashes -r requirements/dev.txt
	@touch $@

# Type checkers and the import linter see the rooms under the name they are imported by.
ROOMS := models workflows activities control_plane worker migrations
typing:
	@mkdir -p .typing/counterfoil
	@for room in $(ROOMS); do ln -sfn ../../$$room .typing/counterfoil/$$room; done
	@for file in __init__.py testing.py py.typed; do ln -sfn ../../counterfoil/$$file .typing/counterfoil/$$file; done

LOCK := $(BIN)/uv pip compile pyproject.toml --extra embedded --extra postgres --universal --python-version 3.11 \
	--generate-hashes --no-header --no-annotate --no-emit-index-url --quiet
lock: $(VENV)/.dev
	@$(BIN)/python -m pip install -q uv
	@$(LOCK) -o requirements/run.txt
	@$(LOCK) --group dev -c requirements/run.txt -o requirements/dev.txt

clean:
	rm -rf $(VENV) .typing .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .counterfoil *.egg-info build dist
