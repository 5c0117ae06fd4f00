"""Items files: what a line may hold, and what happens to lines that are no items."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from suffice.errors import UsageError
from suffice.loaders.items import OnError, item_hash, load_items
from suffice.loaders.json_lines import MAX_LINE_BYTES, canonical_json
from suffice.model.items import ChoiceLength, Item, Pick, Role, ScoreKind

ROOT = Path(__file__).parents[2]
GOOD: dict[str, Any] = {"id": "a", "prompt": "Is it?", "answer": "yes"}
CHOICES: dict[str, Any] = {"id": "c", "prompt": "Which?", "choices": ["red", "blue", "green"]}


def items_file(folder: Path, *rows: object) -> Path:
    """A file with one row a line; texts are written as they are."""
    path = folder / "items.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def one(folder: Path, row: dict[str, Any]) -> Item:
    """The only item of a file."""
    (item,) = load_items(items_file(folder, row)).items
    return item


def refused(folder: Path, row: object) -> str:
    """Why a row is no item."""
    with pytest.raises(UsageError) as caught:
        load_items(items_file(folder, row))
    return str(caught.value)


def test_all_fields_of_an_item(tmp_path: Path) -> None:
    """Every field of the form arrives in the item, with the line that it came from."""
    row = {
        "id": 7,
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "How many?"},
        ],
        "answer": 12,
        "score": {"kind": "number", "tolerance": 0.5, "pick": "first"},
        "group": "document 1",
        "max_tokens": 32,
        "stop": "\n",
    }

    item = one(tmp_path, row)

    assert (item.id, item.line, item.group, item.max_tokens, item.stop) == ("7", 1, "document 1", 32, ("\n",))
    assert (item.numbers, item.rule.kind, item.rule.tolerance, item.rule.pick) == (
        (12.0,),
        ScoreKind.NUMBER,
        0.5,
        Pick.FIRST,
    )
    assert [message.role for message in item.messages] == [Role.SYSTEM, Role.USER]
    assert item.cluster == "group document 1"


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (GOOD, ScoreKind.EXACT),
        (CHOICES, ScoreKind.MULTIPLE_CHOICE),
        (GOOD | {"score": "contains"}, ScoreKind.CONTAINS),
        (GOOD | {"score": "my_module.inner:judge"}, ScoreKind.FUNCTION),
        (GOOD | {"score": {"kind": "regex", "pattern": "(yes|no)"}}, ScoreKind.REGEX),
        (GOOD | {"answer": {"a": 1}, "score": "json"}, ScoreKind.JSON),
    ],
)
def test_kinds_of_score(tmp_path: Path, row: dict[str, Any], kind: ScoreKind) -> None:
    """A word, module:function or an object names the kind; without one, choices decide between multiple_choice and exact."""
    assert one(tmp_path, row).rule.kind is kind


@pytest.mark.parametrize(("answer", "index"), [("blue", 1), ("B", 1), (1, 1), (" blue ", 1), (0, 0)])
def test_a_choice_by_text_letter_or_place(tmp_path: Path, answer: object, index: int) -> None:
    """The right choice may be its text, its letter, or its place counted from 0."""
    assert one(tmp_path, CHOICES | {"answer": answer}).correct == (index,)


def test_several_right_answers(tmp_path: Path) -> None:
    """``answers`` lists answers of which each is right."""
    assert one(tmp_path, GOOD | {"answer": None, "answers": ["yes", "yeah"]}).answers == ("yes", "yeah")
    assert one(tmp_path, CHOICES | {"answers": ["red", "C"]}).correct == (0, 2)


def test_a_choice_that_looks_like_a_letter_is_a_choice(tmp_path: Path) -> None:
    """Of choices "B" and "A", the answer "A" is the second: a choice's text is believed before its letter."""
    assert one(tmp_path, CHOICES | {"choices": ["B", "A"], "answer": "A"}).correct == (1,)


