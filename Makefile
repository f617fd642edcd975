# make bench | make test | make lint: everything on a fresh machine, in an environment of its own.
#
# PYTHON=python3.12   the interpreter to start from
# VENV=               use that interpreter's environment as it is: nothing is installed
# ARGS="--suite ..."  passed on to bench.py or pytest
# PIP_FLAGS="..."     passed on to pip

PYTHON ?= python3
VENV ?= .venv
export PYTHONPATH := $(CURDIR)

ifeq ($(strip $(VENV)),)
PY := $(PYTHON)
BIN :=
READY :=
EXAMPLES :=
else
PY := $(VENV)/bin/python
BIN := $(VENV)/bin/
READY := $(VENV)/ready
EXAMPLES := $(VENV)/ready-examples
export PATH := $(abspath $(VENV))/bin:$(PATH)
endif

# Without a GPU the benchmark runs the CPU path, so its build leaves the GPU kernels out.
ifeq ($(wildcard /dev/nvidia[0-9]*),)
bench: export VITAMIN_CPU_ONLY ?= 1
endif

CXX_FILES = $(shell git ls-files '*.h' '*.cpp' '*.cu' '*.cuh')

.PHONY: bench test lint build clean

bench: build
	$(PY) benchmarks/bench.py $(ARGS)

test: build $(EXAMPLES)
	$(PY) -m pytest $(ARGS)

lint: $(READY)
	$(BIN)clang-format --dry-run -Werror $(CXX_FILES)
	$(BIN)ruff check
	$(BIN)ruff format --check

build: $(READY)
	$(PY) setup.py -q build_ext --inplace

$(VENV)/ready: requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q $(PIP_FLAGS) -r requirements.txt
	touch $@

$(VENV)/ready-examples: examples/requirements.txt $(VENV)/ready
	$(PY) -m pip install -q $(PIP_FLAGS) --no-deps -r examples/requirements.txt
	touch $@

clean:
	rm -rf build vitamin_hgemm/*.so
