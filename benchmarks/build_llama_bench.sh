#!/usr/bin/env bash
# Build llama-bench and the shared libllama that it uses, from the source that llama-cpp-python ships: the same llama.cpp.
# Usage: benchmarks/build_llama_bench.sh DIR [VERSION of llama-cpp-python]
set -euo pipefail
target=$(realpath -m "${1:?folder to build in}")
version=${2:-0.3.36}
mkdir -p "$target"
python3 -m pip download --quiet --no-deps --no-binary :all: -d "$target/source" "llama-cpp-python==$version"
tar -xzf "$target"/source/llama_cpp_python-*.tar.gz -C "$target/source"
# GCC 12 drops stores that its AMX intrinsics read (see docs/measuring.md), hence the two flags; other compilers ignore them.
cmake -S "$target"/source/llama_cpp_python-*/vendor/llama.cpp -B "$target/build" -DCMAKE_BUILD_TYPE=Release \
  -DBUILD_SHARED_LIBS=ON -DLLAMA_CURL=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
  -DCMAKE_CXX_FLAGS="-fno-dse -fno-tree-dse"
cmake --build "$target/build" --target llama-bench -j "$(nproc)"
ls "$target/build/bin/llama-bench" "$target/build/bin/"libllama.*