def test_settings_of_a_score(tmp_path: Path) -> None:
    """Length, fields and case are settings of their kinds."""
    choice = one(tmp_path, CHOICES | {"score": {"kind": "multiple_choice", "length": "character"}})
    fields = one(tmp_path, GOOD | {"answer": {"a": {"b": 1}}, "score": {"kind": "json", "fields": ["a.b"]}})

    assert choice.rule.length is ChoiceLength.CHARACTER
    assert fields.rule.fields == ("a.b",)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"prompt": "x"}, "'id' is missing"),
        ({"id": "a"}, "'prompt' and 'messages' are both missing"),
        (GOOD | {"messages": [{"role": "user", "content": "x"}]}, "'prompt' and 'messages' are both given"),
        (GOOD | {"id": True}, "'id' is True"),
        (GOOD | {"id": "x" * 300}, "'id' has 300 characters"),
        (GOOD | {"prompt": 3}, "'prompt' is 3, not a text"),
        (GOOD | {"prompt": "  "}, "'prompt' is '  ', not a text"),
        (GOOD | {"answer": 3}, "'answer' is 3, not a text"),
        (GOOD | {"answers": ["x"]}, "'answer' and 'answers' are both given"),
        (GOOD | {"answer": None, "answers": []}, "'answers' is []"),
        (GOOD | {"score": "bleu"}, "'score' is 'bleu', not one of exact, regex"),
        (GOOD | {"score": {"kind": "exact", "tolerance": 1}}, "'tolerance', which is no setting of exact"),
        (GOOD | {"score": {"kind": "number", "tolerance": -1}}, "'score.tolerance' is -1"),
        (GOOD | {"score": "number"}, "'answer' is 'yes', not a number"),
        (GOOD | {"score": "regex"}, "'score.pattern' is missing"),
        (GOOD | {"score": {"kind": "regex", "pattern": "(a"}}, "is not a pattern of Python's re"),
        (GOOD | {"score": {"kind": "regex", "pattern": "a" * 3000}}, "has 3000 characters"),
        (GOOD | {"score": "json"}, "not one object with the expected fields"),
        (
            GOOD | {"answer": {"a": 1}, "score": {"kind": "json", "fields": ["b"]}},
            "'score.fields' has 'b', which the answer",
        ),
        (GOOD | {"score": "os:"}, "not of the form module:function"),
        (GOOD | {"score": "a b:c"}, "not of the form module:function"),
        (GOOD | {"score": "multiple_choice"}, "'choices' is missing"),
        (CHOICES | {"choices": ["one"]}, "'choices' has 1 entries"),
        (CHOICES | {"choices": ["a", "a "]}, "'choices' has the same entry twice"),
        (CHOICES | {"choices": ["a", 3]}, "'choices' is ['a', 3]"),
        (CHOICES | {"answer": "yellow"}, "'answer' 'yellow' is none of the choices"),
        (CHOICES | {"answer": 3}, "'answer' 3 is none of the places 0 to 2"),
        (CHOICES | {"choices": ["1", "0"], "answer": 1}, "may be a place or the choice '1'"),
        (CHOICES | {"score": "exact", "answer": "yellow"}, "is none of the choices"),
        (GOOD | {"max_tokens": 0}, "'max_tokens' is 0"),
        (GOOD | {"max_tokens": 1.5}, "'max_tokens' is 1.5"),
        (GOOD | {"stop": [""]}, "'stop' is ['']"),
        (GOOD | {"stop": ["a"] * 17}, "'stop' has 17 entries"),
        (GOOD | {"group": []}, "'group' is []"),
        ({"id": "a", "messages": []}, "'messages' is []"),
        ({"id": "a", "messages": [{"role": "bot", "content": "x"}]}, "'messages[0].role' is 'bot'"),
        ({"id": "a", "messages": [{"role": "user", "content": 3}]}, "'messages[0].content' is 3"),
        ({"id": "a", "messages": [{"role": "user"}]}, "'messages[0]' is {'role': 'user'}"),
        ({"id": "a", "messages": [{"role": "assistant", "content": "x"}]}, "ends with the assistant"),
        ('{"id": 1', "not JSON"),
        ('{"id": 1, "id": 2}', "'id' stands there twice"),
        ('{"id": NaN}', "NaN is no number"),
        ('{"id": "a", "prompt": "x", "answer": 1e999, "score": "number"}', "the number 1e999 is too large"),
        ('{"id": %s}' % ("9" * 400), "has 400 digits"),
        ('{"id": "a", "prompt": "\\ud800"}', "half of a surrogate pair"),
        ("[1]", "a JSON list, not an object"),
        ("null", "a JSON word, not an object"),
        ('{"a":' * 100 + "1" + "}" * 100, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_what_is_wrong_with_a_line(tmp_path: Path, row: object, said: str) -> None:
    """A line that is no item is named by its number, with the field and the reason in words."""
    message = refused(tmp_path, row)

    assert "line 1: " in message
    assert said in message


def test_skip_lists_every_line_that_it_leaves_out(tmp_path: Path) -> None:
    """With ``skip`` the good items are there, and each bad line with its reason."""
    path = items_file(tmp_path, GOOD, "{", "", GOOD | {"id": "b"}, {"id": "d"})

    found = load_items(path, on_error=OnError.SKIP)

    assert [item.id for item in found.items] == ["a", "b"]
    assert [item.line for item in found.items] == [1, 4]
    assert [(problem.line, problem.what.split(";")[0]) for problem in found.skipped] == [
        (2, "not JSON: Expecting property name enclosed in double quotes at character 2"),
        (5, "'prompt' and 'messages' are both missing"),
    ]


def test_an_id_that_stands_twice(tmp_path: Path) -> None:
    """The second item of an id is refused with the line of the first; 1 and "1" are the same id."""
    path = items_file(tmp_path, GOOD | {"id": 1}, GOOD | {"id": "1", "prompt": "Other?"})

    with pytest.raises(UsageError, match="line 2: the id '1' stands in line 1 already"):
        load_items(path)


def test_thousands_of_errors_are_counted_and_twenty_shown(tmp_path: Path) -> None:
    """A file of 3,000 bad lines gives one message with the first 20 and the number of the others."""
    with pytest.raises(UsageError) as caught:
        load_items(items_file(tmp_path, *["{"] * 3000))

    lines = str(caught.value).splitlines()
    assert "has 3000 lines that cannot be used" in lines[0]
    assert len(lines) == 22
    assert lines[-1] == "  and 2980 more"


def test_skip_with_no_item_left_is_an_error(tmp_path: Path) -> None:
    """Nothing is compared on no items, whatever the policy."""
    with pytest.raises(UsageError, match="none is left"):
        load_items(items_file(tmp_path, "{", "["), on_error=OnError.SKIP)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b"  \r\n"])
