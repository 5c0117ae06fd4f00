"""The shape of the package itself: who imports whom, where scale factors live, how long files are."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import suffice

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(suffice.__file__).parent
TESTS = Path(__file__).parents[1]
MAX_LINES = 500

# Lower rooms first. A module may import rooms of its own level and below.
LEVELS = {
    "units": 0,
    "errors": 0,
    "model": 1,
    "stats": 1,
    "records.schema": 1,
    "catalogue": 1,
    "predict": 2,
    "quality": 2,
    "serving": 2,
    "decide": 3,
    "loaders": 4,
    "records": 4,
    "slices": 4,
    "load": 4,
    "measure": 4,
    "report": 4,
    "deploy": 4,
    "compat": 5,
    "quants": 5,
    "web": 5,
    "cli": 6,
    "pytest_plugin": 6,
    "__main__": 7,
    "": 8,  # the package's own __init__
}
PURE = ("units", "errors", "model", "stats", "decide", "records.schema")
# A list of what is allowed is stronger than one of what is not: nothing here reads, waits, draws or sends.
PURE_MAY_IMPORT = {
    "__future__", "collections", "dataclasses", "enum", "functools", "itertools", "math", "re", "types", "typing", "suffice",
    "scipy",  # scipy.special: a function of numbers
    "array", "bisect", "heapq", "statistics",
}  # fmt: skip
# Rooms that compute on many rows at once: NumPy is theirs, nothing outside is.
PURE_ON_ARRAYS = ("predict", "quality", "serving")
# They read what ships inside the package, and nothing else.
READERS_OF_PACKAGE_DATA = {
    "predict.cpu_data", "predict.device_calibration", "predict.device_elsewhere", "predict.device_ratings",
}  # fmt: skip
FORBIDDEN_ANYWAY = {
    "os", "time", "subprocess", "socket", "pathlib", "random", "tempfile", "threading", "httpx", "matplotlib", "ctypes", "psutil",
    "io", "shutil", "datetime", "logging", "multiprocessing", "asyncio", "urllib", "http", "rich", "typer", "pydantic", "numpy",
}  # fmt: skip
# Powers of ten and two that are scale factors wherever they stand.
SCALE_FACTORS = {
    10.0**3, 10.0**6, 10.0**9, 10.0**12, 10.0**15, 1e-3, 1e-6, 1e-9, 1e-12,
    2.0**10, 2.0**20, 2.0**30, 2.0**40, 3600.0, 86400.0,
}  # fmt: skip
# (file, the number as written): what it is instead of a scale factor.
NO_SCALE_FACTORS = {
    ("loaders/demand.py", "1_000_000"),  # a limit on a number of users
    ("measure/engine/fake.py", "1000"),  # a vocabulary of the fake
    ("measure/engine/enginelog.py", "1000"),  # lines and characters that are kept
    ("cli/ceiling.py", "1000"),  # a limit on a number of devices
    ("predict/rows.py", "1e15"),  # a limit on any number in a table
    ("predict/model_files.py", "1024"),  # widths and heads of models
    ("model/vision_rules.py", "1024"),  # widths of encoders
    ("model/metadata.py", "1 << 40"),  # a count that no metadata reaches
    ("records/alike.py", "1e-6"),  # a relative tolerance
}


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        yield name, ast.parse(path.read_text(encoding="utf-8"))


def _room(module: str) -> str:
    """The longest name of LEVELS that a module belongs to."""
    candidates = [room for room in LEVELS if module == room or module.startswith(f"{room}.")]
    return max(candidates, key=len, default=module)


def _imports(tree: ast.Module) -> Iterator[str]:
    """Every imported module, wherever the import stands: in functions and under TYPE_CHECKING as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield from (
                f"{node.module}.{alias.name}" if node.module == "suffice" else node.module for alias in node.names
            )


def _own_imports(tree: ast.Module) -> Iterator[str]:
    for name in _imports(tree):
        if name == "suffice" or name.startswith("suffice."):
            yield name.removeprefix("suffice").removeprefix(".").removesuffix("__version__").removesuffix(".")


MODULES = dict(_modules())


def test_every_room_has_its_level() -> None:
    """A new room must be put in its place before anything else."""
    unknown = {module for module in MODULES if _room(module) not in LEVELS}

    assert unknown == set()
    assert len(MODULES) > 50


