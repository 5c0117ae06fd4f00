"""What llama.cpp says, on a real model and on toys: packed, shared and streamed results are those of one thing at a time."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from helpers import toy_models
from helpers.gguf_writer import ToyLlama, ToyTensor, Typed, encode_header
from helpers.sample import require_sample_model
from suffice.errors import EngineCrashError, EngineError
from suffice.loaders.chat_template import ChatTemplate, read_chat_template
from suffice.measure.engine.blocks import normal_numbers
from suffice.measure.engine.client import Timeouts
from suffice.measure.engine.library import available_engines, choose_library
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.engine.text_client import LlamaCppTextClient, LlamaCppTextEngine
from suffice.measure.engine.text_distance import measure_distances
from suffice.measure.engine.text_seam import ChoiceQuestion, Prompt
from suffice.measure.prompting import Prompting
from suffice.model.answers import FinishReason
from suffice.model.items import Item, Message, Role, ScoreKind, ScoreRule
from suffice.quality.distance import DocumentDistances
from suffice.slices.gguf_write import Typed as SliceTyped
from suffice.slices.vocabulary import synthetic_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

pytestmark = pytest.mark.engine

SETTINGS = EngineSettings(n_ctx=256, n_threads=1, n_threads_batch=1, n_batch=64, n_ubatch=64, n_sequences=3)
TIMEOUTS = Timeouts(load_s=60, open_s=120, request_s=120)
N_VOCAB = 400
FLOAT_NOISE = 2e-3  # of a log-probability of models with 32-bit weights: 16-bit caches, and sums in another order
QUANTIZED_NOISE = (
    1.0  # with 4-bit weights the engine rounds activations to 8 bits, and sums in another order round elsewhere
)
TEXT = (
    "The harbour lay still under a thin fog. A boat with two lamps came in from the north, slowly, and the man at the "
    "bow counted the posts of the pier as they went by, one after the other, until he had seen them all. "
)


@pytest.fixture(scope="module", params=["llama-cpp-python", "xllamacpp", "SUFFICE_TEST_LIBRARY"])
def engine(request: pytest.FixtureRequest) -> LlamaCppTextEngine:
    """Each engine that is installed, and the libllama that the environment names."""
    if request.param == "SUFFICE_TEST_LIBRARY":
        if not os.environ.get(request.param):
            pytest.skip(f"{request.param} does not name a libllama")
        return LlamaCppTextEngine(choose_library(Path(os.environ[request.param])), TIMEOUTS)
    if request.param not in {choice.name for choice in available_engines()}:
        pytest.skip(f"{request.param} is not installed")
    return LlamaCppTextEngine(choose_library(prefer=request.param), TIMEOUTS)


@pytest.fixture(scope="module")
def session(engine: LlamaCppTextEngine) -> Iterator[LlamaCppTextClient]:
    """The sample model, open; skipped where the build's instructions do not work here."""
    with engine.open_text(require_sample_model(), SETTINGS) as opened:
        try:
            list(opened.answers([Prompt(tokens=(5, 6), max_tokens=1)]))
        except EngineCrashError as error:
            if "SIGILL" not in str(error):
                raise
            pytest.skip(f"this build does not run on this machine: {error}")
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the toy models lie."""
    return tmp_path_factory.mktemp("toys")


def for_writer(value: object) -> object:
    """A value of the package's writer as one of the tests' writer."""
    if not isinstance(value, SliceTyped):
        return value
    assert isinstance(value.value, list)
    return [Typed(value.kind.value, number) for number in value.value]


def write_toy(
    path: Path, metadata: Mapping[str, object], tensors: Sequence[ToyTensor], *, negative: Sequence[str] = ()
) -> Path:
    """A model of random 32-bit weights with a tokenizer that knows every byte, and a beginning token.

    Tensors whose names end in one of ``negative`` have no positive weight.
    """
    made = synthetic_vocabulary(N_VOCAB, str(metadata["general.architecture"]))
    vocabulary = {key: for_writer(value) for key, value in made.items()}
    header, size = encode_header({**metadata, **vocabulary}, tensors)
    numbers = normal_numbers((size - len(header)) // 4, sigma=0.2, seed=3)
    start = 0
    for tensor in tensors:
        end = start + tensor.n_bytes // 4
        if tensor.name.endswith(tuple(negative)):
            numbers[start:end] = -abs(numbers[start:end])
        start = -(-end // 8) * 8  # the next multiple of 32 bytes
    path.write_bytes(header + numbers.tobytes())
    return path


@pytest.fixture(scope="module")
def dense(folder: Path) -> Path:
    """A plain model."""
    return write_toy(folder / "dense.gguf", *toy_models.dense(N_VOCAB))


@pytest.fixture(scope="module")
def windowed(folder: Path) -> Path:
    """A model of which every second layer sees the last 32 tokens only."""
    return write_toy(folder / "windowed.gguf", *toy_models.windowed(N_VOCAB))


@pytest.fixture(scope="module")
def recurrent(folder: Path) -> Path:
    """A model that keeps one state for all tokens before, and so can share no prompt."""
    metadata, tensors = toy_models.recurrent(N_VOCAB)
    return write_toy(folder / "recurrent.gguf", metadata, tensors, negative=("ssm_a",))  # or the state would explode


def tokens_of(session: LlamaCppTextClient, text: str) -> tuple[int, ...]:
    """A text that starts a sequence."""
    return session.tokenize(text, add_special=True, parse_special=False)


def questions_of(session: LlamaCppTextClient) -> list[ChoiceQuestion]:
    """Short and long prompts with choices of one token and of many."""
    choices = tuple(
        session.tokenize(text, add_special=False, parse_special=False)
        for text in (" sports", " business", " a long way to say food", " science")
    )
    prompts = ("The team won the final. Topic:", "Add butter. Topic:", f"{TEXT}{TEXT} Topic:", "Shares rose. Topic:")
    return [ChoiceQuestion(prefix=tokens_of(session, text), choices=choices) for text in prompts]


def rows_of(session: LlamaCppTextClient, tokens: Sequence[int], first_position: int) -> np.ndarray:
    """Log-probabilities after the tokens from a position on, from streamed logits, in double precision."""
    blocks = [block.rows.astype(np.float64) for block in session.logits(tokens, first_position=first_position)]
    logits = np.concatenate(blocks)
    logits -= logits.max(axis=1, keepdims=True)
    normalized: np.ndarray = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return normalized


def check_choices(session: LlamaCppTextClient, noise: float = FLOAT_NOISE) -> None:
    """Choices of shared prompts, in packs, against the same choices alone, and against the logits of the whole text."""
    questions = questions_of(session)
    together = list(session.choice_logprobs(questions))
    assert [[len(choice) for choice in found] for found in together] == [
        [len(choice) for choice in question.choices] for question in questions
    ]
    for question, found in list(zip(questions, together, strict=True))[1:3]:  # a short one and a long one
        for choice, values in list(zip(question.choices, found, strict=True))[1:3]:  # of one token and of many
            ((alone,),) = session.choice_logprobs([ChoiceQuestion(prefix=question.prefix, choices=(choice,))])
            assert values == pytest.approx(alone, abs=noise)
        rows = rows_of(session, (*question.prefix, *choice), len(question.prefix) - 1)
        whole = [rows[place, token] for place, token in enumerate(choice)]
        assert values == pytest.approx(whole, abs=noise)


def test_choices_of_a_shared_prompt_are_those_of_one_choice_at_a_time(session: LlamaCppTextClient) -> None:
    """On the real model, whatever was evaluated together; that no prompt leaks into another is seen on the exact toys."""
    assert session.facts.shares_prefixes
    check_choices(session, QUANTIZED_NOISE)


@pytest.mark.parametrize("kind", ["dense", "windowed", "recurrent"])
def test_questions_that_are_read_together_do_not_see_each_other(
    engine: LlamaCppTextEngine, session: LlamaCppTextClient, kind: str, request: pytest.FixtureRequest
) -> None:
    """Twenty prompts of different lengths with four choices each, in few batches: the numbers of each alone, to the fourth digit."""
    assert session.facts.slots == 3  # the engine runs here
    precise = replace(SETTINGS, n_batch=512, n_ubatch=512, type_k="f32", type_v="f32", flash_attention="off")
    with engine.open_text(request.getfixturevalue(kind), precise) as opened:
        choices = tuple(tuple(range(20 + place, 22 + 2 * place)) for place in range(4))
        questions = [
            ChoiceQuestion(prefix=tokens_of(opened, TEXT[place : 3 * place + 2]), choices=choices)
            for place in range(20)
        ]
        together = list(opened.choice_logprobs(questions))
        alone = [next(opened.choice_logprobs([question])) for question in questions]
    for several, single in zip(together, alone, strict=True):
        for one, other in zip(several, single, strict=True):
            assert one == pytest.approx(other, abs=1e-4)


@pytest.mark.parametrize("kind", ["windowed", "recurrent"])
def test_other_memories_give_the_same_choices_and_answers(
    engine: LlamaCppTextEngine, session: LlamaCppTextClient, kind: str, request: pytest.FixtureRequest
) -> None:
    """A window that moves on, and a state that cannot be shared: the beginning token is there, and neighbours change nothing."""
    assert session.facts.slots == 3  # the engine runs here
    with engine.open_text(request.getfixturevalue(kind), replace(SETTINGS, n_ctx=1024)) as opened:
        assert opened.facts.shares_prefixes == (kind != "recurrent")
        assert tokens_of(opened, "a")[0] == opened.facts.vocabulary.bos
        check_choices(opened)
        check_slots(opened)
        check_itself(opened, engine, request.getfixturevalue(kind), TEXT * 3)  # several windows


def check_slots(session: LlamaCppTextClient) -> None:
    """Five prompts in three slots, against each alone."""
    prompts = [
        Prompt(tokens=tokens_of(session, TEXT[: 20 + 30 * place]), max_tokens=2 + 2 * place) for place in range(5)
    ]
    together = sorted(session.answers(prompts), key=lambda answer: answer.index)
    assert [answer.index for answer in together] == list(range(5))
    for prompt, answer in zip(prompts, together, strict=True):
        (alone,) = session.answers([prompt])
        assert (alone.tokens, alone.text, alone.finish) == (answer.tokens, answer.text, answer.finish)
        assert len(answer.tokens) <= prompt.max_tokens


def test_answers_in_slots_are_those_of_one_prompt_at_a_time(session: LlamaCppTextClient) -> None:
    """Greedy answers do not depend on their neighbours, and are the most likely tokens of the streamed logits."""
    check_slots(session)
    prompt = tokens_of(session, "One, two, three, four,")
    (answer,) = session.answers([Prompt(tokens=prompt, max_tokens=6)])
    rows = rows_of(session, (*prompt, *answer.tokens), len(prompt) - 1)[:-1]
    assert tuple(rows.argmax(axis=1)) == answer.tokens
    assert answer.text.startswith(" five, six")
    assert answer.finish is FinishReason.LENGTH


def test_a_slot_that_was_left_early_is_free_again(session: LlamaCppTextClient) -> None:
    """An iterator that is dropped leaves nothing behind: the next answers are as if it had not been."""
    prompt = Prompt(tokens=tokens_of(session, "One, two,"), max_tokens=8)
    (clean,) = session.answers([prompt])
    stream = session.answers([replace(prompt, max_tokens=1), replace(prompt, max_tokens=40)])
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    (again,) = session.answers([prompt])
    assert again == clean


def test_stop_texts_and_the_end_of_a_turn(session: LlamaCppTextClient) -> None:
    """The model's own template makes it answer and end; a stop text cuts earlier."""
    model = require_sample_model()
    source = read_chat_template(model)
    assert source is not None
    vocabulary = session.facts.vocabulary
    template = ChatTemplate(
        name=model.name,
        source=source,
        bos_text=vocabulary.bos_text,
        eos_text=vocabulary.eos_text,
        now=datetime(2026, 1, 1, tzinfo=UTC),
    )
    item = Item(
        id="1",
        line=1,
        rule=ScoreRule(kind=ScoreKind.CONTAINS),
        messages=(Message(role=Role.USER, content="What is the capital of France? Answer briefly."),),
    )
    prompt = Prompting(session, template).prompt(item, 60)
    assert vocabulary.eos in prompt.tokens  # the template's tokens are tokens, not texts
    (answer,) = session.answers([prompt])
    assert "Paris" in answer.text
    assert answer.finish is FinishReason.STOP
    assert not set(answer.tokens) & set(vocabulary.end_tokens)
    (cut,) = session.answers([replace(prompt, stops=("Par",))])
    assert (cut.text, cut.finish) == (answer.text.partition("Par")[0], FinishReason.STOP)