def test_an_empty_file(tmp_path: Path, content: bytes) -> None:
    """A file without a line that says something is an error of its own."""
    path = tmp_path / "items.jsonl"
    path.write_bytes(content)

    with pytest.raises(UsageError, match="holds no items"):
        load_items(path)


def test_bom_windows_line_ends_and_no_last_line_end(tmp_path: Path) -> None:
    """What other programs put around the lines does not matter, and text is kept as it is."""
    path = tmp_path / "items.jsonl"
    rows = [GOOD, GOOD | {"id": "ü", "prompt": "价格？😀"}]
    text = "\r\n\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())

    found = load_items(path)

    assert [item.id for item in found.items] == ["a", "ü"]
    assert found.items[1].prompt == "价格？😀"
    assert found.file_hash == hashlib.sha256(path.read_bytes()).hexdigest()


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    """A line in another encoding is named with its byte; a UTF-16 file is named as a whole."""
    path = tmp_path / "items.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b'\n{"id": "\xe4"}\n')
    with pytest.raises(UsageError, match=r"line 2: not UTF-8 text \(byte 8 of the line\)"):
        load_items(path)

    path.write_bytes(json.dumps(GOOD).encode("utf-16"))
    with pytest.raises(UsageError, match="UTF-16"):
        load_items(path)


def test_a_prompt_of_ten_megabytes(tmp_path: Path) -> None:
    """It is an item like any other: whether it fits a context is not the file's business."""
    item = one(tmp_path, GOOD | {"prompt": "x" * 10_000_000})

    assert item.prompt is not None
    assert len(item.prompt) == 10_000_000


def test_a_line_beyond_the_limit_is_passed_over_and_named(tmp_path: Path) -> None:
    """A line of more than 16 MiB is not kept, and the lines after it are read."""
    path = tmp_path / "items.jsonl"
    long = MAX_LINE_BYTES + 100
    path.write_bytes(b"x" * long + b"\n" + json.dumps(GOOD).encode() + b"\n")

    found = load_items(path, on_error=OnError.SKIP)

    assert [item.line for item in found.items] == [2]
    assert f"{long + 1} bytes" in found.skipped[0].what
    assert found.file_hash == hashlib.sha256(path.read_bytes()).hexdigest()


def test_files_beyond_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with too many lines or bytes is refused as a whole, before it fills the memory."""
    path = items_file(tmp_path, GOOD, GOOD | {"id": "b"}, GOOD | {"id": "c"})

    monkeypatch.setattr("suffice.loaders.json_lines.MAX_LINES", 2)
    with pytest.raises(UsageError, match="more than 2 lines"):
        load_items(path)
    monkeypatch.setattr("suffice.loaders.json_lines.MAX_FILE_BYTES", 100)
    with pytest.raises(UsageError, match="more than the 100"):
        load_items(path)


def test_fields_that_nothing_reads_are_noted_once_by_name(tmp_path: Path) -> None:
    """A typing error in a field's name is seen: one note for the name, not one for each line."""
    rows = [GOOD | {"id": str(i), "prompt": f"Is {i}?", "max_token": 3} for i in range(5)]

    assert load_items(items_file(tmp_path, *rows)).notes == ("the field 'max_token' (first in line 1) is not read",)


