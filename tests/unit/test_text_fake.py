"""The fake language model, and distances and prompts on it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from suffice.errors import EngineCrashError, EngineError, UsageError
from suffice.measure.engine.fake_text import BOS, END, N_VOCAB, FakeModel, FakeTextEngine, FakeTextSession
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.engine.text_distance import Window, document_windows, measure_distances, perplexity_windows
from suffice.measure.engine.text_seam import ChoiceQuestion, Prompt, TextAnswer
from suffice.model.answers import FinishReason
from suffice.quality.distance import DocumentDistances
from suffice.stats.documents import document_mean

SETTINGS = EngineSettings(n_ctx=64, n_threads=1, n_threads_batch=1, n_sequences=3)


def opened(name: str = "m.gguf", *, settings: EngineSettings = SETTINGS, **models: FakeModel) -> FakeTextSession:
    """A session on the model ``name``; ``models`` are named without their ending."""
    engine = FakeTextEngine(models={f"{key}.gguf": model for key, model in models.items()})
    return engine.open_text(Path(name), settings)


def prompt(session: FakeTextSession, text: str, **more: object) -> Prompt:
    """A text as a prompt."""
    tokens = session.tokenize(text, add_special=True, parse_special=False)
    return Prompt(tokens=tokens, **{"max_tokens": 20, **more})  # type: ignore[arg-type]


def test_tokens_are_bytes_and_names_are_control_tokens_only_when_asked() -> None:
    """BOS stands in front when asked; what a user writes is text even if it looks like a control token."""
    session = opened()
    assert session.tokenize("aé", add_special=True, parse_special=False) == (BOS, 97, 0xC3, 0xA9)
    assert session.tokenize("<|end|>a", add_special=False, parse_special=True) == (END, 97)
    assert len(session.tokenize("<|end|>", add_special=False, parse_special=False)) == 7
    assert session.text_of((BOS, 97, END)) == "a"
    assert session.text_of((BOS, 97, END), special=True) == "<|bos|>a<|end|>"


def test_planted_answers_are_given_and_chosen() -> None:
    """A planted answer is written to its end, and is the most likely choice; what is not planted is the same every time."""
    session = opened(m=FakeModel(answers={"capital of Italy": "Rome"}))
    asked = prompt(session, "The capital of Italy?")
    (answer,) = session.answers([asked])
    assert (answer.text, answer.finish) == ("Rome", FinishReason.STOP)
    choices = tuple(session.tokenize(text, add_special=False, parse_special=False) for text in (" Paris", " Rome"))
    ((paris, rome),) = session.choice_logprobs([ChoiceQuestion(prefix=asked.tokens, choices=choices)])
    assert sum(rome[1:]) > -0.1 > sum(paris[1:])
    other = prompt(session, "And of France?", max_tokens=5)
    texts = {next(opened().answers([other])).text for _ in range(2)}
    assert len(texts) == 1


def test_slots_change_no_answer_and_prompts_are_taken_lazily() -> None:
    """Seven prompts in three slots or one: the same answers; no prompt is taken before a slot is free for it."""
    taken = []

    def feed(session: FakeTextSession) -> object:
        for number in range(7):
            taken.append(number)
            yield prompt(session, f"question {number}", max_tokens=3 + number)

    session = opened()
    stream = session.answers(feed(session))  # type: ignore[arg-type]
    next(stream)
    assert taken == [0, 1, 2]
    many = {answer.index: answer for answer in session.answers(feed(session))}  # type: ignore[arg-type]
    single = opened(settings=EngineSettings(n_ctx=64, n_threads=1, n_threads_batch=1))
    assert many == {answer.index: answer for answer in single.answers(feed(single))}  # type: ignore[arg-type]
    assert all(math.isfinite(len(answer.text)) for answer in many.values())


def test_errors_come_after_what_was_answered() -> None:
    """A prompt over the context ends the iterator when the others before it are there; a crash ends the session."""
    session = opened()
    good, long = prompt(session, "hello"), prompt(session, "x" * 64)
    found: list[TextAnswer] = []
    with pytest.raises(EngineError, match="prompt 1 has 65 tokens"):
        found.extend(session.answers([good, long, good]))
    assert [answer.index for answer in found] == [0]
    with pytest.raises(EngineError, match="question 0 has 65 tokens"):
        list(session.choice_logprobs([ChoiceQuestion(prefix=long.tokens[:-1], choices=((1,),))]))
    crashing = opened(m=FakeModel(crash_after_requests=1))
    stream = crashing.choice_logprobs([ChoiceQuestion(prefix=(1,), choices=((2,),))] * 2)
    next(stream)
    with pytest.raises(EngineCrashError, match="SIGSEGV"):
        next(stream)
    with pytest.raises(EngineError, match="closed"):
        crashing.tokenize("a", add_special=False, parse_special=False)


def test_logits_agree_with_choices() -> None:
    """The rows of a text, in several blocks, are what the log-probabilities of its tokens are made of."""
    session = opened()
    tokens = prompt(session, "twenty bytes of text").tokens
    rows = np.concatenate([block.rows for block in session.logits(tokens, first_position=2)]).astype(np.float64)
    assert rows.shape == (len(tokens) - 2, N_VOCAB)
    ((values,),) = session.choice_logprobs([ChoiceQuestion(prefix=tokens[:3], choices=(tokens[3:],))])
    wanted = [row[token] - np.log(np.exp(row).sum()) for row, token in zip(rows[:-1], tokens[3:], strict=True)]
    assert values == pytest.approx(wanted)
    with pytest.raises(EngineError, match="not possible"):
        session.logits(tokens, first_position=len(tokens)).__next__()


@pytest.mark.parametrize(
    ("n_tokens", "n_ctx"), [(1, 8), (2, 8), (8, 8), (9, 8), (33, 8), (50, 7), (5, 2), (9, 3), (0, 8)]
)
def test_every_token_but_the_first_is_scored_once(n_tokens: int, n_ctx: int) -> None:
    """Windows are no longer than the context, and each token has half a context before it, or all that there is."""
    scored: list[int] = []
    for window in document_windows(n_tokens, n_ctx):
        assert 0 <= window.start < window.scored_from < window.end <= window.start + n_ctx
        assert window.scored_from - window.start >= min(window.scored_from, n_ctx // 2)
        scored += range(window.scored_from, window.end)
    assert scored == list(range(1, n_tokens))


def test_a_context_of_one_token_foretells_nothing() -> None:
    """It is refused, and does not go on for ever."""
    with pytest.raises(UsageError, match="too small"):
        list(document_windows(5, 1))


def test_windows_of_llama_perplexity() -> None:
    """Whole windows only; of each the tokens behind the middle one are scored, so 255 of 512."""
    windows = list(perplexity_windows(1100, 512))
    assert windows == [Window(start=0, end=512, scored_from=257), Window(start=512, end=1024, scored_from=769)]


def _distances(reference: FakeTextSession, candidate: FakeTextSession, texts: dict[str, str]) -> DocumentDistances:
    documents = [(name, prompt(reference, text).tokens) for name, text in texts.items()]
    found = DocumentDistances()
    assert set(measure_distances(reference, candidate, documents, found)) == set(texts)
    return found


TEXTS = {
    "short": "a few words",
    "long": "more words than fit into one window of the context, so there are several of them " * 2,
}


def test_a_model_against_itself_is_at_no_distance_at_all() -> None:
    """Exactly zero for every token, with every token of the documents counted once."""
    found = _distances(opened(), opened(), TEXTS)
    assert [len(values) for values in found.divergences()] == [len(text.encode()) for text in TEXTS.values()]
    assert all(np.all(values == 0.0) for values in found.divergences())
    assert all(total.total == total.tokens for total in found.same_top_totals())


def test_more_noise_is_more_distance() -> None:
    """The divergence grows with the noise as its square, about half of it for small noise."""
    small, large = (
        document_mean(_distances(opened(), opened(m=FakeModel(noise=noise)), TEXTS).divergence_totals()).value
        for noise in (0.05, 0.1)
    )
    assert small == pytest.approx(0.05**2 / 2, rel=0.3)
    assert large / small == pytest.approx(4, rel=0.2)


def test_blocks_of_different_sizes_are_brought_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One engine may give eight rows at a time and another three: the distances are the same."""
    noisy = FakeModel(noise=0.5)
    whole = _distances(opened(), opened(m=noisy), TEXTS)
    reference, candidate = opened(), opened(m=noisy)
    original = candidate.logits

    def in_threes(tokens: list[int], *, first_position: int) -> object:
        for block in original(tokens, first_position=first_position):
            for start in range(0, len(block.rows), 3):
                yield type(block)(first_position=block.first_position + start, rows=block.rows[start : start + 3])

    monkeypatch.setattr(candidate, "logits", in_threes)
    parted = _distances(reference, candidate, TEXTS)
    for one, other in zip(whole.divergences(), parted.divergences(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_other_vocabularies_are_refused() -> None:
    """Distributions over other tokens cannot be compared, however equal their number."""
    with pytest.raises(UsageError, match="different vocabularies"):
        _distances(opened(), opened(m=FakeModel(other_vocabulary=True)), TEXTS)
