# `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TEST_VENV := build/test-venv
TEST_TOOLS := numpy pyarrow msgspec pyyaml click rich joblib duckdb pytest==9.2.0 pytest-xdist==3.8.0 \
  pytest-timeout==2.4.0 pytest-rerunfailures==16.7 \
  hypothesis==6.170.15 protobuf==7.36.2 grpcio-tools==1.85.1 starlette uvicorn httpx2==2.16.0 selenium==4.51.0 \
  optuna==5.0.0 networkx pandas ray==2.60.0 distributed==2026.8.0
# The CPU build; a plain `torch` would bring gigabytes of CUDA.
TORCH := torch==2.13.0
CORE := $(shell find src/core -name '*.cpp' -o -name '*.hpp' -o -name '*.h')
CORE_TESTS := $(wildcard tests/core/*.cpp tests/core/*.hpp tests/fuzz/*.cpp)

.PHONY: help accuracy demo test browser check lint format bench unit fuzz codec-fuzz wheel sanitize clean

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

check: $(VENV)/.built lint  ## the fast loop: lint and the quick tests
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m 'not slow'

lint: $(VENV)/.built  ## ruff, mypy --strict, clang-format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CORE) $(CORE_TESTS)

format: $(VENV)/.built  ## rewrite sources in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CORE) $(CORE_TESTS)

SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g
SANITIZED := build/sanitized
sanitized = $(patsubst %.cpp,$(SANITIZED)/%.o,$(1))
FUZZED := $(wildcard src/core/wire/*.cpp src/core/text/*.cpp src/core/codec/*.cpp)
# The bindings need Python, and the library for C has tests of its own.
UNIT := $(filter-out src/core/bindings/% src/core/feeder/c/%,$(filter %.cpp,$(CORE))) $(wildcard tests/core/*.cpp)
FUZZ_RUNS ?= 100000

$(SANITIZED)/%.o: %.cpp
	@mkdir -p $(@D)
	$(CXX) -std=c++20 -O1 -Wall -Wextra -Wno-missing-field-initializers $(SANITIZE) -Isrc -MMD -c -o $@ $<

-include $(shell find $(SANITIZED) -name '*.d' 2>/dev/null)

$(SANITIZED)/unit: $(call sanitized,$(UNIT))
	$(CXX) $(SANITIZE) -o $@ $^

$(SANITIZED)/fuzz_et: $(call sanitized,tests/fuzz/fuzz_et.cpp $(FUZZED))
	$(CXX) $(SANITIZE) -o $@ $^

unit: $(SANITIZED)/unit  ## unit tests of the core under the sanitizers
	$(SANITIZED)/unit

codec-fuzz: $(SANITIZED)/fuzz_et
	$(SANITIZED)/fuzz_et tests/fuzz/corpus --runs $(FUZZ_RUNS) --seed 1

N ?= 20000

fuzz: codec-fuzz $(VENV)/.built  ## feed mutated traces to the codec under the sanitizers, and N mutated files of every format to the commands
	$(BIN)/python tests/fuzz/fuzz.py --runs $(N) --keep build/fuzz $(FORMATS)

ASAN_VENV := build/asan-venv
ASAN_BIN := $(ASAN_VENV)/bin
SANITIZED_TESTS ?= tests/core tests/trace/codecs/test_et.py tests/trace/codecs/test_et_edits.py \
	tests/trace/codecs/test_json_text.py tests/trace/model/test_graph.py tests/trace/timing/test_schedule.py \
	tests/trace/storage/test_feeder.py tests/trace/storage/test_feeder_input.py tests/simulator/astra tests/simulator/engine/test_engine.py \
	tests/simulator/engine/test_network.py tests/simulator/engine/test_device_sharing.py tests/simulator/engine/test_input.py \
	tests/sources/pytorch/read/test_readers.py tests/sources/pytorch/linking/test_damage.py

# Not editable: the import hook of an editable install would find the ordinary build first.
$(ASAN_VENV)/.deps: pyproject.toml
	$(PYTHON) -m venv $(ASAN_VENV)
	$(ASAN_BIN)/pip install -q scikit-build-core==1.1.1 nanobind==3.1.0 cmake ninja numpy pyarrow msgspec pyyaml \
		click rich joblib pytest==9.2.0 pytest-xdist==3.8.0 hypothesis==6.170.15 protobuf==7.36.2 grpcio-tools==1.85.1
	touch $@

$(ASAN_VENV)/.built: $(ASAN_VENV)/.deps $(CORE) CMakeLists.txt $(shell find src/chakrakit -name "*.py")
	$(ASAN_BIN)/pip install -q --no-build-isolation --no-deps --force-reinstall \
		-C cmake.define.CHAKRA_SANITIZE=ON -C build-dir=build/asan .
	touch $@

sanitize: $(ASAN_VENV)/.built  ## run the core's tests under the address and undefined-behaviour sanitizers
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 CHAKRA_EXPECT_SANITIZER=1 \
	$(ASAN_BIN)/python -m pytest -q -n 2 --dist worksteal -m 'not slow' $(SANITIZED_TESTS)

wheel: $(VENV)/.deps  ## build the wheel into dist/
	rm -rf dist
	$(BIN)/pip wheel -q --no-build-isolation --no-deps -w dist .

$(TEST_VENV)/.deps: pyproject.toml Makefile
	$(PYTHON) -m venv $(TEST_VENV)
	$(TEST_VENV)/bin/pip install -q --upgrade pip
	$(TEST_VENV)/bin/pip install -q $(TEST_TOOLS) $(TORCH)
	touch $@

test: lint wheel $(TEST_VENV)/.deps unit codec-fuzz sanitize  ## everything, against the built wheel
	$(TEST_VENV)/bin/pip install -q --force-reinstall --no-deps dist/*.whl
	$(TEST_VENV)/bin/python -m pytest -q -n 2 --dist worksteal

APT := $(if $(filter 0,$(shell id -u)),,sudo) apt-get

browser:  ## install Debian's chromium and its driver, for the tests of the web app
	{ command -v chromium && command -v chromedriver; } >/dev/null || { $(APT) update -q && $(APT) install -y -q chromium chromium-driver; }

accuracy: $(VENV)/.built  ## measure every claim on the truth tables in DATA and rewrite docs/accuracy.md
	$(BIN)/python benchmarks/accuracy $(DATA)

bench: $(VENV)/.built  ## measure the claims of the README
	cd benchmarks && for file in codec feeder schedule link generate megatron astra simulate analyze timeline replay view scale sweep search; do ../$(BIN)/python $$file.py; done

clean:  ## remove everything that was built
	rm -rf $(VENV) build dist
