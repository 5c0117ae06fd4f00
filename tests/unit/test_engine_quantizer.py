"""The quantizer's place in the engine: the struct that it takes, which library has it, and the words when none has."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

import pytest

from suffice.errors import EngineCrashError, EngineError, EngineMissingError
from suffice.measure.engine import quantizer as seam
from suffice.measure.engine.client import WorkerProcess
from suffice.measure.engine.layouts import BUFFER_BYTES, QUANTIZE_LAYOUTS, Layout, select_newest
from suffice.measure.engine.library import INSTALL_NATIVE, LibraryChoice
from suffice.measure.engine.quantize_model import ModelQuantizer
from suffice.measure.engine.quantizer import LlamaCppQuantizer, QuantizerFacts, find_quantizer
from suffice.units import GIB

FACTS = QuantizerFacts(type_names=frozenset({"q8_0"}), takes_imatrix=True, bounds_memory=True)


def defaults_of(layout: Layout, rubbish: bytes = b"\xa5") -> bytes:
    """The bytes that a library with this layout would give as its defaults, with rubbish behind the struct."""
    value = layout.structure()()
    for slot in layout.slots:
        is_plain = slot.kind is not ctypes.c_void_p and slot.defaults
        setattr(value, slot.name, slot.defaults[-1] if is_plain else None if slot.kind is ctypes.c_void_p else 0)
    end = type(value).rest.offset
    return bytes(value)[:end] + rubbish * (BUFFER_BYTES - end)


@pytest.mark.parametrize("layout", QUANTIZE_LAYOUTS, ids=lambda layout: layout.name)
def test_each_layout_is_recognised(layout: Layout) -> None:
    """Whatever lies behind the older one, which is the newer one without its last field."""
    for rubbish in (b"\0", b"\xa5"):
        assert select_newest(QUANTIZE_LAYOUTS, defaults_of(layout, rubbish), "a library") is layout


def test_an_inserted_field_is_noticed() -> None:
    """Four bytes at the front, as a future release might do, fit no layout."""
    for layout in QUANTIZE_LAYOUTS:
        with pytest.raises(EngineError, match="not one that suffice knows"):
            select_newest(QUANTIZE_LAYOUTS, b"\x07\0\0\0" + defaults_of(layout)[:-4], "a library")


def test_the_offsets_are_those_of_the_header() -> None:
    """Worked out by hand from llama.h of ggml 0.25: 4 ints, 6 booleans, 4 pointers from the next multiple of 8, a size."""
    params = QUANTIZE_LAYOUTS[0].structure()
    assert (params.ftype.offset, params.allow_requantize.offset, params.imatrix.offset) == (4, 16, 24)
    assert (params.prune_layers.offset, params.max_buf_size.offset) == (48, 56)
    assert QUANTIZE_LAYOUTS[0].slots[-1].defaults == (8 * GIB,)


def choice(name: str) -> LibraryChoice:
    """A library that is never loaded."""
    return LibraryChoice(name=name, version="1", library=Path(f"/none/{name}.so"), preload=(), prebuilt=False)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> dict[str, QuantizerFacts | EngineError]:
    """Installed engines by name, the preferred one first, and what each tells of its quantizer."""
    told: dict[str, QuantizerFacts | EngineError] = {}

    def facts(self: LlamaCppQuantizer) -> QuantizerFacts:
        answer = told[self.choice.name]
        if isinstance(answer, EngineError):
            raise answer
        return answer

    monkeypatch.setattr(LlamaCppQuantizer, "facts", property(facts))
    monkeypatch.setattr(seam, "available_engines", lambda: tuple(map(choice, told)))
    monkeypatch.setattr(seam, "choose_library", lambda _library, prefer: choice(prefer or next(iter(told))))
    return told


def test_another_installed_engine_stands_in(engines: dict[str, QuantizerFacts | EngineError]) -> None:
    """Where the engine that is asked for hides its quantizer, or has none."""
    engines |= {"xllamacpp": EngineMissingError("hidden"), "llama-cpp-python": FACTS}
    assert find_quantizer(prefer="xllamacpp").choice.name == "llama-cpp-python"
    assert find_quantizer().choice.name == "llama-cpp-python"


def test_the_engine_that_is_asked_for_comes_first(engines: dict[str, QuantizerFacts | EngineError]) -> None:
    """Though another is preferred otherwise."""
    engines |= {"llama-cpp-python": FACTS, "mine": FACTS}
    assert find_quantizer(prefer="mine").choice.name == "mine"


def test_no_quantizer_at_all_names_the_command(engines: dict[str, QuantizerFacts | EngineError]) -> None:
    """And the option for a library of one's own; one that cannot be loaded only counts when it was asked for."""
    engines |= {"xllamacpp": EngineMissingError("hidden"), "llama-cpp-python": EngineError("broken")}
    with pytest.raises(EngineMissingError, match="--engine-library") as caught:
        find_quantizer(prefer="xllamacpp")
    assert INSTALL_NATIVE in str(caught.value)
    assert "xllamacpp or in llama-cpp-python" in str(caught.value)
    with pytest.raises(EngineError, match="broken"):
        find_quantizer(prefer="llama-cpp-python")