def test_items_without_answers_and_items_that_ask_the_same_are_noted(tmp_path: Path) -> None:
    """Both limit what a comparison can say."""
    rows = [{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "x"}, GOOD | {"id": "c"}]

    notes = load_items(items_file(tmp_path, *rows)).notes

    assert notes == (
        "2 of 3 items have no answer: they can be compared, not scored",
        "1 of 3 items ask what another one asks: they are no evidence of their own",
    )


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_what_is_no_file(tmp_path: Path, kind: str) -> None:
    """A missing file, a folder and a pipe are refused at once; a pipe is not waited for."""
    path = tmp_path / "items.jsonl"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)

    with pytest.raises(UsageError, match=r"does not exist|is a folder|not a regular file"):
        load_items(path)


def test_the_hash_names_what_is_asked(tmp_path: Path) -> None:
    """A new label, id, group or score asks the same; another prompt, choice, length or stop asks something else."""
    base = CHOICES | {"answer": "red"}
    same = [
        base | {"answer": "blue"},
        base | {"id": "z", "group": "g"},
        base | {"score": {"kind": "multiple_choice", "length": "byte"}},
    ]
    other = [
        base | {"prompt": "Which one?"},
        base | {"choices": ["red", "blue", "grey"]},
        base | {"max_tokens": 3},
        base | {"stop": "x"},
        base | {"score": "exact"},
    ]
    asked = item_hash(one(tmp_path, base))

    assert {item_hash(one(tmp_path, row)) for row in same} == {asked}
    assert len({asked} | {item_hash(one(tmp_path, row)) for row in other}) == 1 + len(other)


def test_the_hash_never_changes(tmp_path: Path) -> None:
    """Answers files of earlier versions are found again: the hash of a known item, worked out from the documented text."""
    text = '{"choices":null,"max_tokens":null,"messages":[],"prompt":"价?","stop":[]}'

    assert item_hash(one(tmp_path, GOOD | {"prompt": "价?"})) == hashlib.sha256(text.encode()).hexdigest()
    assert canonical_json({"b": 1, "a": [1.5, "é"]}) == '{"a":[1.5,"é"],"b":1}'


@pytest.mark.parametrize(
    ("name", "count", "kinds"),
    [
        ("choices", 60, {ScoreKind.MULTIPLE_CHOICE}),
        ("json", 40, {ScoreKind.JSON}),
        ("number", 40, {ScoreKind.NUMBER}),
        ("chinese", 24, {ScoreKind.MULTIPLE_CHOICE, ScoreKind.NUMBER, ScoreKind.CONTAINS}),
    ],
)
def test_the_example_sets(name: str, count: int, kinds: set[ScoreKind]) -> None:
    """The shipped sets are whole, labelled, all different, and of the kinds that their names say."""
    found = load_items(ROOT / "examples" / "items" / f"{name}.jsonl")

    assert len(found.items) == count
    assert {item.rule.kind for item in found.items} == kinds
    assert found.notes == ()


def test_the_example_sets_are_what_the_script_makes(tmp_path: Path) -> None:
    """benchmarks/make_items.py makes the shipped files again, byte for byte, and as many items as are wanted."""
    script = ROOT / "benchmarks" / "make_items.py"
    subprocess.run([sys.executable, script, "--out", tmp_path], check=True, capture_output=True)
    many = tmp_path / "many.jsonl"
    subprocess.run([sys.executable, script, "--choices", "1000", "--out", many], check=True, capture_output=True)

    for path in (ROOT / "examples" / "items").glob("*.jsonl"):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    assert len({item_hash(item) for item in load_items(many).items}) == 1000


def test_the_lines_in_the_documentation_are_items(tmp_path: Path) -> None:
    """Each example in docs/items.md is an item as it stands, and together they show every kind of score."""
    text = (ROOT / "docs" / "items.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in text.split("```jsonl\n")[1:]]

    found = load_items(items_file(tmp_path, *[line for block in blocks for line in block.splitlines()]))

    assert {item.rule.kind for item in found.items} == set(ScoreKind)
