"""The user's text becomes documents and tokens: from files, from items, bounded, evenly taken; what is no text is refused."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from suffice.errors import UsageError
from suffice.measure.engine.fake_text import BOS, FakeModel, FakeTextEngine
from suffice.measure.engine.seam import EngineSettings
from suffice.model.items import Item, ScoreKind, ScoreRule
from suffice.quants import texts as module
from suffice.quants.texts import documents_of, right_answer, tokenize_texts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suffice.measure.engine.text_seam import TextSession

SETTINGS = EngineSettings(n_ctx=1024, n_threads=1, n_threads_batch=1)


@pytest.fixture
def session(tmp_path: Path) -> TextSession:
    """A fake whose tokens are bytes, with a beginning token."""
    return FakeTextEngine().open_text(tmp_path / "any.gguf", SETTINGS)


def item(number: int, kind: ScoreKind = ScoreKind.EXACT, **fields: object) -> Item:
    """An item with a prompt."""
    given = {"id": str(number), "line": number, "rule": ScoreRule(kind=kind), "prompt": f"Q{number}:", **fields}
    return Item(**given)  # type: ignore[arg-type]


def test_each_line_is_a_document(tmp_path: Path, session: TextSession) -> None:
    """Lines of a .jsonl file are documents of their own, blank texts are none, and the tokens are those of each text."""
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "one"}\n{"text": "  "}\n\n{"text": "two\\n", "more": 3}\n', encoding="utf-8")
    found = tokenize_texts(documents_of((), [path]), session)
    assert [name for name, _ in found.segments] == ["texts.jsonl line 1", "texts.jsonl line 4"]
    assert [tokens for _, tokens in found.segments] == [(BOS, *b"one"), (BOS, *b"two\n")]
    assert found.notes == ()


def test_items_of_a_group_are_one_document(session: TextSession) -> None:
    """A group's items are texts of one document; each is its prompt with a right answer behind a space."""
    items = [
        item(1, answers=("yes", "y"), group="a"),
        item(2, ScoreKind.MULTIPLE_CHOICE, choices=("red", "blue"), correct=(1,)),
        item(3, ScoreKind.NUMBER, numbers=(503.9, 7.0), group="a"),
        item(4, ScoreKind.JSON, answer_json='{"k": 1}'),
        item(5),
    ]
    found = tokenize_texts(documents_of(items), session)
    assert [(name, session.text_of(tokens)) for name, tokens in found.segments] == [
        ("group a", "Q1: yes"),
        ("group a", "Q3: 503.9"),
        ("item 2", "Q2: blue"),
        ("item 4", 'Q4: {"k": 1}'),
        ("item 5", "Q5:"),
    ]
    assert found.notes == ("of 1 items no right answer is known as a text: distances are on their prompts alone",)


@pytest.mark.parametrize(("text", "answer"), [('"Rome"', "Rome"), ('{"max_words": 20}', None)])
def test_what_a_function_is_given_is_an_answer_only_as_a_text(text: str, answer: str | None) -> None:
    """A function's answer may be anything; an object is nothing that a model would write."""
    assert right_answer(item(1, ScoreKind.FUNCTION, answer_json=text)) == answer


def test_one_long_text_is_cut_into_blocks_and_says_so(tmp_path: Path, session: TextSession) -> None:
    """Together the blocks are the text; the beginning token stands at the start of each; every block is a document."""
    path = tmp_path / "novel.txt"
    path.write_text("abcdefgh" * 28 + "end", encoding="utf-8")
    found = tokenize_texts(documents_of((), [path]), session, block_tokens=50)
    assert [name for name, _ in found.segments] == [f"novel.txt block {n}" for n in range(1, 6)]
    assert all(tokens[0] == BOS for _, tokens in found.segments)
    assert [len(tokens) for _, tokens in found.segments] == [50, 50, 50, 50, 28]
    assert "cut into blocks of 50 tokens" in found.notes[0]


def test_no_more_than_the_tokens_that_are_wanted_evenly_taken(tmp_path: Path, session: TextSession) -> None:
    """Of 100 lines of 10 tokens, 20 are taken for 200 tokens: no gap in the file is longer than 8 lines."""
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "123456789"}\n' * 100, encoding="utf-8")
    found = tokenize_texts(documents_of((), [path]), session, max_tokens=200)
    numbers = [int(name.rsplit(" ", 1)[1]) for name, _ in found.segments]
    assert found.tokens == 200
    assert numbers == sorted(numbers)
    assert max(after - before for before, after in itertools.pairwise([0, *numbers, 101])) <= 8
    assert "20 of 100 documents" in found.notes[-1]


