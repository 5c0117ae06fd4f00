"""Commands that get a person a better engine."""

from __future__ import annotations

from typing import Final

# GCC 12's intrinsic for loading the AMX tile configuration declares 8 of its 64 bytes as read, so the optimizer drops the
# stores of the rest (dead store elimination) and the first tile instruction is illegal. Seen in ggml-cpu/amx/mmq.cpp on
# Debian 12; without the two passes the stores stay, and AMX works. Other compilers ignore or do not need the flags.
NATIVE_CMAKE_ARGS: Final = "-DCMAKE_CXX_FLAGS='-fno-dse -fno-tree-dse'"
NATIVE_COMMAND: Final = (
    f'CMAKE_ARGS="{NATIVE_CMAKE_ARGS}" pip install --force-reinstall --no-cache-dir --no-deps llama-cpp-python'
)
NATIVE_ADVICE: Final = f"{NATIVE_COMMAND} (compiles llama.cpp for this CPU: needs a compiler and some minutes)"
