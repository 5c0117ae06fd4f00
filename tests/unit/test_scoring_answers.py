"""From a model's answers to scores: Unicode, JSON in texts, patterns that never end, functions of the user's."""

from __future__ import annotations

import os
import signal
import sys
import threading
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest

from suffice.errors import UsageError
from suffice.loaders.item_fields import item_from
from suffice.loaders.item_functions import ChildFunction, load_functions
from suffice.loaders.items import item_hash
from suffice.loaders.pattern_search import PatternSearch, PatternTimeoutError
from suffice.loaders.scores import MAX_ANSWER_CHARACTERS, Scorer, first_object, score_answers
from suffice.model.answers import Answer, ChoiceLogprob

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.model.items import Item
    from suffice.model.scoring import Score

ENDLESS = r"(a+)+$"
ENDLESS_TEXT = "a" * 60 + "b"


def item(**fields: Any) -> Item:  # noqa: ANN401  # fields of a JSON object
    """An item of these fields."""
    return item_from({"id": "q", "prompt": "?"} | fields, 1)


def score(text: str, **fields: Any) -> Score:  # noqa: ANN401  # as above
    """The score of a text by an item of these fields."""
    with Scorer() as scorer:
        return scorer.score_text(item(**fields), text)


def answer(asked: Item, text: str | None = None, **fields: Any) -> Answer:  # noqa: ANN401  # as above
    """An answer to an item."""
    return Answer(item_id=asked.id, item_hash=item_hash(asked), text=text, **fields)


@pytest.mark.parametrize(
    ("fields", "right", "wrong"),
    [
        ({"answer": "yes"}, " yes\n", "yes!"),
        ({"answer": "yes", "score": {"kind": "exact", "ignore_case": True}}, "YES", "no"),
        ({"answer": "art", "score": "contains"}, "heart", "head"),
        ({"answer": 12.5, "score": "number"}, "It is 12.50.", "It is 12.6."),
        ({"answer": {"a": 1}, "score": "json"}, 'Sure: {"a": 1}', '{"a": 2}'),
        ({"answer": "B", "score": {"kind": "regex", "pattern": "is ([A-D])"}}, "It is B", "It is C"),
        ({"score": {"kind": "regex", "pattern": "^ok"}}, "ok then", "not ok"),
        ({"choices": ["cat", "dog"], "answer": "dog"}, "The answer is (B).", "The answer is (A)."),
    ],
)
def test_each_kind_from_the_file_to_the_score(fields: dict[str, Any], right: str, wrong: str) -> None:
    """An item as it is written in a file, a right answer and a wrong one."""
    assert score(right, **fields).value == 1
    assert score(wrong, **fields).value == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"answer": "Ångström é"},
        {"answer": "Ångström é", "score": "contains"},
        {"answer": "Ångström é", "score": {"kind": "regex", "pattern": ".*"}},
    ],
)
def test_the_same_text_in_another_unicode_form(fields: dict[str, Any]) -> None:
    """Letters with their accents apart (NFD) are the same letters, in the item or in the answer."""
    apart = unicodedata.normalize("NFD", fields["answer"])

    assert apart != fields["answer"]
    assert score(apart, **fields).value == 1
    assert score(fields["answer"], **(fields | {"answer": apart})).value == 1


def test_unicode_forms_in_json_even_when_escaped() -> None:
    """Names and values are compared composed, also where the model wrote escapes."""
    assert score('{"n\\u0065\\u0301": "e\\u0301"}', answer={"né": "é"}, score="json").value == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Here:\n```json\n{"a": {"b": [1]}}\n```\nDone {"c": 2}', {"a": {"b": [1]}}),
        ('Use {x} and f(){return}: {"a": 1}', {"a": 1}),
        ('[{"a": 1}]', {"a": 1}),
        ('{"a": 1', None),
        ("{'a': 1}", None),
        ("[1, 2]", None),
        ("", None),
        ("{" * 100_000, None),
        ('{"a":' * 20_000, None),
        ('{"a": %s}' % ("9" * 5000), None),
    ],
)
def test_the_first_object_of_a_text(text: str, found: object) -> None:
    """Alone, between words, in a fence; half an object and objects of other languages are none, however many braces there are."""
    assert first_object(text) == found


def test_a_pattern_that_never_ends_is_stopped() -> None:
    """It is not scorable, and says so; the next pattern is searched for by a new process."""
    endless = item(answer="x", score={"kind": "regex", "pattern": ENDLESS})
    good = item(answer="b", score={"kind": "regex", "pattern": "b"})

    with Scorer(pattern_limit_s=0.3) as scorer:
        stopped = scorer.score_text(endless, ENDLESS_TEXT)
        after = scorer.score_text(good, ENDLESS_TEXT)

    assert (stopped.value, stopped.reason) == (None, "the pattern took longer than 0.3 s on this answer")
    assert after.value == 1


