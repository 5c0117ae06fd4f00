"""What `compare` makes of what the user wrote, before anything is measured."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from helpers.gguf_writer import ToyLlama
from helpers.records import run_record
from suffice.cli.candidates import MOST_CANDIDATES, Wanted, earlier_record, record_paths, spelled_out, wanted
from suffice.errors import UnsupportedShapeError, UsageError
from suffice.records.store import save_record, write_atomically

if TYPE_CHECKING:
    from pathlib import Path


def test_one_shape_under_several_recipes() -> None:
    """Commas belong to the recipe; a plain name is itself."""
    assert spelled_out("llama-3.1-8b:q4_k_m, q8_0") == ["llama-3.1-8b:q4_k_m", "llama-3.1-8b:q8_0"]
    assert spelled_out("a,b.gguf") == ["a,b.gguf"]
    assert spelled_out("x" * 5000 + ":q4_0,q8_0") == ["x" * 5000 + ":q4_0", "x" * 5000 + ":q8_0"]


@pytest.mark.parametrize("model", ["https://host/a,b.gguf", "http://u:p,w@host/b.gguf", "folder:1,2/model.gguf"])
def test_a_comma_in_an_address_or_path_separates_nothing(model: str) -> None:
    """Only words behind the last colon are recipes."""
    assert spelled_out(model) == [model]


def test_no_secret_of_an_address_becomes_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rows, messages and the names of records have the address without password and query, and two that look alike a number."""
    asked: list[str] = []

    def refuse(reference: str) -> None:
        asked.append(reference)
        raise UnsupportedShapeError("it is nothing")

    monkeypatch.setattr("suffice.loaders.reference.resolve_model", refuse)
    urls = [f"https://me:hunter2@host/m.gguf?token=hunter2{n}" for n in range(2)]

    found = wanted(urls)

    assert asked == urls
    assert [one.name for one in found] == ["https://host/m.gguf", "https://host/m.gguf (2)"]
    paths = record_paths(tmp_path, found, resume=False)
    assert len(set(paths)) == len(paths)
    assert "hunter2" not in str((found, paths))
    with pytest.raises(UsageError, match="is there twice") as caught:
        wanted([urls[0], urls[0]])
    assert "hunter2" not in str(caught.value)


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


@pytest.mark.parametrize("letter", ["a", "模", "\U0001f999", "\udcff"])
def test_records_of_long_names_can_be_written(tmp_path: Path, letter: str) -> None:
    """A file system counts bytes, and a name in Chinese has three of them in a letter."""
    found = [Wanted(name=f"{start}{letter * 300}:q4") for start in "ab"]

    first, second = record_paths(tmp_path, found, resume=False)
    write_atomically(first, "{}")
    write_atomically(second, "{}")

    assert first != second
    assert first.name.endswith(".json")


@pytest.mark.parametrize(
    ("depth", "prompt_tokens", "stated", "warnings", "refused"),
    [
        (512, 512, True, (), False),
        (0, 512, True, (), True),
        (2048, 512, True, (), True),
        (1024, 512, True, ("the depth was shortened from 1024 to 512 tokens to fit the budget of 5 s",), False),
        (1024, 512, False, (), False),
        (512, 256, True, (), True),
    ],
)
def test_a_record_of_other_lengths_is_not_kept(
    tmp_path: Path, depth: int, prompt_tokens: int, warnings: tuple[str, ...], *, stated: bool, refused: bool
) -> None:
    """Its figures would stand in the row of another depth; one that was shortened is the run that was asked for."""
    path = tmp_path / "a.json"
    save_record(run_record(warnings=warnings), path)
    bench = SimpleNamespace(check_finished=lambda _record, _request: None)
    request = SimpleNamespace(depth=depth, prompt_tokens=prompt_tokens, lengths_stated=stated)

    with pytest.raises(UsageError, match="another depth or prompt") if refused else nullcontext():
        assert earlier_record(path, request, bench) is not None  # type: ignore[arg-type]  # all that is looked at


def test_records_that_are_there_are_not_replaced(tmp_path: Path) -> None:
    """Only --resume uses them."""
    (tmp_path / "a_q4.json").write_text("{}", encoding="utf-8")
    found = [Wanted(name="a:q4"), Wanted(name="b:q4")]

    with pytest.raises(UsageError, match=r"a_q4\.json exists.*--resume"):
        record_paths(tmp_path, found, resume=False)
    assert len(record_paths(tmp_path, found, resume=True)) == 2