def test_tokens_become_their_text_again(session: LlamaCppTextClient) -> None:
    """Texts of many scripts survive; control tokens are read and shown only when asked."""
    text = "Grüße, 世界! 🙂 <|im_end|> \n\tend"
    tokens = session.tokenize(text, add_special=False, parse_special=False)
    assert session.text_of(tokens) == text
    parsed = session.tokenize(text, add_special=False, parse_special=True)
    assert len(parsed) < len(tokens)
    assert session.text_of(parsed) == text.replace("<|im_end|>", "")
    assert session.text_of(parsed, special=True) == text
    assert session.facts.vocabulary.n_tokens == session.facts.session.n_vocab


def check_itself(session: LlamaCppTextClient, engine: LlamaCppTextEngine, model: Path, text: str) -> float:
    """The distance of a model from itself in another process; the mean loss of a token in nats."""
    document = tokens_of(session, text)
    found = DocumentDistances()
    with engine.open_text(model, SETTINGS) as same:
        session.resize(SETTINGS.n_ctx, SETTINGS.n_sequences)
        assert set(measure_distances(session, same, [("d", document)], found)) == {"d"}
    (values,) = found.divergences()
    assert len(values) == len(document) - 1
    assert np.all(values == 0.0)
    (losses,) = found.reference_losses()
    return losses.total / losses.tokens


