from __future__ import annotations

import ctypes

import pytest

from suffice.errors import EngineError
from suffice.measure.engine.layouts import BUFFER_BYTES, CONTEXT_LAYOUTS, MODEL_LAYOUTS, Batch, Layout, select_layout

ALL_LAYOUTS = [*MODEL_LAYOUTS, *CONTEXT_LAYOUTS]


def defaults_of(layout: Layout) -> bytes:
    """The bytes that a library with this layout would give as its defaults, with rubbish behind the struct."""
    value = layout.structure()()
    for slot in layout.slots:
        setattr(value, slot.name, None if slot.kind is ctypes.c_void_p else slot.defaults[0])
    end = type(value).rest.offset
    return bytes(value)[:end] + b"\xa5" * (BUFFER_BYTES - end)


def family(layout: Layout) -> tuple[Layout, ...]:
    """All layouts of the same struct."""
    return MODEL_LAYOUTS if layout in MODEL_LAYOUTS else CONTEXT_LAYOUTS


@pytest.mark.parametrize("layout", ALL_LAYOUTS, ids=lambda layout: layout.name)
def test_each_layout_is_recognised_and_no_other_fits(layout: Layout) -> None:
    """The defaults of one layout select exactly that layout, whatever lies behind the struct."""
    assert select_layout(family(layout), defaults_of(layout), "a library") is layout


@pytest.mark.parametrize("layout", ALL_LAYOUTS, ids=lambda layout: layout.name)
def test_one_inserted_field_is_noticed(layout: Layout) -> None:
    """Four bytes inserted at the front, as a future release might do, fit no layout."""
    shifted = b"\x07\0\0\0" + defaults_of(layout)[:-4]
    with pytest.raises(EngineError, match="not one that suffice knows"):
        select_layout(family(layout), shifted, "a library")


def test_a_boolean_that_is_neither_0_nor_1_is_no_boolean() -> None:
    """A byte of 7 in the place of a true boolean is a mismatch."""
    layout = CONTEXT_LAYOUTS[0]
    raw = bytearray(defaults_of(layout))
    raw[layout.structure().offload_kqv.offset] = 7
    assert layout.first_mismatch(bytes(raw)) == "offload_kqv is 7"


def test_the_offsets_of_the_reference_release_are_those_of_its_header() -> None:
    """Sizes and offsets worked out by hand from llama.h of ggml 0.25 (llama-cpp-python 0.3.36)."""
    # 9 ints, ctx_type and 4 enums, 8 words of rope, then cb_eval at the next multiple of 8.
    context = CONTEXT_LAYOUTS[1].structure()
    assert (context.n_threads.offset, context.flash_attn_type.offset, context.cb_eval.offset) == (28, 52, 88)
    assert (context.type_k.offset, context.embeddings.offset, context.rest.offset) == (104, 128, 134)
    # 2 pointers, 5 ints, padding, 4 pointers, 6 booleans.
    model = MODEL_LAYOUTS[0].structure()
    assert (model.load_mode.offset, model.tensor_split.offset, model.vocab_only.offset) == (24, 40, 72)


def test_the_newest_context_has_one_size_more() -> None:
    """moe_cache_size (ggml 0.26) moves all that follows by 8 bytes."""
    new, old = CONTEXT_LAYOUTS[0].structure(), CONTEXT_LAYOUTS[1].structure()
    assert new.abort_callback.offset == old.abort_callback.offset + 8
    assert new.type_v.offset == old.type_v.offset


def test_all_structs_have_the_same_generous_size() -> None:
    """Each layout is padded to the same size, so a longer struct of a newer library cannot overrun it."""
    assert {ctypes.sizeof(layout.structure()) for layout in ALL_LAYOUTS} == {BUFFER_BYTES}


def test_batch_has_the_size_of_the_header() -> None:
    """llama_batch is one padded int and six pointers."""
    assert ctypes.sizeof(Batch) == 56