def test_imports_go_downwards_only() -> None:
    """The order is cli -> measure, report, loaders -> decide -> model, stats, schema -> units, errors; never back up."""
    upwards = [
        (module, imported)
        for module, tree in MODULES.items()
        for imported in _own_imports(tree)
        if imported and LEVELS[_room(imported)] > LEVELS[_room(module)]
    ]

    assert upwards == []


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_touch_nothing_outside(room: str) -> None:
    """No clock, file, process, network, chance, plot or engine in the rooms that compute: not even for type checking."""
    own = {name: tree for name, tree in MODULES.items() if name == room or name.startswith(f"{room}.")}
    assert own, room

    outside = {(module, imported.split(".")[0]) for module, tree in own.items() for imported in _imports(tree)}

    assert {
        (module, name) for module, name in outside if name not in PURE_MAY_IMPORT or name in FORBIDDEN_ANYWAY
    } == set()


@pytest.mark.parametrize("room", PURE_ON_ARRAYS)
def test_rooms_on_arrays_touch_nothing_outside(room: str) -> None:
    """NumPy beside what pure rooms may import; their readers also importlib.resources and parsers of text and bytes."""
    own = {name: tree for name, tree in MODULES.items() if name == room or name.startswith(f"{room}.")}
    assert own, room

    outside = {
        (module, imported.split(".")[0])
        for module, tree in own.items()
        for imported in _imports(tree)
        if not (module in READERS_OF_PACKAGE_DATA and imported.split(".")[0] in {"importlib", "csv", "io", "json"})
    }

    allowed = PURE_MAY_IMPORT | {"numpy"}
    assert {(module, name) for module, name in outside if name not in allowed} == set()


@pytest.mark.parametrize("room", [*PURE, *PURE_ON_ARRAYS])
def test_pure_rooms_call_nothing_outside(room: str) -> None:
    """Neither open(), print() nor input(), which need no import."""
    for module, tree in MODULES.items():
        if module != room and not module.startswith(f"{room}."):
            continue
        calls = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not calls & {"open", "print", "input", "exec", "eval", "__import__"}, module


def _scale_factors(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):
            if all(isinstance(side, ast.Constant) for side in (node.left, node.right)):
                value = eval(compile(ast.Expression(node), "", "eval"))  # noqa: S307  # two literals of our own source
                if value in SCALE_FACTORS:
                    yield ast.get_source_segment(source, node) or ""
            elif isinstance(node.left, ast.Constant) and node.left.value in (10, 1000, 1024):
                yield ast.get_source_segment(source, node) or ""
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value in SCALE_FACTORS:
            yield ast.get_source_segment(source, node) or ""


def test_scale_factors_live_in_units_only() -> None:
    """1e9, 10**6, 2**30, 1024, 1_000_000_000, 3600: each has one home, and the exceptions are listed with what they are."""
    found = {
        (path.relative_to(PACKAGE).as_posix(), text)
        for path in PACKAGE.rglob("*.py")
        if path != PACKAGE / "units.py"
        for text in _scale_factors(path.read_text(encoding="utf-8"))
    }

    assert found - NO_SCALE_FACTORS == set()


@pytest.mark.parametrize(
    "text", ["1e9", "10**9", "2**30", "1 << 20", "1024 * 1024", "1024**3", "10**n", "1_000_000", "x / 1e-9", "3600"]
)
def test_the_search_for_scale_factors_finds_them(text: str) -> None:
    """The test above can fail: every way to write one is seen."""
    assert list(_scale_factors(f"value = {text}"))


def test_importing_suffice_loads_nothing_heavy() -> None:
    """`import suffice` is instant: no NumPy, SciPy, Pydantic, Typer, Rich, engine or plotting comes with it."""
    script = "import sys, suffice; print(*sorted(sys.modules))"

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    roots = {name.split(".")[0] for name in loaded}
    heavy = {
        "numpy",
        "scipy",
        "pydantic",
        "typer",
        "click",
        "rich",
        "psutil",
        "llama_cpp",
        "xllamacpp",
        "matplotlib",
        "ctypes",
    }
    assert roots & heavy == set()
    assert {name for name in loaded if name.startswith("suffice.")} == set()


def test_files_stay_readable() -> None:
    """No source file has more than 500 lines."""
    long = {
        path.name: n for path in PACKAGE.rglob("*.py") if (n := len(path.read_text("utf-8").splitlines())) > MAX_LINES
    }

    assert long == {}


def test_every_test_states_its_claim() -> None:
    """Each test function in the project has a docstring."""
    silent = [
        f"{path.name}::{node.name}"
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node)
    ]

    assert silent == []


def test_no_exception_becomes_an_answer() -> None:
    """Nobody catches Exception, and a bare except is caught nowhere; BaseException only to clean up and raise again."""
    wide = [
        (module, node.lineno)
        for module, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")))
        and not any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
    ]

    assert wide == []