def test_a_model_against_itself_is_exactly_zero(engine: LlamaCppTextEngine, session: LlamaCppTextClient) -> None:
    """Two processes, the same settings: every divergence is 0.0, and English prose is foretold as such models do it."""
    assert 2 < check_itself(session, engine, require_sample_model(), TEXT) < 4.5


def test_what_does_not_fit_is_an_error_and_the_session_goes_on(session: LlamaCppTextClient) -> None:
    """A prompt over the context, an empty choice, a token of another model: each is named, and nothing is broken after."""
    long = (5,) * 256
    with pytest.raises(EngineError, match="prompt 1 has 256 tokens"):
        list(session.answers([Prompt(tokens=(5,), max_tokens=1), Prompt(tokens=long, max_tokens=1)]))
    with pytest.raises(EngineError, match="question 0 has 257 tokens"):
        list(session.choice_logprobs([ChoiceQuestion(prefix=long, choices=((5,),))]))
    for strange in (-1, session.facts.vocabulary.n_tokens):
        with pytest.raises(EngineError, match="a token is none of"):
            list(session.choice_logprobs([ChoiceQuestion(prefix=(5,), choices=((strange,),))]))
    with pytest.raises(EngineError, match="not possible in a context of 256"):
        session.logits((5,) * 257)
    assert len(list(session.answers([Prompt(tokens=(5, 6), max_tokens=1)]))) == 1


