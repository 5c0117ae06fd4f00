"""A language model of bytes that knows nothing but what is planted, and says the same every time.

Shipped with the package, so that whoever builds on :mod:`suffice.measure.engine.text_seam` can test without a model. Its next token follows
from the last bytes and a seed; answers can be planted; noise on the logits, another one for each model, plays the part of quantization.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from suffice.errors import EngineCrashError, EngineError
from suffice.measure.engine.fake import FAKE_IDENTITY, resolved_as_asked
from suffice.measure.engine.seam import EngineSettings, SessionFacts
from suffice.measure.engine.text_answers import AnswerSlots, PromptFeed
from suffice.measure.engine.text_plan import check_question
from suffice.measure.engine.text_seam import (
    ChoiceQuestion,
    LogitsBlock,
    Prompt,
    TextAnswer,
    TextFacts,
    VocabularyFacts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

    from suffice.measure.engine.seam import EngineIdentity

_BYTES: Final = 256
BOS: Final = 256
END: Final = 257
_SPECIALS: Final = {"<|bos|>": BOS, "<|end|>": END, "<|system|>": 258, "<|user|>": 259, "<|assistant|>": 260}
N_VOCAB: Final = _BYTES + len(_SPECIALS)
_NAMES: Final = {token: name for name, token in _SPECIALS.items()}
_SEEN: Final = 4  # tokens that the next one follows from
_PLANTED_LOGIT: Final = 12.0  # above normal noise: a planted token has a probability near 1
_ROWS: Final = 8  # of a block of logits

FAKE_TEMPLATE: Final = (
    "{% for message in messages %}{{ '<|' + message.role + '|>' + message.content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
"""A chat template that fits to the fake's vocabulary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeModel:
    """What one model file says. ``answers``: a text that stands in a prompt, and the answer to such prompts.

    ``noise`` is the standard deviation of what is added to every logit, drawn anew for each context and model (quantization's part);
    planted answers survive it up to about 3. ``seed`` makes another language, ``other_vocabulary`` another vocabulary of the same size.
    """

    answers: Mapping[str, str] = field(default_factory=dict)
    noise: float = 0.0
    seed: int = 1
    adds_bos: bool = True
    other_vocabulary: bool = False
    crash_after_requests: int | None = None  # so many answers, questions and blocks succeed, then the process is dead


@dataclass(slots=True, kw_only=True)
class FakeTextEngine:
    """Opens fake sessions: what ``models`` says of the file's name, else ``default``. ``opened`` counts the sessions."""

    models: Mapping[str, FakeModel] = field(default_factory=dict)
    default: FakeModel = field(default_factory=FakeModel)
    identity: EngineIdentity = FAKE_IDENTITY
    opened: int = 0

    def open_text(self, model: Path, settings: EngineSettings) -> FakeTextSession:
        """A session; the model file is not read, and need not exist."""
        self.opened += 1
        return FakeTextSession(model.name, self.models.get(model.name, self.default), settings)


