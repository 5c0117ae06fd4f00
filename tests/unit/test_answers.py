"""Answers files: kept one by one, found again after a kill, never mixed."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from suffice.errors import OutputError, RecordError
from suffice.loaders.answers import AnswersHeader, AnswerStore, answers_header, answers_path, read_answers
from suffice.model.answers import Answer, ChoiceLogprob, FinishReason, Scored, pair_scores
from suffice.model.scoring import Score

if TYPE_CHECKING:
    from pathlib import Path

HEADER = answers_header(model_hash="abc", model="m-q4_k_m.gguf", settings={"seed": 1, "template": "chatml"})
FULL = Answer(
    item_id="ä 1",
    item_hash="h1",
    text='line\n"价"',
    finish=FinishReason.STOP,
    tokens=3,
    prompt_tokens=12,
    choices=(ChoiceLogprob(total=-0.1 - 1e-17, tokens=2), ChoiceLogprob(total=-math.inf)),
    time_s=0.1 + 0.2,
)
FAILED = Answer(item_id="b", item_hash="h2", error="the server closed the connection")


def plain(number: int) -> Answer:
    """An answer with a number."""
    return Answer(item_id=str(number), item_hash=f"h{number}", text=f"text {number}")


def filled(path: Path, *answers: Answer) -> Path:
    """A file with these answers."""
    with AnswerStore(path, HEADER) as store:
        for answer in answers:
            store.append(answer)
    return path


def test_answers_come_back_as_they_were(tmp_path: Path) -> None:
    """Every field, every character and every bit of a number, minus infinity among them; half a character cannot."""
    half = replace(FULL, item_hash="h3", text="😀 \ud83d")
    path = filled(tmp_path / "sub" / "a.jsonl", FULL, FAILED, half)

    found = read_answers(path)

    assert found.answers == (FULL, FAILED, replace(half, text="😀 \ufffd"))
    assert found.header == HEADER
    assert found.notes == ()


def test_what_is_kept_in_memory_is_what_is_on_disk(tmp_path: Path) -> None:
    """Half characters and counts beyond any are replaced in both, so that nobody meets them before a run goes on, and not after."""
    path = tmp_path / "a.jsonl"
    with AnswerStore(path, HEADER) as store:
        store.append(replace(FULL, text="\ud800\ud83d\ude00", tokens=10**15, prompt_tokens=-1))
        (kept,) = store.done.values()

    assert (kept.text, kept.tokens, kept.prompt_tokens) == ("\ufffd😀", None, None)
    assert read_answers(path).answers == (kept,)


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """The answers that are there are known by what was asked; an error is none, so that the item is asked again."""
    path = filled(tmp_path / "a.jsonl", FULL, FAILED)

    with AnswerStore(path, HEADER) as store:
        assert store.done == {"h1": FULL}
        store.append(replace(FAILED, error=None, text="now"))
        assert set(store.done) == {"h1", "h2"}
    assert read_answers(path).by_hash()["h2"].text == "now"


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_torn_last_line_is_left_out_and_cut_off(tmp_path: Path, cut: int) -> None:
    """Whatever part of the last line a kill left, the answers before it stay, and the next one starts a line of its own."""
    path = filled(tmp_path / "a.jsonl", plain(1), plain(2))
    path.write_bytes(path.read_bytes()[:-cut])

    found = read_answers(path)
    with AnswerStore(path, HEADER) as store:
        assert set(store.done) == {"h1"}
        assert "cut off" in store.notes[0]
        store.append(plain(2))

    assert found.answers == (plain(1),)
    assert "line 3 was cut off" in found.notes[0]
    assert read_answers(path).answers == (plain(1), plain(2))


def test_a_torn_first_line_starts_the_file_again(tmp_path: Path) -> None:
    """A run that was killed at once left nothing that could be lost."""
    path = filled(tmp_path / "a.jsonl")
    whole = path.read_bytes()
    for length in (0, 1, 20, len(whole) - 1):
        path.write_bytes(whole[:length])
        filled(path, FULL)
        assert read_answers(path).answers == (FULL,)


def test_a_killed_process_loses_no_answer(tmp_path: Path) -> None:
    """After SIGKILL in the middle of writing, every answer whose append had returned is in the file."""
    path = tmp_path / "a.jsonl"
    script = (
        "import sys; from pathlib import Path\n"
        "from suffice.loaders.answers import AnswerStore, answers_header\n"
        "from suffice.model.answers import Answer\n"
        "store = AnswerStore(Path(sys.argv[1]), answers_header(model_hash='abc', model='m', settings={}))\n"
        "for n in range(10**9):\n"
        "    store.append(Answer(item_id=str(n), item_hash=str(n), text='x' * 50)); print(n, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(100):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        last = max([last, *(int(line) for line in process.stdout if line.endswith("\n"))])

    kept = [answer.item_id for answer in read_answers(path).answers]
    assert kept == [str(n) for n in range(len(kept))]
    assert len(kept) > last


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (
            answers_header(model_hash="other", model="m-q8_0.gguf", settings={"seed": 1, "template": "chatml"}),
            "holds answers of 'm-q4_k_m.gguf', whose file is not the one of 'm-q8_0.gguf'",
        ),
        (
            answers_header(model_hash="abc", model="renamed.gguf", settings={"seed": 2, "template": "chatml"}),
            r"holds answers with other settings \(seed 1 there, 2 now\)",
        ),
    ],
)
def test_answers_are_never_mixed(tmp_path: Path, header: AnswersHeader, said: str) -> None:
    """Another model or other settings are refused with what differs, and the file stays as it was."""
    path = filled(tmp_path / "a.jsonl", FULL)
    before = path.read_bytes()

    with pytest.raises(RecordError, match=said):
        AnswerStore(path, header)

    assert path.read_bytes() == before


def test_a_renamed_model_is_the_same_model(tmp_path: Path) -> None:
    """The hash says which model it is, not its name."""
    path = filled(tmp_path / "a.jsonl", FULL)
    with AnswerStore(path, replace(HEADER, model="renamed.gguf")) as store:
        assert set(store.done) == {"h1"}


@pytest.mark.parametrize(
    "content", [b'{"id": "a", "prompt": "x"}', b'{"id": "a"}\n{"id"', b"notes of mine", b"\n\nx", b"\x00" * 50]
)
def test_somebody_elses_file_is_never_touched(tmp_path: Path, content: bytes) -> None:
    """A file that is no answers file is refused before a byte of it is cut, with or without a last line end."""
    path = tmp_path / "mine.jsonl"
    path.write_bytes(content)

    with pytest.raises(RecordError):
        AnswerStore(path, HEADER)

    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: not JSON"),
        ('{"item_id": "a"}', "line 2: 'item_hash' is missing"),
        ('{"item_id": "a", "item_hash": "h", "tokens": -1}', "'tokens' is -1, not a count"),
        ('{"item_id": "a", "item_hash": "h", "text": 3}', "'text' is 3, not a text"),
        ('{"item_id": "a", "item_hash": "h", "finish": "x"}', "'finish' is 'x', not one of stop"),
        ('{"item_id": "a", "item_hash": "h", "choices": [[-1]]}', "not a list of pairs"),
        ('{"item_id": "a", "item_hash": "h", "time_s": true}', "not a number of seconds"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    """A line in the middle that is no answer is an error with its number: nothing is dropped in silence."""
    path = filled(tmp_path / "a.jsonl")
    path.write_text(path.read_text() + line + "\n", encoding="utf-8")

    with pytest.raises(RecordError) as caught:
        read_answers(path)

    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ('{"id": 1}', "no 'answers_schema_version'"),
        ('{"answers_schema_version": 2}', "answers version 2; this suffice reads 1"),
        ('{"answers_schema_version": 1}', "lacks 'model_hash'"),
    ],
)
def test_a_first_line_that_is_no_header(tmp_path: Path, first: str, said: str) -> None:
    """A foreign file and one of a later version are told apart."""
    path = tmp_path / "a.jsonl"
    path.write_text(first + "\n", encoding="utf-8")

    with pytest.raises(RecordError, match=said):
        read_answers(path)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    """A second one is refused while the first has the file open, and welcome after."""
    path = tmp_path / "a.jsonl"
    with AnswerStore(path, HEADER), pytest.raises(OutputError, match="another run has it open"):
        AnswerStore(path, HEADER)
    AnswerStore(path, HEADER).close()


def test_slots_share_a_store(tmp_path: Path) -> None:
    """Threads may append at the same time: each answer is a line of its own."""
    path = tmp_path / "a.jsonl"
    with AnswerStore(path, HEADER) as store:

        def fill(first: int) -> None:
            for number in range(first, first + 50):
                store.append(plain(number))

        threads = [threading.Thread(target=fill, args=(first,)) for first in (0, 1000, 2000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(read_answers(path).by_hash()) == 150


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file, and no half of an answer stays behind."""
    path = tmp_path / "a.jsonl"
    store = AnswerStore(path, HEADER)
    store.append(plain(1))
    before = path.read_bytes()

    class Full:
        """A file on a full disk: some bytes still fit."""

        closed = False

        def __init__(self) -> None:
            self.left = 10

        def write(self, data: bytes) -> int:
            if not self.left:
                raise OSError(28, "No space left on device")
            written, self.left = os.write(store_fd, data[: self.left]), 0
            return written

        def seek(self, offset: int, whence: int = 0) -> int:
            return os.lseek(store_fd, offset, whence)

        def fileno(self) -> int:
            return store_fd

    with store._file as real:
        store_fd = real.fileno()
        monkeypatch.setattr(store, "_file", Full())
        with pytest.raises(OutputError, match="No space left on device"):
            store.append(plain(2))

    assert path.read_bytes() == before