def test_a_text_of_which_much_more_was_given_is_not_read_whole(
    tmp_path: Path, session: TextSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces from evenly spaced places are made tokens, and never the whole text."""
    path = tmp_path / "novel.txt"
    path.write_text("word " * 4_000, encoding="utf-8")
    lengths: list[int] = []
    tokenize = session.tokenize

    def noted(text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        lengths.append(len(text))
        return tokenize(text, add_special=add_special, parse_special=parse_special)

    monkeypatch.setattr(session, "tokenize", noted)
    found = tokenize_texts(documents_of((), [path]), session, max_tokens=500, block_tokens=50)
    assert found.tokens == 500
    assert max(lengths) < 500
    numbers = [int(name.rsplit(" ", 1)[1]) for name, _ in found.segments]
    assert len(numbers) == 10
    assert max(numbers) > 80  # of about a hundred pieces
    assert "10 of 100 documents" in found.notes[-1]


def test_a_long_document_does_not_use_up_all_tokens(tmp_path: Path, session: TextSession) -> None:
    """Of a line with a book only the beginning is taken, and that is said."""
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "' + "x" * 5_000 + '"}\n{"text": "short"}\n', encoding="utf-8")
    found = tokenize_texts(documents_of((), [path]), session, block_tokens=50)
    assert [len(tokens) for _, tokens in found.segments] == [400, 6]
    assert found.notes == ("of one document only the beginning was taken",)


def test_the_same_text_has_the_same_hash(tmp_path: Path, session: TextSession) -> None:
    """The hash follows from names and tokens: equal again, another one with another text."""
    path = tmp_path / "a.txt"
    hashes = []
    for text in ("one text", "one text", "another"):
        path.write_text(text, encoding="utf-8")
        hashes.append(tokenize_texts(documents_of((), [path]), session).sha256)
    assert hashes[0] == hashes[1] != hashes[2]


def test_two_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Their documents have names of their own."""
    paths = [tmp_path / folder / "a.txt" for folder in ("x", "y")]
    for path in paths:
        path.parent.mkdir()
        path.write_text("some text", encoding="utf-8")
    assert [document.name for document in documents_of((), paths).documents] == ["a.txt (1)", "a.txt (2)"]


def folder(path: Path) -> None:
    """A folder in the place of a file."""
    path.mkdir()


def pipe(path: Path) -> None:
    """A pipe that nobody writes to."""
    os.mkfifo(path)


def holds(raw: bytes) -> Callable[[Path], None]:
    """A file of these bytes."""

    def make(path: Path) -> None:
        path.write_bytes(raw)

    return make


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("a.txt", lambda _: None, "does not exist"),
        ("a.txt", folder, "is a folder"),
        ("a.jsonl", folder, "is a folder"),
        pytest.param("a.txt", pipe, "not a regular file", marks=pytest.mark.skipif(os.name == "nt", reason="no pipes")),
        pytest.param("a.jsonl", pipe, "not a regular file", marks=pytest.mark.skipif(os.name == "nt", reason="no pipes")),
        ("a.txt", holds(b"\xff\xfea\0"), "not UTF-8"),
        ("a.txt", holds(b"abc\0def"), "zero bytes"),
        ("a.txt", holds(b" \n\n"), "holds no text"),
        ("a.jsonl", holds(b""), "holds no text"),
        ("a.jsonl", holds(b'{"text": "ok"}\n{"text": 3}\nnonsense\n'), "line 2: no text under .*; line 3: not JSON"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused(tmp_path: Path, name: str, make: Callable[[Path], None], message: str) -> None:
    """One sentence with the file and the reason; nothing hangs."""
    path = tmp_path / name
    make(path)
    with pytest.raises(UsageError, match=message):
        documents_of((), [path])


def test_too_much_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds for all files together."""
    monkeypatch.setattr(module, "MAX_TEXT_BYTES", 10)
    paths = [tmp_path / name for name in ("a.txt", "b.txt")]
    for path in paths:
        path.write_text("123456", encoding="utf-8")
    with pytest.raises(UsageError, match="more than 0 MiB together"):
        documents_of((), paths)


def test_without_two_tokens_there_is_nothing_to_measure(tmp_path: Path) -> None:
    """A letter without a beginning token foretells nothing."""
    path = tmp_path / "a.txt"
    path.write_text("a", encoding="utf-8")
    session = FakeTextEngine(default=FakeModel(adds_bos=False)).open_text(path, SETTINGS)
    with pytest.raises(UsageError, match="no text of two tokens"):
        tokenize_texts(documents_of((), [path]), session)