class FakeTextSession:
    """A session of :class:`FakeTextEngine`. It keeps the seam's promises on order, room and errors."""

    def __init__(self, name: str, model: FakeModel, settings: EngineSettings) -> None:
        self._name = name
        self._model = model
        self._open = True
        self._requests = 0
        self.facts = _facts(name, model, settings)

    def resize(self, n_ctx: int, slots: int) -> None:
        self._check_open()
        if min(n_ctx, slots) < 1:
            raise EngineError(f"there is no session of {slots} slots with room for {n_ctx} tokens each")
        self.facts = replace(self.facts, n_ctx=n_ctx, slots=slots)

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        """A token a byte of UTF-8."""
        self._check_open()
        tokens = [BOS] if add_special and self._model.adds_bos else []
        while text:
            name = next((name for name in _SPECIALS if parse_special and text.startswith(name)), None)
            tokens += [_SPECIALS[name]] if name else text[0].encode("utf-8", errors="replace")
            text = text[len(name) if name else 1 :]
        return tuple(tokens)

    def text_of(self, tokens: Sequence[int], *, special: bool = False) -> str:
        self._check_open()
        raw = [_NAMES[token].encode() * special if token in _NAMES else bytes([token]) for token in tokens]
        return b"".join(raw).decode("utf-8", errors="replace")

    def answers(self, prompts: Iterable[Prompt]) -> Iterator[TextAnswer]:
        """Slots are filled and emptied as the real engine does it."""
        slots = AnswerSlots(_FakeStepper(self))
        feed = PromptFeed(prompts, self.facts.n_ctx)
        while True:
            for index, prompt in feed.take(self.facts.slots - slots.unfinished):
                slots.add(index, prompt)
            if slots.is_idle:
                break
            for answer in slots.advance():
                self._count()
                yield answer
        if feed.refused is not None:
            raise feed.refused

    def choice_logprobs(self, questions: Iterable[ChoiceQuestion]) -> Iterator[tuple[tuple[float, ...], ...]]:
        for number, question in enumerate(questions):
            check_question(number, question, self.facts.n_ctx)
            self._count()
            yield tuple(self._logprobs(question.prefix, choice) for choice in question.choices)

    def logits(self, tokens: Sequence[int], *, first_position: int = 0) -> Iterator[LogitsBlock]:
        """Small blocks, so that whoever reads them meets more than one."""
        self._check_open()
        if not 0 <= first_position < len(tokens) <= self.facts.n_ctx:
            raise EngineError(f"logits of {len(tokens)} tokens from position {first_position} on are not possible")
        for start in range(first_position, len(tokens), _ROWS):
            self._count()
            ends = range(start, min(start + _ROWS, len(tokens)))
            rows = np.stack([self.row(tokens[: end + 1], ()) for end in ends])
            yield LogitsBlock(first_position=start, rows=rows)

    def close(self) -> None:
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def row(self, prompt: Sequence[int], said: Sequence[int]) -> NDArray[np.float32]:
        """Logits after a prompt and what was said since."""
        seen = [*prompt, *said][-_SEEN:]
        logits = _normals(f"{self._model.seed}/{seen}") * 2
        logits[_BYTES:] -= 4  # control tokens are rare
        planted = self._planted(prompt, said)
        if planted is not None:
            logits[planted] += _PLANTED_LOGIT
        if self._model.noise:
            logits += self._model.noise * _normals(f"{self._name}/{[*prompt, *said]}")
        return logits.astype(np.float32)

    def _planted(self, prompt: Sequence[int], said: Sequence[int]) -> int | None:
        """The next byte of the planted answer, as long as what was said is its beginning; white space in front does not matter."""
        text = self.text_of(prompt)
        answer = next((answer for question, answer in self._model.answers.items() if question in text), None)
        if answer is None or END in said:
            return None
        begun, whole = bytes(token for token in said if token < _BYTES).lstrip(), answer.encode()
        if not whole.startswith(begun):
            return None
        return whole[len(begun)] if len(begun) < len(whole) else END

    def _logprobs(self, prefix: Sequence[int], choice: Sequence[int]) -> tuple[float, ...]:
        found = []
        for place, token in enumerate(choice):
            row = self.row(prefix, choice[:place]).astype(np.float64)
            top = row.max()
            found.append(float(row[token] - top - np.log(np.exp(row - top).sum())))
        return tuple(found)

    def _count(self) -> None:
        self._check_open()
        limit = self._model.crash_after_requests
        if limit is not None and self._requests >= limit:
            self._open = False
            raise EngineCrashError("the engine's process died of SIGSEGV during choice_logprobs")
        self._requests += 1

    def _check_open(self) -> None:
        if not self._open:
            raise EngineError("the engine's session is closed")


class _FakeStepper:
    """The fake's texts, as slots."""

    def __init__(self, session: FakeTextSession) -> None:
        self._session = session
        self.slots = session.facts.slots
        self.n_ctx = session.facts.n_ctx
        self._texts: list[tuple[tuple[int, ...], list[int]]] = [((), []) for _ in range(self.slots)]

    def begin(self, slot: int, tokens: Sequence[int]) -> int:
        self._texts[slot] = (tuple(tokens), [])
        return int(self._session.row(tokens, ()).argmax())

    def step(self, tokens: Sequence[int | None]) -> list[int]:
        tops = []
        for (prompt, said), token in zip(self._texts, tokens, strict=True):
            if token is not None:
                said.append(token)
            tops.append(0 if token is None else int(self._session.row(prompt, said).argmax()))
        return tops

    def piece(self, token: int) -> bytes:
        return bytes([token]) if token < _BYTES else b""

    def ends(self, token: int) -> bool:
        return token == END


def _normals(key: str) -> NDArray[np.float64]:
    """Normally distributed numbers, one a token, that follow from the key alone."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
    return np.random.default_rng(seed).standard_normal(N_VOCAB)


def _facts(name: str, model: FakeModel, settings: EngineSettings) -> TextFacts:
    resolved = resolved_as_asked(settings)
    session = SessionFacts(
        load_s=0.5, resolved=resolved, n_vocab=N_VOCAB, n_ctx_train=None, model_description=f"fake {name}"
    )
    vocabulary = VocabularyFacts(
        n_tokens=N_VOCAB,
        sha256=hashlib.sha256(f"fake bytes {model.other_vocabulary}".encode()).hexdigest(),
        adds_bos=model.adds_bos,
        bos=BOS,
        eos=END,
        end_tokens=(END,),
        bos_text=_NAMES[BOS],
        eos_text=_NAMES[END],
    )
    return TextFacts(
        session=session,
        vocabulary=vocabulary,
        n_ctx=settings.n_ctx,
        slots=settings.n_sequences,
        shares_prefixes=True,
    )