def test_one_process_searches_for_all_patterns() -> None:
    """It is started once, takes any text, and is gone when the search is closed."""
    with PatternSearch() as search:
        assert search.find("é(.)", 'line\n"é😀"') == "😀"
        first = search._child
        assert search.find("x", "y") is None
        assert search._child is first
        assert first is not None
    assert not first.is_running


def test_files_of_the_current_folder_do_not_disturb_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's json.py where suffice is run is not taken for Python's own."""
    (tmp_path / "json.py").write_text("raise SystemExit", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    with PatternSearch() as search:
        assert search.find("b", "abc") == "b"


def test_a_search_that_took_too_long_is_an_error_of_its_own() -> None:
    """So that it is told from a child that could not be started."""
    with PatternSearch(0.2) as search, pytest.raises(PatternTimeoutError):
        search.find(ENDLESS, ENDLESS_TEXT)


def test_what_is_not_scored() -> None:
    """No answer, a failed one, no label and a text beyond the limit have no score, and each says why."""
    labelled, bare, number = item(answer="x"), item(), item(answer=1, score="number")
    with Scorer() as scorer:
        assert scorer.score(labelled, None).reason == "there is no answer"
        assert scorer.score(labelled, answer(labelled, error="time-out")).reason == "there is no answer: time-out"
        assert scorer.score(labelled, answer(labelled)).reason == "there is no answer"
        assert scorer.score(bare, answer(bare, "x")).reason == "the item has no answer to compare with"
        long = scorer.score(number, answer(number, "1" * (MAX_ANSWER_CHARACTERS + 1)))
        assert (long.value, long.reason) == (None, "the answer has 100001 characters, more than 100000")
        assert scorer.score(labelled, answer(labelled, "y" * 200_000)).value == 0


def test_choices_by_log_probability_before_text() -> None:
    """Where a model weighed the choices, they decide; where it wrote a text, the text does."""
    asked = item(choices=["cat", "dog"], answer="dog")
    weighed = (ChoiceLogprob(total=-3.0, tokens=1), ChoiceLogprob(total=-1.0, tokens=1))
    with Scorer() as scorer:
        assert scorer.score(asked, answer(asked, "A", choices=weighed)).value == 1
        assert scorer.score(asked, answer(asked, "A")).value == 0


def test_scores_of_a_model_in_the_order_of_its_items() -> None:
    """Answers are found by what was asked; an item without one stands there unscored, in its cluster."""
    first, second = item(answer="x", group="doc"), item(id="r", prompt="other", answer="y")
    with Scorer() as scorer:
        scored = score_answers([first, second], {item_hash(first): answer(first, "x")}, scorer)

    assert [(one.item_id, one.cluster, one.score.value, one.text) for one in scored] == [
        ("q", "group doc", 1.0, "x"),
        ("r", "item r", None, None),
    ]


FUNCTIONS = """
import os
import sys
import time
print("imported")
calls = []
def length(text, item):
    calls.append(text)
    return min(1, len(text) / item["answer"]["of"])
def fails(text, item):
    raise KeyError("no such thing")
def leaves(text, item):
    raise SystemExit(3)
def interrupted(text, item):
    raise KeyboardInterrupt
def strange(text, item):
    return "good"
def too_much(text, item):
    return 2
def no_number(text, item):
    return float("nan")
def flag(text, item):
    item.clear()
    return text == "abc"
def ends(text, item):
    os._exit(0)
def dies(text, item):
    os.abort()
def endless(text, item):
    while text != "quick":
        pass
    return 1
def prints(text, item):
    print("hello")
    os.write(1, b"again")
    return sys.stdin.read() == ""
def halves(text, item):
    raise ValueError("\\ud800")
class Mute(Exception):
    def __str__(self):
        raise ValueError("nothing to say")
def mute(text, item):
    raise Mute
class Scalar:
    def item(self):
        return 0.5
def scalar(text, item):
    return Scalar()
def forks(text, item):
    if os.fork() == 0:
        time.sleep(100)
    os._exit(1)
number = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with modules of score functions."""
    (tmp_path / "own.py").write_text(FUNCTIONS, encoding="utf-8")
    (tmp_path / "broken.py").write_text("def x(:\n", encoding="utf-8")
    (tmp_path / "leaving.py").write_text("import os\nos._exit(0)\n", encoding="utf-8")
    return tmp_path


def scored_by(name: str) -> Item:
    """An item that is scored by a function of the module."""
    return item(answer={"of": 4}, score=f"own:{name}")


def function_scores(folder: Path, name: str, *texts: str, limit_s: float = 20.0) -> list[Score]:
    """The scores of texts by a function of the module."""
    asked = scored_by(name)
    with Scorer(functions=load_functions([asked], folder=folder, limit_s=limit_s)) as scorer:
        return [scorer.score_text(asked, text) for text in texts]


def test_functions_score(folder: Path) -> None:
    """They get the text and the item's fields, and return a number, a flag or what NumPy has for one; our path and modules stay as they are."""
    before = list(sys.path)

    assert [one.value for one in function_scores(folder, "length", "abc", "abcd", "")] == [0.75, 1, 0]
    assert function_scores(folder, "flag", "abc")[0].value == 1
    assert function_scores(folder, "scalar", "abc")[0].value == 0.5
    assert sys.path == before
    assert "own" not in sys.modules


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fails", "raised KeyError: 'no such thing'"),
        ("leaves", "raised SystemExit: 3"),
        ("interrupted", "raised KeyboardInterrupt"),
        ("strange", "returned 'good', not True, False or a number from 0 to 1"),
        ("too_much", "returned 2, not"),
        ("no_number", "returned nan, not"),
        ("mute", "raised Mute (whose message cannot be read)"),
        ("halves", "raised ValueError: \ufffd"),
        ("ends", "ended the process that it ran in: it ended with exit code 0"),
        ("dies", "ended the process that it ran in: it was ended by SIGABRT"),
    ],
)
def test_a_function_that_does_not_score(folder: Path, name: str, said: str) -> None:
    """Whatever it raises, returns or does to its process, the item is named and has no score; the run goes on."""
    first, second = function_scores(folder, name, "abc", "abc")

    assert first == second
    assert first.value is None
    assert str(first.reason).startswith(f"item q: own:{name} {said}")
    assert not str(first.reason).endswith(": ")


def test_a_function_that_never_ends_is_stopped(folder: Path) -> None:
    """After the limit; the answer has no score, and the next one is scored by a new process."""
    stopped, after = function_scores(folder, "endless", "abc", "quick", limit_s=0.3)

    assert (stopped.value, stopped.reason) == (None, "item q: own:endless took longer than 0.3 s, and was stopped")
    assert after.value == 1


def test_a_function_that_loses_every_process_is_not_called_for_ever(folder: Path) -> None:
    """After five processes in a row the rest has no score at once."""
    scores = function_scores(folder, "ends", *["abc"] * 7)

    assert [str(one.reason).endswith("was lost on 5 answers in a row") for one in scores] == [False] * 5 + [True] * 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_what_a_function_started_does_not_hold_us(folder: Path) -> None:
    """A process of its own that keeps our pipe open is ended with it."""
    (score,) = function_scores(folder, "forks", "abc", limit_s=0.5)

    assert score.value is None


def test_what_a_function_prints_is_no_output_of_ours(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It goes to stderr, from Python as from below it; and there is nothing for it to read."""
    (score,) = function_scores(folder, "prints", "abc")

    assert score.value == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert all(word in err for word in ("imported", "hello", "again"))


def test_ctrl_c_does_not_wait_for_a_function(folder: Path) -> None:
    """Whoever stops the run stops it, wherever it is, and no process is left."""
    asked = scored_by("endless")
    functions = load_functions([asked], folder=folder)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with Scorer(functions=functions) as scorer, pytest.raises(KeyboardInterrupt):
        scorer.score_text(asked, "abc")
    timer.join()
    (function,) = functions.values()
    assert isinstance(function, ChildFunction)
    assert function._host._child is None


def test_one_process_runs_all_functions(folder: Path) -> None:
    """It is started once for the answers of a model, and is gone when they are scored."""
    one, two = scored_by("length"), scored_by("flag")
    functions = load_functions([one, two], folder=folder)
    function = functions["own:length"]
    assert isinstance(function, ChildFunction)
    with Scorer(functions=functions) as scorer:
        children = set()
        for _ in range(3):
            assert scorer.score_text(one, "abcd").value == scorer.score_text(two, "abc").value == 1
            children.add(function._host._child)
        assert len(children) == 1
    assert not any(child is not None and child.is_running for child in children)


def test_a_function_that_was_not_loaded() -> None:
    """Reading items imports nothing: without being asked to, no code of the user's runs."""
    asked = item(score="antigravity:fly")
    with Scorer() as scorer:
        assert "was not loaded" in str(scorer.score_text(asked, "x").reason)
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module_of_mine:x", "ModuleNotFoundError"),
        ("own:no", "has no function no"),
        ("own:number", "has no function number"),
        ("broken:x", "SyntaxError"),
        ("leaving:x", "it ended the process that imported it: it ended with exit code 0"),
    ],
)
def test_a_function_that_cannot_be_found(folder: Path, name: str, said: str) -> None:
    """A clear message with the name, the place and the reason."""
    with pytest.raises(UsageError, match=r"the score function .* cannot be used") as caught:
        load_functions([item(answer=1, score=name)], folder=folder)

    assert said in str(caught.value)
