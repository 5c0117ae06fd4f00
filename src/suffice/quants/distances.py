"""How far candidates are from the reference on the user's text: sessions opened as memory allows, read in step, one result for each.

All candidates that fit beside the reference read the text in step with it, so that it is read once for all of them; what does not fit
follows in further groups, and what does not fit beside the reference alone is left out, with the reason.
"""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from suffice.errors import EngineError, UsageError
from suffice.measure.engine.text_distance import DistancesInStep
from suffice.measure.limits import read_memory_limits
from suffice.model.quants import Distance, DocumentFigures, Quantile
from suffice.quality.tails import token_tail
from suffice.quants.texts import BLOCK_TOKENS, DEFAULT_MAX_TOKENS, tokenize_texts
from suffice.quants.time_left import about
from suffice.units import MIB, format_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from suffice.loaders.model_file import ModelFile
    from suffice.measure.engine.seam import EngineSettings
    from suffice.measure.engine.text_seam import TextEngine, TextSession
    from suffice.measure.prompting import Prompting
    from suffice.quality.distance import DocumentDistances
    from suffice.quants.texts import TokenizedTexts, UserTexts

MOST_CONTEXT: Final = 2 * BLOCK_TOKENS
"""Tokens that are read together at most; of longer documents, each window begins half as many before the first token that it scores."""
_CONTEXT_STEP: Final = 256  # engines round a context up to this
_TAIL: Final = 0.99
_BUFFER_BYTES: Final = 256 * MIB  # of a session beside weights and cache: activations, logits, the process itself
_FLOOR_BATCH: Final = 32
_FLOOR_KEY: Final = ""  # no candidate's name
_LEAST_TIMED_S: Final = 2.0  # before what is left is foretold


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A model file of the comparison, what tells it from others, and the memory that a session of it needs."""

    name: str
    path: Path
    needed_bytes: float
    identity: str


def compared(name: str, model: ModelFile, settings: EngineSettings, *, identity: str) -> Compared:
    """A model file with what a session needs: all weights, a cache of the context and a batch, and room for one evaluation."""
    shape = model.shape
    cells = MOST_CONTEXT + settings.n_batch
    cache_bytes = shape.kv_cache_bytes(cells, settings.type_k, settings.type_v) or 0.0
    needed_bytes = (shape.file_bytes or 0) + cache_bytes + _BUFFER_BYTES
    return Compared(name=name, path=model.path, needed_bytes=needed_bytes, identity=identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistanceRun:
    """How distances are measured.

    Attributes:
        engine: opens the models.
        settings: of each session; context and slots are chosen here.
        texts: what is read.
        prompting: makes the tokens of items, with the reference's session; None: without a chat template.
        max_tokens: of the text that are read.
        noise_floor: compare the reference with itself, with another batch and number of threads, too.
        usable_bytes: memory that can be had now.
        progress: gets a line of text now and then.
        save: gets each result as soon as it is there, so that a run that is ended early keeps it.
        clock: a monotonic time in seconds.
    """

    engine: TextEngine
    settings: EngineSettings
    texts: UserTexts
    prompting: Callable[[TextSession], Prompting] | None = None
    max_tokens: int = DEFAULT_MAX_TOKENS
    noise_floor: bool = True
    usable_bytes: Callable[[], float] = field(default=lambda: read_memory_limits().usable_bytes)
    progress: Callable[[str], None] = field(default=lambda _: None)
    save: Callable[[Distance], None] = field(default=lambda _: None)
    clock: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True, kw_only=True)
class DistanceResults:
    """The noise floor first, then the candidates in their order, as far as they could be measured; ``notes`` say what was not, and why."""

    distances: tuple[Distance, ...]
    notes: tuple[str, ...]


def distance_of(
    reference: TextSession,
    candidate: TextSession,
    texts: TokenizedTexts,
    *,
    name: str,
    progress: Callable[[str], None] = lambda _: None,
    n_ctx: int | None = None,
    settings: Mapping[str, object] | None = None,
    is_self: bool = False,
) -> Distance:
    """The distance of one open session from another on the same tokens.

    Both are resized to one slot of ``n_ctx`` tokens before; None: they are read as they are.

    Raises:
        UsageError: the vocabularies differ.
        EngineError: an engine failed, or the logits are no numbers.
    """
    if n_ctx is not None:
        reference.resize(n_ctx, 1)
        candidate.resize(n_ctx, 1)
    in_step = DistancesInStep(reference, {name: candidate})
    for tokens in _counted(in_step.read(texts.segments)):
        progress(f"distances: {tokens:,} tokens read")
    for error in in_step.lost.values():
        raise error
    return _distance(name, in_step.found[name], settings or {}, is_self=is_self)


def measure_distances_of(
    run: DistanceRun, reference: Compared, candidates: Sequence[Compared], *, kept: Sequence[Distance] = ()
) -> DistanceResults:
    """The distances of candidates from the reference, and its own as the noise floor.

    A candidate with another vocabulary, one that does not fit into memory beside the reference, and one whose engine fails are left out
    with a note. Results in ``kept`` that were made of the same files and text with the same settings are not measured again.

    Raises:
        UsageError: there is no text.
        EngineError: the reference's engine failed.
    """
    room_bytes = run.usable_bytes() - reference.needed_bytes
    if room_bytes < 0:
        usable = format_memory(run.usable_bytes())
        needed = format_memory(reference.needed_bytes)
        note = f"distances were left out: {reference.name} needs {needed} and {usable} can be used"
        return DistanceResults(distances=(), notes=(note,))
    settings = replace(run.settings, n_ctx=MOST_CONTEXT, n_sequences=1)
    with run.engine.open_text(reference.path, settings) as session:
        prompting = None if run.prompting is None else run.prompting(session)
        texts = tokenize_texts(run.texts, session, prompting, max_tokens=run.max_tokens)
        context = min(MOST_CONTEXT, -(-texts.longest // _CONTEXT_STEP) * _CONTEXT_STEP)
        session.resize(context, 1)
        job = _Job(run, reference, session, texts, replace(settings, n_ctx=context))
        return job.measure(candidates, kept, room_bytes)


class _Job:
    """One reference, open, and what is measured against it."""

    def __init__(
        self,
        run: DistanceRun,
        reference: Compared,
        session: TextSession,
        texts: TokenizedTexts,
        settings: EngineSettings,
    ) -> None:
        self._run = run
        self._reference = reference
        self._session = session
        self._texts = texts
        self._settings = settings
        self._notes = list(texts.notes)
        self._found: dict[str, Distance] = {}
        self._files: dict[str, Compared] = {}

    def measure(self, candidates: Sequence[Compared], kept: Sequence[Distance], room_bytes: float) -> DistanceResults:
        if self._run.noise_floor:
            self._files[_FLOOR_KEY] = self._reference
        self._files |= {candidate.name: candidate for candidate in candidates}
        for distance in kept:
            key = _FLOOR_KEY if distance.is_self else distance.candidate
            if key in self._files and distance.settings == self._kept_settings(key):
                self._found[key] = distance
        waiting = [key for key in self._files if key not in self._found]
        if waiting:
            documents = len({name for name, _ in self._texts.segments})
            self._run.progress(f"distances: {self._texts.tokens:,} tokens of {documents:,} documents are read")
        while waiting:
            waiting = self._measure_group(waiting, room_bytes)
        ordered = tuple(self._found[key] for key in self._files if key in self._found)
        return DistanceResults(distances=ordered, notes=tuple(self._notes))

    def _measure_group(self, waiting: Sequence[str], room_bytes: float) -> list[str]:
        """Measure as many as fit together beside the reference; the others."""
        opened: dict[str, TextSession] = {}
        later = []
        with ExitStack() as stack:
            for key in waiting:
                needed_bytes = self._files[key].needed_bytes
                if needed_bytes > room_bytes:
                    if opened:
                        later.append(key)
                    else:
                        self._leave_out(
                            key,
                            f"it needs {format_memory(needed_bytes)}, and beside {self._reference.name} {format_memory(room_bytes)} can be used",
                        )
                    continue
                try:
                    opened[key] = stack.enter_context(self._open(key))
                except EngineError as error:
                    self._leave_out(key, str(error))
                else:
                    room_bytes -= needed_bytes
            if opened:
                self._read(opened)
        return later

    def _open(self, key: str) -> TextSession:
        settings = _floor_settings(self._settings) if key == _FLOOR_KEY else self._settings
        return self._run.engine.open_text(self._files[key].path, settings)

    def _read(self, opened: Mapping[str, TextSession]) -> None:
        in_step = DistancesInStep(self._session, opened)
        names = ", ".join(key for key in opened if key != _FLOOR_KEY) or "noise floor"
        start_s = self._run.clock()
        for tokens in _counted(in_step.read(self._texts.segments)):
            self._run.progress(self._words(tokens, self._run.clock() - start_s, names))
        for key in opened:
            if key in in_step.lost:
                self._leave_out(key, str(in_step.lost[key]))
                continue
            try:
                distance = _distance(
                    self._files[key].name, in_step.found[key], self._kept_settings(key), is_self=key == _FLOOR_KEY
                )
            except EngineError as error:
                self._leave_out(key, str(error))
                continue
            self._found[key] = distance
            self._run.save(distance)

    def _words(self, tokens: int, passed_s: float, names: str) -> str:
        total = self._texts.tokens
        text = f"distances: {min(tokens, total):,} of {total:,} tokens ({names})"
        if passed_s < _LEAST_TIMED_S or tokens >= total:
            return text
        return f"{text}, {about(passed_s * (total - tokens) / tokens)} left"

    def _leave_out(self, key: str, reason: str) -> None:
        what = "the noise floor" if key == _FLOOR_KEY else f"the distance of {key}"
        self._notes.append(f"{what} was left out: {reason}")

    def _kept_settings(self, key: str) -> dict[str, object]:
        """Everything that decides a distance, as it is kept beside it: names are not what is compared."""
        settings, identity = self._settings, self._run.engine.identity
        found: dict[str, object] = {
            "reference": self._reference.identity,
            "candidate": self._files[key].identity,
            "text_sha256": self._texts.sha256,
            "text_tokens": self._texts.tokens,
            "n_ctx": settings.n_ctx,
            "n_batch": settings.n_batch,
            "n_threads": settings.n_threads_batch,
            "type_k": settings.type_k,
            "type_v": settings.type_v,
            "flash_attention": settings.flash_attention,
            "engine": identity.name,
            "engine_version": identity.version or identity.llama_cpp_version,
        }
        if key == _FLOOR_KEY:
            other = _floor_settings(settings)
            found |= {"other_n_batch": other.n_batch, "other_n_threads": other.n_threads_batch}
        return found


def _floor_settings(settings: EngineSettings) -> EngineSettings:
    """Another batch, and another number of threads where there are several: what changes nothing but how sums are rounded."""
    threads = max(1, settings.n_threads_batch - 1)
    return replace(settings, n_batch=_FLOOR_BATCH, n_ubatch=_FLOOR_BATCH, n_threads=threads, n_threads_batch=threads)


def _counted(read: Iterator[int]) -> Iterator[int]:
    """The tokens that were read so far."""
    total = 0
    for tokens in read:
        total += tokens
        yield total


def _distance(name: str, found: DocumentDistances, settings: Mapping[str, object], *, is_self: bool) -> Distance:
    """The figures of each document, and the tail over all tokens."""
    divergences = found.divergences()
    if not divergences:
        raise UsageError("there is no text of two tokens or more to measure distances on; give one with --text FILE")
    figures = tuple(_figures(document, found) for document in found.documents)
    if not all(math.isfinite(one.divergence) and math.isfinite(one.candidate_loss) for one in figures):
        raise EngineError(
            "the candidate calls tokens impossible that the reference does not; the divergence has no end"
        )
    tail = token_tail(divergences, _TAIL)
    interval = tail.interval
    return Distance(
        candidate=name,
        documents=figures,
        p99=Quantile(
            value=tail.observed,
            low=None if interval is None else interval.low,
            high=None if interval is None else interval.high,
            shortage=None if tail.shortage is None else tail.shortage.value,
        ),
        largest=tail.largest,
        settings=dict(settings),
        is_self=is_self,
    )


def _figures(name: str, found: DocumentDistances) -> DocumentFigures:
    tokens = found.of(name)
    return DocumentFigures(
        name=name,
        tokens=len(tokens.divergence),
        divergence=float(tokens.divergence.sum()),
        same_top=int(tokens.same_top.sum()),
        reference_loss=float(tokens.reference_loss.sum()),
        candidate_loss=float(tokens.candidate_loss.sum()),
    )