def test_a_log_probability_that_is_none(tmp_path: Path) -> None:
    """NaN is refused when it is written, not found later."""
    with AnswerStore(tmp_path / "a.jsonl", HEADER) as store, pytest.raises(RecordError, match="is nan"):
        store.append(replace(FULL, choices=(ChoiceLogprob(total=math.nan),)))


def test_places_of_answers(tmp_path: Path) -> None:
    """Each model and each set of settings has a file of its own; the order of settings does not matter."""
    same = answers_header(model_hash="abc", model="x", settings={"template": "chatml", "seed": 1})
    others = [
        answers_header(model_hash="abd", model="x", settings={"template": "chatml", "seed": 1}),
        answers_header(model_hash="abc", model="x", settings={"template": "chatml", "seed": 2}),
    ]

    assert answers_path(tmp_path, same) == answers_path(tmp_path, HEADER)
    assert len({answers_path(tmp_path, header) for header in [HEADER, *others]}) == 3


def scored(item_id: str, value: float | None, item_hash: str = "h") -> Scored:
    """A score of an item."""
    return Scored(item_id=item_id, item_hash=item_hash, cluster=f"item {item_id}", score=Score(value=value))


def test_pairs_of_two_models() -> None:
    """Pairs are of the items that both scored; others are named, and flips are the pairs that differ."""
    reference = [scored("a", 1), scored("b", 0), scored("c", 1), scored("d", None), scored("e", 1)]
    candidate = [scored("d", 1), scored("c", 0), scored("b", 0), scored("a", 1), scored("f", 1)]

    pairing = pair_scores(reference, candidate)

    assert pairing.reference == (1, 0, 1)
    assert pairing.candidate == (1, 0, 0)
    assert pairing.clusters == ("item a", "item b", "item c")
    assert pairing.unscored == ("d",)
    assert pairing.unpaired == ("e", "f")
    assert [first.item_id for first, _ in pairing.flips] == ["c"]
    assert pairing.is_binary
    assert not pair_scores([scored("a", 0.5)], [scored("a", 1)]).is_binary


def test_pairs_of_different_questions_are_refused() -> None:
    """One id for two questions, or twice in one model, is no pair."""
    with pytest.raises(RecordError, match="not the same question"):
        pair_scores([scored("a", 1)], [scored("a", 1, "other")])
    with pytest.raises(RecordError, match="stands twice in the scores of the candidate"):
        pair_scores([scored("a", 1)], [scored("a", 1), scored("a", 0)])
