"""A model file that is asked, on the fake engine: tokens, room, slots, crashes, and what decides its answers."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.gguf_writer import ToyLlama, write_gguf
from suffice.errors import EngineError
from suffice.loaders.items import item_hash
from suffice.measure.engine.fake_text import FAKE_TEMPLATE, FakeModel, FakeTextEngine, FakeTextSession
from suffice.model.answers import FinishReason
from suffice.model.items import Item, Message, Role, ScoreKind, ScoreRule
from suffice.model.quants import Subject, SubjectKind
from suffice.quants.asking import outcomes_of
from suffice.quants.local import LocalRespondent
from suffice.quants.respondent import AskOptions
from suffice.quants.subjects import LocalModel, local_model
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from suffice.measure.engine.seam import EngineSettings
    from suffice.model.answers import Answer

CHOICE = ScoreRule(kind=ScoreKind.MULTIPLE_CHOICE)
OPTIONS = AskOptions(slots=2, max_tokens=8, threads=1)
PLANTED = {"capital of Italy": "Rome", "sky": "blue"}


def item(name: str, **fields: object) -> Item:
    """An item; what is not given does not matter."""
    rule = CHOICE if "choices" in fields else ScoreRule(kind=ScoreKind.EXACT)
    return Item(**{"id": name, "line": 1, "rule": rule, **fields})  # type: ignore[arg-type]


CAPITAL = item("capital", prompt="The capital of Italy:", answers=("Rome",))
CHAT = item("chat", messages=(Message(role=Role.USER, content="The capital of Italy?"),), answers=("Rome",))
SKY = item("sky", prompt="The sky is", choices=("red", "blue"), correct=(1,))


def model(name: str = "ref", template: str | None = FAKE_TEMPLATE) -> LocalModel:
    """A model file of the fake's, which need not exist."""
    subject = Subject(name=name, kind=SubjectKind.FILE, place=f"{name}.gguf", identity=name)
    return LocalModel(path=Path(f"{name}.gguf"), subject=subject, template=template)


def engine(**fields: object) -> FakeTextEngine:
    """The fake, with answers planted."""
    return FakeTextEngine(default=FakeModel(answers=PLANTED, **fields))  # type: ignore[arg-type]


def asked(respondent: LocalRespondent, items: Sequence[Item]) -> dict[str, Answer]:
    """The answers by the item's id."""
    return {answer.item_id: answer for answer in respondent.ask(items)}


def test_choices_are_weighed_and_prompts_answered() -> None:
    """A prompt goes on, a message goes through the template, and the likeliest choice has the largest sum."""
    items = (CAPITAL, CHAT, SKY)
    with LocalRespondent(engine(), model(), items, OPTIONS) as respondent:
        found = asked(respondent, items)

    assert found["capital"].text is not None
    assert found["capital"].text.strip() == "Rome"
    assert found["capital"].finish is FinishReason.STOP
    assert (
        found["chat"].prompt_tokens == len("<") - 1 + 1 + 1 + len("The capital of Italy?") + 1
    )  # BOS, user, text, assistant
    assert [choice.tokens for choice in found["sky"].choices] == [4, 5]
    assert found["sky"].choices[1].total > found["sky"].choices[0].total
    assert found["sky"].finish is FinishReason.CHOICES


def test_the_context_is_as_long_as_the_longest_item_needs() -> None:
    """300 tokens and an answer of 40 need two blocks of 256; the slots are those that were asked for."""
    items = (item("long", prompt="x" * 299, max_tokens=40), SKY)
    with LocalRespondent(engine(), model(), items, OPTIONS) as respondent:
        facts = respondent.session.facts

    assert (facts.n_ctx, facts.slots) == (512, 2)


def test_what_cannot_be_asked_is_an_error_of_that_item_alone() -> None:
    """A template that refuses, an empty choice prompt without a first token, and a text that is too long do not end the run."""
    refusing = "{{ raise_exception('no system message') if messages[0].role == 'system' }}" + FAKE_TEMPLATE
    system = (Message(role=Role.SYSTEM, content="Be brief."), Message(role=Role.USER, content="Hi"))
    items = (item("system", messages=system), item("empty", prompt=""), CAPITAL)
    with LocalRespondent(engine(adds_bos=False), model(template=refusing), items, OPTIONS) as respondent:
        found = asked(respondent, items)

    assert "no system message" in (found["system"].error or "")
    assert found["empty"].error == "the prompt is empty: it has no tokens"
    assert found["capital"].answered


