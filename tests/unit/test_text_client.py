"""The client of text sessions and the worker's operations, with the fake instead of llama.cpp between them, through real messages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from suffice.errors import EngineError
from suffice.measure.engine import protocol, text_block
from suffice.measure.engine.fake_text import FakeTextEngine, _FakeStepper
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.engine.text_block import SharedBlock
from suffice.measure.engine.text_client import LlamaCppTextClient
from suffice.measure.engine.text_plan import Limits, Part
from suffice.measure.engine.text_seam import ChoiceQuestion, Prompt, TextAnswer, TextFacts
from suffice.measure.engine.text_worker import TextOperations
from suffice.measure.engine.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from suffice.measure.engine.binding import Binding

SETTINGS = EngineSettings(n_ctx=80, n_threads=1, n_threads_batch=1, n_sequences=2, n_batch=16, n_ubatch=16)


class FakeInside(_FakeStepper):
    """What the worker's operations see of a model: the fake instead of llama.cpp."""

    rows_per_block = 5

    def __init__(self, binding: Binding, model: Path, settings: EngineSettings) -> None:
        del binding  # the fake needs no library
        self.session = FakeTextEngine().open_text(model, settings)
        self.text_facts: TextFacts = self.session.facts
        self.depth: list[int] = []
        super().__init__(self.session)

    def resize(self, n_ctx: int, slots: int) -> None:
        """The fake's."""
        self.session.resize(n_ctx, slots)
        self.text_facts = self.session.facts
        super().__init__(self.session)

    def limits(self) -> Limits:
        """Small packs, so that there are several."""
        return Limits(context=80, batch=16, cells=96, sequences=3)

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        """The fake's."""
        return self.session.tokenize(text, add_special=add_special, parse_special=parse_special)

    def text_of(self, tokens: Sequence[int], *, special: bool) -> str:
        """The fake's."""
        return self.session.text_of(tokens, special=special)

    def choice_logprobs(self, pack: list[Part]) -> list[list[tuple[float, ...]]]:
        """The fake's, part by part."""
        questions = [ChoiceQuestion(prefix=part.prefix, choices=part.choices) for part in pack]
        return [list(found) for found in self.session.choice_logprobs(questions)]

    def logits_begin(self) -> None:
        """Forget the text."""
        self.depth = []

    def logits_of(self, tokens: list[int], target: int | None) -> None:
        """Write the rows where they are wanted, as the real one does: by address."""
        import ctypes  # noqa: PLC0415 - only here

        for place, token in enumerate(tokens):
            self.depth.append(token)
            if target is not None:
                raw = self.session.row(self.depth, ()).tobytes()
                ctypes.memmove(target + place * len(raw), raw, len(raw))


class StubProcess:
    """A worker's process that is none: every message is written and read as lines, and answered here."""

    def __init__(self) -> None:
        self.operations = TextOperations(lambda: None).table()  # type: ignore[arg-type, return-value]
        self.asked: list[str] = []

    def ask(self, operation: str, arguments: dict[str, Any], timeout_s: float) -> Any:  # noqa: ANN401 - JSON
        """A request and its reply."""
        assert timeout_s > 0
        self.asked.append(operation)
        name, given = protocol.parse_request(protocol.request_line(operation, arguments))
        try:
            line = protocol.result_line(self.operations[name](given))
        except EngineError as error:
            line = protocol.error_line(error)
        return protocol.parse_reply(line)

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> StubProcess:
    """The process, with the fake in place of llama.cpp."""
    monkeypatch.setattr("suffice.measure.engine.text_worker.LlamaCppText", FakeInside)
    return StubProcess()


@pytest.fixture
def client(process: StubProcess) -> Iterator[LlamaCppTextClient]:
    """A client of it."""
    arguments = {"model": "m.gguf", "settings": protocol.settings_to_json(SETTINGS)}
    opened = process.ask("text_open", arguments, 1.0)
    with LlamaCppTextClient(process, opened, 1.0) as made:  # type: ignore[arg-type]
        yield made


