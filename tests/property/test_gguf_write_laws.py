"""What is written is what is read, whatever it is."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.slices import tensor
from suffice.loaders.gguf import read_gguf_header
from suffice.model.ggml_types import TYPES_BY_ID
from suffice.slices.contents import Contents, content_of
from suffice.slices.fake_blocks import FakeBlocks
from suffice.slices.gguf_write import lay_out, write_gguf

if TYPE_CHECKING:
    from suffice.model.gguf_header import TensorInfo

_TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
_WHOLE = st.integers(-(2**63), 2**63 - 1)
_FLOATS = st.floats(width=32, allow_nan=False)
_NON_NEGATIVE = st.integers(0, 2**64 - 1)
_VALUES = st.one_of(
    st.booleans(),
    _WHOLE,
    _FLOATS,
    _TEXTS,
    *(st.lists(items, max_size=5).map(tuple) for items in (st.booleans(), _WHOLE, _FLOATS, _TEXTS, _NON_NEGATIVE)),
)
_KEYS = _TEXTS.map(lambda text: f"x.{text}")
_QUANTIZED = [kind for kind in TYPES_BY_ID.values() if kind.block_elements > 1]
_FLOAT_TYPES = [kind for kind in TYPES_BY_ID.values() if kind.name in ("f32", "f16", "bf16")]


@st.composite
def tensors(draw: st.DrawFn) -> list[TensorInfo]:
    """Tensors of any types and one to four dimensions; some have names that are filled by a rule."""
    names = draw(
        st.lists(st.sampled_from(["blk.0.ffn_gate_inp.weight", "a_norm.weight", "x.bias", "w", "v", "é"]), unique=True)
    )
    made = []
    for name in names:
        kind = draw(st.sampled_from(_QUANTIZED + _FLOAT_TYPES))
        blocks = draw(st.integers(1, 3))
        rest = draw(st.lists(st.integers(1, 5), max_size=3))
        made.append(tensor(name, (blocks * kind.block_elements, *rest), kind.name))
    return made


@given(st.dictionaries(_KEYS, _VALUES, max_size=6), tensors())
@settings(max_examples=60, deadline=None)
def test_the_reader_gives_back_what_the_writer_was_given(
    metadata: dict[str, object], given_tensors: list[TensorInfo]
) -> None:
    """Metadata, in order, and tensors with their sizes come back from the file."""
    layout = lay_out(metadata, given_tensors)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.gguf"
        write_gguf(path, layout, lambda item: [bytes(item.n_bytes)])
        header = read_gguf_header(path)

    assert list(header.metadata.items()) == list(metadata.items())
    assert header.tensors == layout.tensors
    assert [(t.name, t.dims, t.type_name) for t in header.tensors] == [
        (t.name, t.dims, t.type_name) for t in given_tensors
    ]
    assert header.file_bytes == layout.file_bytes


_CONTENTS = Contents(FakeBlocks())


@given(tensors())
@settings(max_examples=60, deadline=None)
def test_every_tensor_is_filled_to_its_last_byte(given_tensors: list[TensorInfo]) -> None:
    """The pieces make exactly the tensor's bytes, again and again the same ones; constants are constant."""
    for item in given_tensors:
        raw = b"".join(_CONTENTS.fill(item))
        assert len(raw) == item.n_bytes
        assert raw == b"".join(_CONTENTS.fill(item))
        constant = content_of(item).constant
        if constant is not None and item.type_name == "f32":
            assert raw == struct.pack("<f", constant) * item.elements
