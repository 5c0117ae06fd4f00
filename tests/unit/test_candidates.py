"""What `compare` makes of what the user wrote, before anything is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.gguf_writer import ToyLlama
from suffice.cli.candidates import MOST_CANDIDATES, Wanted, record_paths, spelled_out, wanted
from suffice.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_one_shape_under_several_recipes() -> None:
    """Commas belong to the recipe; a plain name is itself."""
    assert spelled_out("llama-3.1-8b:q4_k_m, q8_0") == ["llama-3.1-8b:q4_k_m", "llama-3.1-8b:q8_0"]
    assert spelled_out("a,b.gguf") == ["a,b.gguf"]


@pytest.mark.parametrize(
    "models",
    [
        ("llama-2-7b:q4_0", "llama-2-7b:q4_0"),
        ("llama-2-7b:q4_0,Q4_0",),
        ("llama-2-7b:q4_0", "LLAMA-2-7B:Q4_0"),
    ],
)
def test_one_model_spelled_twice_is_refused(models: tuple[str, ...]) -> None:
    """Its noise would be read as a difference."""
    with pytest.raises(UsageError, match="leave one out"):
        wanted(models)


def test_one_file_under_two_names_is_refused(tmp_path: Path) -> None:
    """Two paths, one file."""
    path, link = tmp_path / "a.gguf", tmp_path / "b.gguf"
    ToyLlama().write(path)
    link.hardlink_to(path)

    with pytest.raises(UsageError, match=r"a\.gguf.*b\.gguf.*leave one out"):
        wanted([str(path), str(link)])


@pytest.mark.parametrize("count", [1, MOST_CANDIDATES + 1])
def test_too_few_and_too_many(count: int) -> None:
    """One is no comparison, and a hundred are a night."""
    with pytest.raises(UsageError, match=f"2 to {MOST_CANDIDATES} models, not {count}"):
        wanted([f"llama-2-7b:q{i}" for i in range(count)])


def test_a_shape_that_cannot_be_built_is_a_row_and_a_slip_is_not() -> None:
    """baichuan2 is refused with the reason and the other goes on; an unknown name stops all."""
    refused, other = wanted(["baichuan2-7b:q4_0", "llama-2-7b:q4_0"])

    assert refused.model is None
    assert "position encoding" in str(refused.refused)
    assert other.model is not None
    with pytest.raises(UsageError, match="lama-2-7b"):
        wanted(["lama-2-7b:q4_0", "llama-2-7b:q4_0"])


def test_records_of_similar_names_do_not_share_a_file(tmp_path: Path) -> None:
    """What a file system cannot tell apart gets a mark of its own, the same in every run; other names stay plain."""
    names = ("a/b:q4", "a_b:q4", "A_B:q4", "c:q4")
    found = [Wanted(name=name) for name in names]

    paths = record_paths(tmp_path, found, resume=False)

    assert len({path.name.casefold() for path in paths}) == len(names)
    assert paths[-1].name == "c_q4.json"
    assert paths == record_paths(tmp_path, found, resume=False)
    assert all(path.parent == tmp_path for path in paths)


def test_records_that_are_there_are_not_replaced(tmp_path: Path) -> None:
    """Only --resume uses them."""
    (tmp_path / "a_q4.json").write_text("{}", encoding="utf-8")
    found = [Wanted(name="a:q4"), Wanted(name="b:q4")]

    with pytest.raises(UsageError, match=r"a_q4\.json exists.*--resume"):
        record_paths(tmp_path, found, resume=False)
    assert len(record_paths(tmp_path, found, resume=True)) == 2
