# Read by CMake while it configures llama-cpp-python; scripts/demo passes it as CMAKE_PROJECT_llama_cpp_INCLUDE.

# Build libllama and libggml only. llama.cpp's "common" library is used by its own programs alone and is half of the work. A
# normal variable does it because llama-cpp-python forces the cache entry of that name to ON, and the normal one is read first.
set(LLAMA_BUILD_COMMON OFF)

# GCC 12 drops stores that its AMX intrinsics read, and the engine then dies of an illegal instruction (see docs/measuring.md).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fno-dse;-fno-tree-dse>")
endif()
