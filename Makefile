# The front door. Every target does everything from a fresh clone: it looks for what is missing and installs it
# (tools/setup, under a second when nothing is), configures, builds and runs. The build itself is CMake's.
PREFIX ?= /usr/local
PRESET ?= default
BUILD  := build/$(PRESET)
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)

# Ninja when it is there; a build folder that exists keeps the generator it was made with. Asked anew in
# each recipe, because tools/setup may just have installed it.
GENERATOR = if [ -z "$$CMAKE_GENERATOR" ] && command -v ninja >/dev/null; then export CMAKE_GENERATOR=Ninja; fi

.PHONY: all setup configure demo test check bench onnx docs dist install lint format clean help

all: configure
	@cmake --build $(BUILD) -j $(JOBS)

help:
	@echo "make            build into $(BUILD) (PRESET=debug, asan, tsan, minimal, clang, arm)"
	@echo "make demo       train a small network on handwritten digits and show what it reads"
	@echo "make test       the tests, all of them, in minutes"
	@echo "make check      the long version: sanitizers, both compilers, ARM by an emulator, fuzzers"
	@echo "make onnx       ONNX's own cases, and random calls beside onnxruntime (ONNX_PYTHON: a Python that has both)"
	@echo "make bench      the benchmarks"
	@echo "make docs       the documentation as a site, build/site/index.html"
	@echo "make dist       a source archive, a wheel and Debian packages, build/dist"
	@echo "make install PREFIX=/usr/local     (the Python package: pip install .)"
	@echo "make lint | format | clean"

setup:
	@tools/setup

# One cmake call per make: cheap when nothing changed, quiet when nothing is wrong.
configure: setup
	@mkdir -p $(BUILD)
	@$(GENERATOR); cmake --preset $(PRESET) >$(BUILD)/configure.log 2>&1 \
	  || { cat $(BUILD)/configure.log; exit 1; }

demo: all
	@$(BUILD)/cairn demo

test:
	@tools/setup --test
	@tools/run-tests $(TESTFLAGS)

check:
	@tools/setup --check
	@tools/run-tests --check $(TESTFLAGS)

onnx: all
	@CAIRN_BUILD_DIR=$(abspath $(BUILD)) CAIRN_LONG=1 $(or $(ONNX_PYTHON),python3) tests/onnx/test_peers.py

bench: all
	@bench/setup-peers || echo "bench: without PyTorch; the rows it is the peer of have none"
	@bench/run $(BENCHFLAGS)

docs: all
	@CAIRN_BUILD_DIR=$(BUILD) python3 -B tools/docs $(DOCSFLAGS)

dist: setup
	@tools/dist $(DISTFLAGS)

install: all
	@cmake --install $(BUILD) --prefix $(PREFIX) --strip

lint:
	@tools/lint -v $(BUILD)

format:
	@git ls-files -co --exclude-standard '*.c' '*.h' | grep -v -e '\.gen\.' -e '/ops\.h$$' -e '/kw\.h$$' \
	  | xargs clang-format -i

clean:
	@rm -rf build/default build/debug build/asan build/tsan build/minimal build/clang build/fuzz build/arm \
	  build/wheel build/release build/dist build/site build/site-pages