class FakeLog:
    """What llama.cpp said."""

    def last_errors(self) -> str:
        """As :class:`~suffice.measure.engine.enginelog.EngineLog`."""
        return "=====  |  - offending tensor: x | llama_model_quantize: failed to quantize: no"


class FakeBinding:
    """A library whose quantizer says three tensors, and fails or not."""

    def __init__(self, result: int) -> None:
        self.log = FakeLog()
        self.watch: Any = None
        self.result = result
        self.got: list[tuple[object, ...]] = []
        self.matrix: list[tuple[bytes, list[float]]] = []

    def has(self, _name: str) -> bool:
        """It has everything."""
        return True

    def default_quantize_params(self) -> ctypes.Structure:
        """Those of the newest layout."""
        layout = QUANTIZE_LAYOUTS[0]
        return layout.structure().from_buffer_copy(defaults_of(layout))

    def call(self, name: str, *arguments: Any) -> Any:  # noqa: ANN401 - as the real one
        """Names of types, or the quantizer itself."""
        if name == "ggml_type_name":
            return {0: b"f32", 1: b"f16"}.get(arguments[0])
        params = QUANTIZE_LAYOUTS[0].structure().from_address(arguments[2])
        names = ("ftype", "nthread", "allow_requantize", "dry_run", "max_buf_size")
        self.got.append((*arguments[:2], *(getattr(params, name) for name in names)))
        place = params.imatrix
        while place and (name := ctypes.cast(place, ctypes.POINTER(ctypes.c_char_p))[0]):
            address, size = ctypes.cast(place + 8, ctypes.POINTER(ctypes.c_size_t))[0:2]
            self.matrix.append((name, (ctypes.c_float * size).from_address(address)[:]))
            place += 24
        for number in range(3):
            self.watch(f"[{number + 1:4d}/   3] blk.0.attn_q.weight - [ 1, 1], type =    f16, converting to q8_0 ..")
        return self.result


def begun(result: int, **settings: object) -> tuple[ModelQuantizer, FakeBinding]:
    """A quantizer that has been told to begin."""
    binding = FakeBinding(result)
    worker = ModelQuantizer(lambda: binding)  # type: ignore[arg-type,return-value]  # what it needs of a binding
    usual: dict[str, object] = {
        "file_type": 7,
        "n_threads": 2,
        "max_buffer_bytes": 5,
        "imatrix": None,
        "imatrix_sizes": [],
    }
    worker.table()["quantize_model"]({"source": "a", "target": "b", "settings": {**usual, **settings}})
    return worker, binding


def test_the_worker_counts_tensors_and_ends(tmp_path: Path) -> None:
    """Progress is read from llama.cpp's own lines; parameters and matrix arrive where they belong."""
    numbers = tmp_path / "numbers"
    numbers.write_bytes(struct.pack("3f", 1.0, 2.0, 3.0))
    worker, binding = begun(0, imatrix=str(numbers), imatrix_sizes=[["x", 1], ["y", 2]])

    assert worker.table()["quantize_model_wait"]({}) == {"is_over": True, "done": 3, "count": 3}
    assert binding.got == [(b"a", b"b", 7, 2, True, False, 5)]
    assert binding.matrix == [(b"x", [1.0]), (b"y", [2.0, 3.0])]
    facts = worker.table()["quantizer_facts"]({})
    assert facts == {"type_names": ["f32", "f16"], "takes_imatrix": True, "bounds_memory": True}
    with pytest.raises(EngineError, match="one model only"):
        worker.table()["quantize_model"]({})


def test_a_failure_keeps_llama_cpps_words() -> None:
    """Without its banners."""
    worker, _ = begun(1)
    with pytest.raises(
        EngineError, match=r"could not quantize the model: - offending tensor: x \| llama_model_quantize: failed"
    ):
        worker.table()["quantize_model_wait"]({})


def test_a_matrix_that_is_too_short_is_an_error(tmp_path: Path) -> None:
    """Nothing is read behind its end."""
    (tmp_path / "numbers").write_bytes(b"1234")
    worker, binding = begun(0, imatrix=str(tmp_path / "numbers"), imatrix_sizes=[["x", 2]])
    with pytest.raises(EngineError, match="importance matrix could not be passed on"):
        worker.table()["quantize_model_wait"]({})
    assert binding.got == []


def test_the_real_worker_has_the_operations() -> None:
    """Without a library each is refused, and nothing dies."""
    worker = WorkerProcess()
    try:
        for operation in ("quantizer_facts", "quantize_model_wait"):
            with pytest.raises(EngineError, match=r"no library is loaded|quantizes nothing") as caught:
                worker.ask(operation, {}, 60)
            assert not isinstance(caught.value, EngineCrashError)
    finally:
        worker.close()