def test_a_prompt_beyond_the_trained_context_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The context is never opened longer than the model was made for, and the message says by how much an item is too long."""
    _train_for(monkeypatch, 200)
    items = (item("long", prompt="x" * 299), item("choices", prompt="y" * 199, choices=("a", "b")), CAPITAL)
    with LocalRespondent(engine(), model(), items, OPTIONS) as respondent:
        found = asked(respondent, items)

    assert found["long"].error == "the prompt has 300 tokens, and the model's context has room for 200"
    assert found["choices"].error == "the prompt has 202 tokens, and the model's context has room for 200"
    assert found["capital"].answered


def test_a_prompt_that_is_far_too_long_is_not_made_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten million characters a beginning tells that they do not fit; a tokenizer would take minutes for all of them."""
    _train_for(monkeypatch, 200)
    lengths: list[int] = []
    tokenize = FakeTextSession.tokenize

    def watched(self: FakeTextSession, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        lengths.append(len(text))
        return tokenize(self, text, add_special=add_special, parse_special=parse_special)

    monkeypatch.setattr(FakeTextSession, "tokenize", watched)
    items = (
        item("long", prompt="x" * 10_000_000, choices=("a", "b")),
        item("chat", messages=(Message(role=Role.USER, content="y" * 9_999),)),
    )
    with LocalRespondent(engine(), model(), items, OPTIONS) as respondent:
        found = asked(respondent, items)

    assert {answer.error for answer in found.values()} == {
        "the prompt has more than the 200 tokens of the model's context"
    }
    assert max(lengths) == 1600


def _train_for(monkeypatch: pytest.MonkeyPatch, tokens: int) -> None:
    """Let the fake say that its models were made for so many tokens."""
    made = FakeTextSession.__init__

    def init(self: FakeTextSession, name: str, fake: FakeModel, settings: EngineSettings) -> None:
        made(self, name, fake, settings)
        self.facts = replace(self.facts, session=replace(self.facts.session, n_ctx_train=tokens))

    monkeypatch.setattr(FakeTextSession, "__init__", init)


def test_an_engine_that_dies_once_is_started_again() -> None:
    """What was answered before is kept, the rest is answered by the second process, and a note says so."""
    items = tuple(item(f"q{number}", prompt=f"Question {number}") for number in range(5))
    with LocalRespondent(engine(crash_after_requests=3), model(), items, OPTIONS) as respondent:
        found = asked(respondent, items)

    assert set(found) == {entry.id for entry in items}
    assert all(answer.answered for answer in found.values())
    assert any("was started again" in note and "SIGSEGV" in note for note in respondent.notes)


def test_an_engine_that_dies_again_leaves_errors() -> None:
    """After the second death every item that is left has the engine's words, and none is missing."""
    items = tuple(item(f"q{number}", prompt=f"Question {number}") for number in range(9))
    with LocalRespondent(engine(crash_after_requests=3), model(), items, OPTIONS) as respondent:
        found = asked(respondent, items)

    assert set(found) == {entry.id for entry in items}
    failed = [answer.error for answer in found.values() if not answer.answered]
    assert len(failed) == 3
    assert all("died of SIGSEGV" in (words or "") for words in failed)


def test_choices_are_the_same_when_a_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was answered before, the same questions are read together, so that rounding cannot tell two runs apart."""
    items = tuple(item(f"q{number}", prompt=f"Question {number}", choices=("a", "b")) for number in range(200))
    calls: list[int] = []
    weigh = FakeTextSession.choice_logprobs

    def counted(self: FakeTextSession, questions: Sequence[object]) -> object:
        kept = list(questions)
        calls.append(len(kept))
        return weigh(self, kept)  # type: ignore[arg-type]

    monkeypatch.setattr(FakeTextSession, "choice_logprobs", counted)
    with LocalRespondent(engine(), model(), items, OPTIONS) as respondent:
        whole = asked(respondent, items)
        rest = asked(respondent, items[150:])

    assert calls == [128, 72, 72]
    assert rest == {name: whole[name] for name in rest}
    assert len(rest) == 50


def test_candidates_with_the_same_vocabulary_get_the_references_tokens() -> None:
    """Their own template and first token do not matter then, which is noted; the settings are those of the tokens."""
    items = (CAPITAL, CHAT)
    with LocalRespondent(engine(), model(), items, OPTIONS) as reference:
        first = asked(reference, items)
        other = model("other", template="{{ messages[0].content }}")
        with LocalRespondent(engine(adds_bos=False), other, items, OPTIONS, book=reference.book) as candidate:
            second = asked(candidate, items)

            assert candidate.settings == reference.settings
            assert candidate.notes == ("its chat template is not that of ref, whose tokens it is asked",)
    assert [answer.prompt_tokens for answer in second.values()] == [answer.prompt_tokens for answer in first.values()]


def test_candidates_with_another_vocabulary_make_their_own_tokens() -> None:
    """They are asked the same texts by their own template, and a note says so."""
    items = (CHAT,)
    with LocalRespondent(engine(), model(), items, OPTIONS) as reference:
        other = model("other", template="{{ messages[0].content }}")
        with LocalRespondent(engine(other_vocabulary=True), other, items, OPTIONS, book=reference.book) as candidate:
            (answer,) = candidate.ask(items)

            assert answer.prompt_tokens == 1 + len("The capital of Italy?")
            assert candidate.settings != reference.settings
            assert any("its vocabulary is not that of ref" in note for note in candidate.notes)


@pytest.mark.parametrize(
    "change",
    [{"slots": 3}, {"threads": 2}, {"max_tokens": 9}, {"chat_prompts": True}, {"choices_as_text": True}],
)
def test_settings_tell_what_decides_an_answer(change: Mapping[str, object]) -> None:
    """Each option that can change an answer changes the settings."""
    items = (CAPITAL,)
    changed = replace(OPTIONS, **change)  # type: ignore[arg-type]
    with (
        LocalRespondent(engine(), model(), items, OPTIONS) as one,
        LocalRespondent(engine(), model(), items, changed) as two,
        LocalRespondent(engine(), model(), (*items, SKY), OPTIONS) as three,
    ):
        assert one.settings != two.settings
        assert one.settings == three.settings


def test_choices_can_be_asked_as_a_text() -> None:
    """As a server is asked: the choices are listed, and the answer is read; the hash stays the item's own."""
    options = replace(OPTIONS, choices_as_text=True)
    with LocalRespondent(FakeTextEngine(default=FakeModel(answers={"B) blue": "B"})), model(), (SKY,), options) as it:
        (answer,) = it.ask((SKY,))

    assert (answer.item_hash, answer.choices) == (item_hash(SKY), ())
    (outcome,) = outcomes_of((SKY,), {answer.item_hash: answer})
    assert (outcome.score, outcome.text) == (1.0, "blue")


def toy_file(folder: Path) -> LocalModel:
    """A small real GGUF file with a template, looked at as any model is."""
    toy = ToyLlama(n_vocab=64)
    metadata = {**toy.metadata(), "tokenizer.chat_template": FAKE_TEMPLATE, "general.file_type": 15}
    return local_model(write_gguf(folder / "toy.gguf", metadata, toy.tensors()))


LONG = item("long", prompt="x" * 20_000, max_tokens=100)


def sized(toy: LocalModel, free_slots: float) -> LocalRespondent:
    """The long item, where memory has room for so many slots as long as it needs, beside the weights."""
    assert toy.shape is not None
    slot = toy.shape.kv_cache_bytes(20_224)
    assert slot is not None
    usable = round((toy.subject.file_bytes or 0) + 256 * MIB + free_slots * slot)
    options = AskOptions(slots=4, threads=1)
    return LocalRespondent(engine(), toy, (LONG, CAPITAL), options, usable_bytes=usable)


def test_a_model_file_is_known_by_its_hash_and_its_recipe(tmp_path: Path) -> None:
    """The identity is the SHA-256 of the file, as run records have it; template and recipe are read from the header."""
    toy = toy_file(tmp_path)

    assert toy.subject.identity == hashlib.sha256((tmp_path / "toy.gguf").read_bytes()).hexdigest()
    assert (toy.subject.name, toy.subject.quantization, toy.template) == ("toy", "Q4_K_M", FAKE_TEMPLATE)
    assert toy.subject.file_bytes == (tmp_path / "toy.gguf").stat().st_size


def test_fewer_slots_are_opened_where_memory_has_no_room_for_more(tmp_path: Path) -> None:
    """With room for three and a half of four slots, three are opened, a note says so, and the settings have it."""
    toy = toy_file(tmp_path)
    with sized(toy, 3.5) as three, sized(toy, 4.5) as four:
        assert three.session.facts.slots == three.settings["slots"] == 3
        assert any("has room for 3 of 4 slots of 20224 tokens" in note for note in three.notes)
        assert (four.session.facts.slots, four.notes) == (4, ())


def test_items_that_memory_has_no_room_for_are_errors(tmp_path: Path) -> None:
    """With room for half a slot the context is cut, in blocks of 256; shorter items are answered, and the settings tell the limit."""
    with sized(toy_file(tmp_path), 0.5) as respondent:
        found = asked(respondent, (LONG, CAPITAL))
        limit = respondent.settings["context_limit"]

    assert isinstance(limit, int)
    assert 8_000 < limit < 10_112
    assert limit % 256 == 0
    assert found["long"].error == f"the prompt has 20001 tokens, and the model's context has room for {limit}"
    assert found["capital"].answered


def test_a_model_that_does_not_fit_is_not_loaded(tmp_path: Path) -> None:
    """Weights beyond what memory can take are refused before the engine starts, in bytes and with what to do."""
    fake = engine()
    with pytest.raises(EngineError, match=r"toy needs .* can be used; free some memory"):
        LocalRespondent(fake, toy_file(tmp_path), (CAPITAL,), OPTIONS, usable_bytes=1000)

    assert fake.opened == 0


def test_an_engine_without_room_gets_fewer_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the engine itself refuses so many slots, half of them are tried, down to one."""
    resize = FakeTextSession.resize

    def poor(self: FakeTextSession, n_ctx: int, slots: int) -> None:
        if slots > 1:
            raise EngineError("no memory")
        resize(self, n_ctx, slots)

    monkeypatch.setattr(FakeTextSession, "resize", poor)
    with LocalRespondent(engine(), model(), (CAPITAL,), replace(OPTIONS, slots=4)) as respondent:
        assert respondent.settings["slots"] == 1
        assert respondent.notes[-1] == "the engine had no room for more than one slot (no memory)"
