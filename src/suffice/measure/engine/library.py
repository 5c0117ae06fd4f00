"""Find the shared library of llama.cpp and load it, without importing the package that brings it."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from suffice.errors import EngineError, EngineMissingError, UsageError

LLAMA_CPP_PYTHON: Final = "llama-cpp-python"
XLLAMACPP: Final = "xllamacpp"
BARE_LIBRARY: Final = "llama.cpp library"
INSTALL_NATIVE: Final = "pip install 'suffice[native]'"
INSTALL_PREBUILT: Final = "pip install 'suffice[prebuilt]'"

_PRELOADED: Final = ("ggml-base", "ggml-cpu", "ggml")  # in the order in which they need each other


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryChoice:
    """A library that can be loaded, and the package that it came from."""

    name: str
    version: str | None
    library: Path
    preload: tuple[Path, ...]
    prebuilt: bool


def available_engines() -> tuple[LibraryChoice, ...]:
    """The engine packages that are installed here, the preferred one first."""
    found = (_llama_cpp_python(), _xllamacpp())
    return tuple(choice for choice in found if choice is not None)


def choose_library(library: Path | None = None, prefer: str | None = None) -> LibraryChoice:
    """The library to use: the one given by path, else the preferred package, else llama-cpp-python before xllamacpp.

    Raises:
        UsageError: ``prefer`` is no known package.
        EngineError: the path is not a file.
        EngineMissingError: nothing is installed; the message holds the commands that install one.
    """
    if library is not None:
        return _bare_library(library)
    if prefer is not None and prefer not in {LLAMA_CPP_PYTHON, XLLAMACPP}:
        raise UsageError(f"unknown engine {prefer!r}; choose {LLAMA_CPP_PYTHON} or {XLLAMACPP}")
    installed = available_engines()
    fitting = [choice for choice in installed if prefer in {None, choice.name}]
    if fitting:
        return fitting[0]
    missing = f"the engine {prefer} is not installed" if prefer else "no inference engine is installed"
    raise EngineMissingError(
        f"{missing}; run: {INSTALL_NATIVE} (llama.cpp compiled for this CPU: needs a C++ compiler and some minutes) "
        f"or: {INSTALL_PREBUILT} (no compiler; slower, so its figures are lower bounds)"
    )


@dataclass(frozen=True, slots=True)
class LoadedLibraries:
    """llama.cpp's library and the ggml libraries that were loaded for it: each function is exported by one of them."""

    llama: ctypes.CDLL
    others: tuple[ctypes.CDLL, ...]

    def find(self, name: str) -> Any:  # noqa: ANN401 - a C function, whose types the caller declares
        """A function, from whichever library has it; None if none has. Every call gives a function object of its own.

        Linux would find all through llama.cpp's own library, as it searches what that one depends on; other systems do not.
        """
        for library in (self.llama, *self.others):
            if hasattr(library, name):
                return library[name]
        return None


def load_libraries(choice: LibraryChoice) -> LoadedLibraries:
    """Load the library and what it depends on into this process.

    Raises:
        EngineError: the system's loader refuses it, with its reason.
    """
    mode = ctypes.RTLD_GLOBAL if hasattr(ctypes, "RTLD_GLOBAL") else 0
    try:
        if sys.platform == "win32":
            os.add_dll_directory(str(choice.library.parent))
        others = tuple(ctypes.CDLL(str(dependency), mode=mode) for dependency in choice.preload)
        loaded = ctypes.CDLL(str(choice.library), mode=mode)
    except OSError as error:
        raise EngineError(
            f"cannot load {choice.library}: {error}; reinstall {choice.name} or give another one"
        ) from error
    if not hasattr(loaded, "llama_model_default_params"):
        raise EngineError(f"{choice.library} is not a library of llama.cpp: it has no llama_model_default_params")
    return LoadedLibraries(loaded, others)


def load_library(choice: LibraryChoice) -> ctypes.CDLL:
    """llama.cpp's own library alone; see :func:`load_libraries`."""
    return load_libraries(choice).llama


def shared_library_name(stem: str) -> str:
    """File name of a shared library on this system: ``llama`` -> ``libllama.so``, ``libllama.dylib`` or ``llama.dll``."""
    if sys.platform == "win32":
        return f"{stem}.dll"
    return f"lib{stem}.dylib" if sys.platform == "darwin" else f"lib{stem}.so"


def _siblings(directory: Path) -> tuple[Path, ...]:
    paths = (directory / shared_library_name(stem) for stem in _PRELOADED)
    return tuple(path for path in paths if path.is_file())


def _bare_library(library: Path) -> LibraryChoice:
    path = library.expanduser().absolute()
    if not path.is_file():
        raise EngineError(f"the engine library {library} is not a file; give the path of libllama itself")
    return LibraryChoice(name=BARE_LIBRARY, version=None, library=path, preload=_siblings(path.parent), prebuilt=False)


def _llama_cpp_python() -> LibraryChoice | None:
    directory = _package_directory("llama_cpp")
    if directory is None:
        return None
    library = directory / "lib" / shared_library_name("llama")
    if not library.is_file():
        return None
    return LibraryChoice(
        name=LLAMA_CPP_PYTHON,
        version=_version(LLAMA_CPP_PYTHON),
        library=library,
        preload=_siblings(library.parent),
        prebuilt=False,
    )


def _xllamacpp() -> LibraryChoice | None:
    directory = _package_directory(XLLAMACPP)
    if directory is None:
        return None
    pattern = "xllamacpp*.pyd" if sys.platform == "win32" else "xllamacpp*.so"
    library = next(iter(sorted(directory.glob(pattern))), None)
    if library is None:
        return None
    return LibraryChoice(name=XLLAMACPP, version=_version(XLLAMACPP), library=library, preload=(), prebuilt=True)


def _package_directory(module: str) -> Path | None:
    """Directory of an importable package. A top-level name is looked up without running any of its code."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