def test_a_session_is_resized_without_loading_again(session: LlamaCppTextClient) -> None:
    """More room, fewer slots, and back: the same answers and choices, in the same process."""
    prompt = Prompt(tokens=tokens_of(session, TEXT), max_tokens=4)
    (before,), pid = session.answers([prompt]), session.pid
    question = questions_of(session)[0]
    session.resize(512, 1)
    assert (session.facts.n_ctx, session.facts.slots, session.pid) == (512, 1, pid)
    (larger,) = session.answers([prompt])
    assert len(next(session.choice_logprobs([question]))) == 4
    with pytest.raises(EngineError, match="do not fit into one evaluation"):
        session.resize(512, 1000)
    session.resize(256, 3)
    assert next(session.answers([prompt])) == before
    assert larger.tokens[0] == before.tokens[0]


def test_a_model_without_a_tokenizer_is_refused(
    engine: LlamaCppTextEngine, session: LlamaCppTextClient, folder: Path
) -> None:
    """There is nothing to be asked, and the process does not die of it."""
    assert session.facts.slots == 3  # the engine runs here
    shape = ToyLlama(n_vocab=64, type_name="f32")
    metadata = {
        **shape.metadata(),
        "llama.rope.dimension_count": 16,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "no_vocab",
        "llama.vocab_size": 64,
    }
    header, size = encode_header(metadata, shape.tensors())
    path = folder / "wordless.gguf"
    path.write_bytes(header + normal_numbers((size - len(header)) // 4, sigma=0.2, seed=3).tobytes())
    with pytest.raises(EngineError, match="has no tokenizer"):
        engine.open_text(path, SETTINGS)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /dev/shm and sends signals")
def test_a_killed_engine_is_one_sentence_and_leaves_no_memory_behind(
    engine: LlamaCppTextEngine, session: LlamaCppTextClient
) -> None:
    """The shared memory has no name as soon as both have it, so nothing is left whoever dies."""
    assert session.facts.slots == 3  # the engine runs here
    with engine.open_text(require_sample_model(), SETTINGS) as opened:
        stream = opened.logits(tokens_of(opened, TEXT * 3))
        next(stream)
        assert not list(Path("/dev/shm").glob("suffice-logits-*"))  # noqa: S108 - where it would be
        os.kill(opened.pid, signal.SIGKILL)
        with pytest.raises(EngineCrashError, match="SIGKILL"):
            list(stream)
