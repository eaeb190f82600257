# `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TEST_VENV := build/test-venv
CORE := $(shell find src/core -name '*.cpp' -o -name '*.hpp' -o -name '*.h')
PACKAGE := $(shell find src/chakrakit -type f -not -name '*.pyc' -not -name '*.so')
CORE_TESTS := $(wildcard tests/core/*.cpp tests/core/*.hpp tests/fuzz/*.cpp)

# Python keeps what it has compiled, whatever the caller's setting: otherwise each of the hundreds of processes that
# the tests start compiles the package anew, and every worker rewrites all tests.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help stubs accuracy studies docs demo test browser check quick-half quick-rest lint format bench unit fuzz codec-fuzz wheel sanitize clean mutants programs torch-versions frameworks

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(VENV)/.deps: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q scikit-build-core==1.1.1 nanobind==3.1.0 cmake ninja
	touch $@

$(VENV)/.built: $(VENV)/.deps $(CORE) CMakeLists.txt
	$(BIN)/pip install -q --no-build-isolation -e '.[dev,lint]'
	touch $@

demo: $(VENV)/.built  ## set up and run the main job on the built-in default
	$(BIN)/chakra demo

check: $(VENV)/.built  ## the fast loop: lint and the quick tests, side by side
	$(MAKE) -j3 lint quick-half quick-rest

# Two processes that each load half of the tests: pytest-xdist's both load all of them, PyTorch included, and
# took a fifth more of the processor. HALF is about half of their time.
HALF := $(addprefix tests/,commands fuzz operators passes programs published replayer serving sources views)
QUICK := $(BIN)/python -m pytest -q -m 'not slow' --hypothesis-profile quick

quick-half: $(VENV)/.built
	$(QUICK) $(HALF)

quick-rest: $(VENV)/.built
	$(QUICK) $(addprefix --ignore=,$(HALF))

# Where the linters are: `make test` has them in the environment of the tests.
LINTERS ?= $(BIN)

lint: $(LINTERS)/ruff  ## ruff, mypy --strict, clang-format
	$(LINTERS)/ruff check .
	$(LINTERS)/ruff format --check .
	$(LINTERS)/mypy
	$(LINTERS)/clang-format --dry-run -Werror $(CORE) $(CORE_TESTS)

$(VENV)/bin/ruff: $(VENV)/.built
$(TEST_VENV)/bin/ruff: $(TEST_VENV)/.wheel

format: $(VENV)/.built  ## rewrite sources in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CORE) $(CORE_TESTS)

stubs: $(VENV)/.built  ## write what type checkers read, and the list of what is published, from the sources
	PYTHONPATH=src:tests $(BIN)/python tests/support/stub.py
	PYTHONPATH=src:tests $(BIN)/python tests/support/published.py

# One build under the address and undefined-behaviour sanitizers: the unit tests, the codec's fuzzer, and the package
# in a folder that comes first on Python's path.
SANITIZED := build/sanitized
SANITIZED_SITE := $(SANITIZED)/site
FUZZ_RUNS ?= 100000

$(SANITIZED)/.built: $(VENV)/.deps $(CORE) $(CORE_TESTS) CMakeLists.txt $(PACKAGE)
	$(BIN)/pip install -q --no-build-isolation --no-deps --upgrade --target $(SANITIZED_SITE) \
		-C cmake.define.CHAKRA_SANITIZE=ON -C build-dir=$(SANITIZED) .
	touch $@

unit: $(SANITIZED)/.built  ## unit tests of the core under the sanitizers
	$(SANITIZED)/unit

codec-fuzz: $(SANITIZED)/.built
	$(SANITIZED)/fuzz_et tests/fuzz/corpus --runs $(FUZZ_RUNS) --seed 1

N ?= 20000

fuzz: codec-fuzz $(VENV)/.built  ## feed mutated traces to the codec under the sanitizers, N mutated files of every format to the commands, and odd arguments to the operators of a replay
	$(BIN)/python tests/fuzz/fuzz.py --runs $(N) --keep build/fuzz $(FORMATS)
	$(BIN)/python tests/fuzz/operators.py

SEED ?= 1
mutants: N = 200

mutants: $(VENV)/.built  ## change N places of the sources, one at a time, and list the changes that no test notices
	$(BIN)/python tests/mutation.py --count $(N) --seed $(SEED) $(IN)

SANITIZED_TESTS ?= tests/core tests/trace/codecs/test_et.py tests/trace/codecs/test_et_edits.py \
	tests/trace/codecs/test_json_text.py tests/trace/model/test_graph.py tests/trace/timing/test_scheduler.py \
	tests/trace/storage/test_feeder.py tests/trace/storage/test_feeder_input.py tests/simulator/astra tests/simulator/engine/test_native.py tests/simulator/engine/test_folding.py \
	tests/simulator/engine/test_network.py tests/simulator/engine/test_device_sharing.py tests/simulator/engine/test_input.py \
	tests/sources/pytorch/read/test_readers.py tests/sources/pytorch/linking/test_damage.py

sanitize: $(SANITIZED)/.built $(TEST_VENV)/.wheel  ## run the core's tests under the address and undefined-behaviour sanitizers
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 CHAKRA_EXPECT_SANITIZER=1 PYTHONPATH=$(SANITIZED_SITE) \
	$(TEST_VENV)/bin/python -m pytest -q -n 2 --dist worksteal $(SANITIZED_TESTS)

wheel: dist/.built  ## build the wheel into dist/

dist/.built: $(VENV)/.deps $(CORE) CMakeLists.txt $(PACKAGE)
	rm -rf dist
	$(BIN)/pip wheel -q --no-build-isolation --no-deps -w dist .
	touch $@

$(TEST_VENV)/.wheel: dist/.built
	$(PYTHON) -m venv $(TEST_VENV)
	$(TEST_VENV)/bin/pip install -q --upgrade pip
	$(TEST_VENV)/bin/pip install -q "$$(echo dist/*.whl)[test]"
	$(TEST_VENV)/bin/pip install -q --force-reinstall --no-deps dist/*.whl
	touch $@

test:  ## everything, against the built wheel
	$(MAKE) -j2 $(TEST_VENV)/.wheel $(SANITIZED)/.built
	$(MAKE) -j2 lint unit codec-fuzz LINTERS=$(TEST_VENV)/bin
	$(MAKE) sanitize
	$(TEST_VENV)/bin/python -m pytest -q -n 2 --dist worksteal

frameworks: $(VENV)/.built  ## the written configurations by the parsers of torchtitan, Accelerate, DeepSpeed and Megatron-Core
	$(BIN)/pip install -q -e '.[dev,frameworks]' --no-build-isolation
	$(BIN)/python -m pytest -q -rs tests/exploration/search/test_configurations.py

APT := $(if $(filter 0,$(shell id -u)),,sudo) apt-get

browser:  ## install Debian's chromium and its driver, for the tests of the web app
	{ command -v chromium && command -v chromedriver; } >/dev/null || { $(APT) update -q && $(APT) install -y -q chromium chromium-driver; }

accuracy: $(VENV)/.built  ## measure every claim on the truth tables in DATA (or SECTIONS alone, JOBS at a time) and rewrite docs/accuracy.md
	JOBS=$(JOBS) ROWS=$(ROWS) $(BIN)/python benchmarks/accuracy $(DATA) docs/accuracy.md $(SECTIONS)

studies: $(VENV)/.built  ## run every study of a published system, quick and full; record the tables and renew docs/studies
	$(BIN)/python benchmarks/studies.py $(IDS)

docs: $(VENV)/.built  ## build the documentation site into build/site; a broken link fails
	$(BIN)/pip install -q -e '.[docs]' --no-build-isolation
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

bench: $(VENV)/.built  ## measure the claims of the README
	cd benchmarks && for file in codec feeder schedule link generate megatron astra simulate analyze timeline replay view editing scale sweep search serving messages campaign capture; do ../$(BIN)/python $$file.py; done

programs: $(VENV)/.built  ## capture, validate and simulate the programs of tests/programs at 2, 8 and 512 ranks
	$(BIN)/python -W ignore tests/programs/capture_all.py

TORCHES ?= $(BIN)/python

torch-versions: $(VENV)/.built  ## test capture, collect and programs with every Python in TORCHES, each with a PyTorch of its own
	for python in $(TORCHES); do $$python -c "import torch; print(torch.__version__)"; \
		time PYTHONPATH=tests:$$PYTHONPATH $$python -m pytest -q -p support.alone -m "not slow" tests/sources/capture tests/sources/pytorch/recorder tests/programs; done

clean:  ## remove everything that was built
	rm -rf $(VENV) build dist
