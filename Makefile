# A thin front to CMake: each target does the set-up it needs. CUDA=off, to any, leaves out the module for GPUs.
#
#   make              the program, build/sealgraph, and where nvcc and cuDNN are its module for GPUs
#   make demo         cross-entropy and SEAL-dynamic side by side on generated data, under a minute
#   make test         all tests
#   make bench        times of the training step and of single operators
#   make bench-peers  the same step in JAX and PyTorch beside it (installs them under build/)
#   make asan         the tests under the address and undefined-behaviour sanitizers
#   make sanitize-cuda  the kernels of a GPU under NVIDIA's compute-sanitizer
#   make install      the program, its manual page, the library and its headers to PREFIX (default /usr/local)

PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
CUDA ?= on

.PHONY: all program setup configure everything demo test bench bench-peers asan sanitize-cuda debug format check-format install clean

all: program
	@sed -n 's/^-- CUDA module/CUDA module/p' build/cmake.log
	@cmake --build build -j $(JOBS) --target modules

program: configure
	@cmake --build build -j $(JOBS) --target sealgraph

configure: setup
	@cmake --preset release -D SG_CUDA=$(CUDA) >build/cmake.log || { cat build/cmake.log; exit 1; }

everything: configure
	@cmake --build build -j $(JOBS)

setup:
	@sh cmake/setup.sh

demo: program
	@build/sealgraph demo

test: everything
	@ctest --test-dir build --output-on-failure -j $(JOBS)

bench: program
	@build/sealgraph bench step
	@build/sealgraph bench ops

bench-peers: program
	@sh benchmarks/peers/run.sh

asan: setup
	@cmake --preset asan
	@cmake --build build-asan -j $(JOBS)
	@ctest --test-dir build-asan --output-on-failure -j $(JOBS)

sanitize-cuda: everything
	@sh cmake/sanitize_cuda.sh build || [ $$? -eq 77 ]

debug: setup
	@cmake --preset debug -D SG_CUDA=$(CUDA)
	@cmake --build build-debug -j $(JOBS)

format:
	@sh cmake/format.sh -i

check-format:
	@sh cmake/format.sh --dry-run -Werror

install: program
	@cmake --build build -j $(JOBS) --target modules libsealgraph manual
	@cmake --install build --prefix "$(PREFIX)"

clean:
	@rm -rf build-asan build-debug
	@find build -mindepth 1 -maxdepth 1 ! -name deps ! -name venv -exec rm -rf {} +