def fake() -> Any:  # noqa: ANN401 - the fake itself
    """The same model, asked directly."""
    return FakeTextEngine().open_text(Path("m.gguf"), SETTINGS)


def test_facts_and_tokens_pass_through(client: LlamaCppTextClient) -> None:
    """What the worker knows arrives as it is, tuples and all."""
    assert client.facts == fake().facts
    assert client.tokenize("é", add_special=True, parse_special=False) == (256, 0xC3, 0xA9)
    assert client.text_of((256, 97), special=True) == "<|bos|>a"


def test_a_session_is_resized(client: LlamaCppTextClient) -> None:
    """Facts tell the new room, which is then there."""
    prompt = Prompt(tokens=(40,) * 100, max_tokens=2)
    with pytest.raises(EngineError, match="prompt 0 has 100 tokens"):
        list(client.answers([prompt]))
    client.resize(200, 5)
    assert (client.facts.n_ctx, client.facts.slots) == (200, 5)
    assert len(list(client.answers([prompt] * 7))) == 7
    with pytest.raises(EngineError, match="no session of 0 slots"):
        client.resize(200, 0)


def test_answers_are_those_of_the_model(client: LlamaCppTextClient, process: StubProcess) -> None:
    """Every prompt of nine, with its stop text and length; the worker holds only a few at a time."""
    held: list[int] = []
    prompts = [Prompt(tokens=(40 + number, 41), max_tokens=3 + number, stops=("e",)) for number in range(9)]

    def feed() -> Iterator[Prompt]:
        for number, prompt in enumerate(prompts):
            held.append(number)
            yield prompt

    stream = client.answers(feed())
    first = next(stream)
    assert len(held) == 6  # two slots, and two that wait for each
    found = {answer.index: answer for answer in (first, *stream)}
    assert found == {answer.index: answer for answer in fake().answers(prompts)}
    assert process.asked.count("answers_begin") == 1


def test_a_refused_prompt_comes_after_the_answers_before_it(client: LlamaCppTextClient) -> None:
    """And its number is that of the caller's."""
    good, long = Prompt(tokens=(40,), max_tokens=2), Prompt(tokens=(40,) * 80, max_tokens=2)
    found: list[TextAnswer] = []
    with pytest.raises(EngineError, match="prompt 3 has 80 tokens"):
        found.extend(client.answers([good, good, good, long, good]))
    assert sorted(answer.index for answer in found) == [0, 1, 2]


def test_choices_in_parts_and_packs_come_back_in_order(client: LlamaCppTextClient, process: StubProcess) -> None:
    """Questions of one to seven choices, three sequences at a time: one tuple a question, one a choice, one number a token."""
    questions = [
        ChoiceQuestion(prefix=(50,) * (1 + number), choices=tuple((60 + place, 61) for place in range(1 + number)))
        for number in range(7)
    ]
    found = list(client.choice_logprobs(questions))
    wanted = list(fake().choice_logprobs(questions))
    assert [len(choices) for choices in found] == list(range(1, 8))
    assert found == wanted
    assert process.asked.count("choice_logprobs") > 5


def test_a_refused_question_comes_after_those_before_it(client: LlamaCppTextClient) -> None:
    """All good ones are answered first."""
    good, bad = ChoiceQuestion(prefix=(5,), choices=((6,),)), ChoiceQuestion(prefix=(5,), choices=((),))
    found: list[tuple[tuple[float, ...], ...]] = []
    with pytest.raises(EngineError, match="question 2"):
        found.extend(client.choice_logprobs([good, good, bad]))
    assert len(found) == 2


