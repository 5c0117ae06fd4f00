from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from suffice.errors import EngineError
from suffice.measure.engine.blocks import EngineBlocks, normal_numbers, plain_bytes
from suffice.measure.engine.library import LibraryChoice
from suffice.model.ggml_types import TYPES_BY_ID
from suffice.slices.fake_blocks import FakeBlocks

if TYPE_CHECKING:
    from suffice.slices.contents import BlockSource

NO_LIBRARY = LibraryChoice(name="test", version=None, library=Path("/nowhere.so"), preload=(), prebuilt=False)


@pytest.mark.parametrize("kind", TYPES_BY_ID.values(), ids=lambda kind: kind.name)
def test_fake_blocks_have_the_right_length_and_are_reproducible(kind: object) -> None:
    """Every type, equal arguments give equal bytes, more elements begin with the same, another seed differs."""
    name = getattr(kind, "name", "")
    source: BlockSource = FakeBlocks()
    made = source.blocks(name, 512, sigma=0.1, seed=1)
    assert len(made) == next(known for known in TYPES_BY_ID.values() if known.name == name).row_bytes(512)
    assert source.blocks(name, 1024, sigma=0.1, seed=1)[: len(made)] == made
    assert source.blocks(name, 512, sigma=0.1, seed=2) != made


def test_plain_numbers_need_no_engine() -> None:
    """A library that does not exist is not loaded for f32, f16 and bf16, and is named for anything else."""
    with EngineBlocks(NO_LIBRARY) as source:
        assert np.array_equal(
            np.frombuffer(source.blocks("F32", 100, sigma=2.0, seed=5), "<f4"), normal_numbers(100, sigma=2.0, seed=5)
        )
        assert len(source.blocks("bf16", 7, sigma=1.0, seed=1)) == 14
        with pytest.raises(EngineError, match="nowhere"):
            source.blocks("q4_K", 256, sigma=1.0, seed=1)
        source.close()


def test_bf16_rounds_to_the_nearest_and_ties_to_even() -> None:
    """1 + 2^-8 is a tie and goes down to 1; 1 + 3 x 2^-8 is one and goes up; a little more than a tie goes up."""
    numbers = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -2.5], np.float32)
    bits = np.frombuffer(plain_bytes(numbers, "bf16"), "<u2").astype(np.uint32) << 16
    assert bits.view(np.float32).tolist() == [1.0, 1.0, 1 + 4 * 2**-8, 1 + 2 * 2**-8, -2.5]


@pytest.mark.parametrize(("type_name", "n_elements"), [("q4_K", 255), ("q4_0", 0), ("q4_0", -32), ("q9_9", 256)])
@pytest.mark.parametrize("source", [FakeBlocks(), EngineBlocks(NO_LIBRARY)], ids=["fake", "engine"])
def test_what_is_no_whole_number_of_blocks_is_refused(source: BlockSource, type_name: str, n_elements: int) -> None:
    """Before anything is computed."""
    with pytest.raises(ValueError, match=r"block|ggml type"):
        source.blocks(type_name, n_elements, sigma=1.0, seed=1)


@pytest.mark.parametrize("type_name", ["q8_K", "i32", "f64"])
def test_types_without_a_quantizer_are_refused(type_name: str) -> None:
    """Ggml would end its process."""
    with pytest.raises(EngineError, match=type_name):
        EngineBlocks(NO_LIBRARY).blocks(type_name, 256, sigma=1.0, seed=1)


def test_normal_numbers_have_the_deviation_that_was_asked_for() -> None:
    """10 000 numbers of deviation 0.5: mean within 0.02 of 0 and deviation within 2 %."""
    numbers = normal_numbers(10_000, sigma=0.5, seed=9)
    assert abs(float(numbers.mean())) < 0.02
    assert float(numbers.std()) == pytest.approx(0.5, rel=0.02)