@pytest.mark.parametrize("first", [0, 1, 16, 22])
def test_logits_are_streamed_through_shared_memory(client: LlamaCppTextClient, first: int) -> None:
    """Blocks of at most five rows, bit for bit those of the model, from any position on, and twice in a row."""
    tokens = tuple(range(30, 53))
    for _ in range(2):
        rows = [(block.first_position, block.rows.copy()) for block in client.logits(tokens, first_position=first)]
        assert [position for position, _ in rows] == list(range(first, 23, 5))
        wanted = np.concatenate([block.rows for block in fake().logits(tokens, first_position=first)])
        np.testing.assert_array_equal(np.concatenate([block for _, block in rows]), wanted)
    with pytest.raises(EngineError, match="not possible"):
        client.logits(tokens, first_position=23)


def test_the_shared_file_has_no_name_once_both_have_it(client: LlamaCppTextClient) -> None:
    """Whoever is killed after that leaves nothing behind."""
    before = set(Path("/dev/shm").glob("suffice-logits-*"))  # noqa: S108 - where it would be
    next(client.logits((1, 2)))
    assert set(Path("/dev/shm").glob("suffice-logits-*")) <= before  # noqa: S108


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_without_room_in_memory_the_temporary_folder_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A full memory folder is noticed before anything is written, and a full disk is one sentence."""
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    monkeypatch.setattr(text_block, "_MEMORY_FOLDER", memory)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(disk))
    full = {str(memory)}

    def reserve(descriptor: int, n_bytes: int) -> None:
        if str(Path(f"/proc/self/fd/{descriptor}").readlink().parent) in full:
            raise OSError(28, "No space left on device")
        os.ftruncate(descriptor, n_bytes)

    monkeypatch.setattr(text_block, "_reserve", reserve)
    block = SharedBlock(2, 3)
    assert block.path.parent == disk
    assert block.rows.shape == (2, 3)
    block.unlink()
    full.add(str(disk))
    with pytest.raises(EngineError, match="no room for 24 bytes of logits"):
        SharedBlock(2, 3)
    assert not list(memory.iterdir())
    assert not list(disk.iterdir())


def test_operations_need_a_model_and_open_one_only(process: StubProcess) -> None:
    """Out of order, each is one sentence."""
    for operation, arguments in (
        ("tokenize", {"text": "a", "add_special": True, "parse_special": True}),
        ("answers_begin", {}),
        ("answers_advance", {"prompts": []}),
        ("choice_logprobs", {"pack": []}),
        ("logits_next", {"tokens": [1], "wanted": True}),
    ):
        with pytest.raises(EngineError, match=r"no model is open|not begun"):
            process.ask(operation, arguments, 1.0)
    model = {"model": "m.gguf", "settings": protocol.settings_to_json(SETTINGS)}
    process.ask("text_open", model, 1.0)
    with pytest.raises(EngineError, match="one model only"):
        process.ask("text_open", model, 1.0)
    with pytest.raises(EngineError, match="no memory for logits"):
        process.ask("logits_next", {"tokens": [1], "wanted": True}, 1.0)
    with pytest.raises(EngineError, match="cannot share memory"):
        process.ask("logits_map", {"path": "/nowhere/at/all", "n_bytes": 8}, 1.0)


def test_a_worker_learns_texts_when_it_is_asked_for_one() -> None:
    """Starting a worker imports nothing of text sessions, and what it is asked later goes to one and the same session."""
    code = "import sys, suffice.measure.engine.worker as w; w.Worker(); print('suffice.measure.engine.text_worker' in sys.modules)"
    found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    worker = Worker()
    line = protocol.request_line("answers_begin", {})

    assert found.stdout.strip() == "False"
    for _ in range(2):
        with pytest.raises(EngineError, match="no model is open"):
            protocol.parse_reply(worker.answer(line))
    with pytest.raises(EngineError, match="cannot 'dance'"):
        protocol.parse_reply(worker.answer(protocol.request_line("dance", {})))


def test_the_workers_table_has_them() -> None:
    """The real worker knows the operations; without a library it says so."""
    line = protocol.request_line("text_open", {"model": "m", "settings": protocol.settings_to_json(SETTINGS)})
    with pytest.raises(EngineError, match="no library is loaded"):
        protocol.parse_reply(Worker().answer(line))
