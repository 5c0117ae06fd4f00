"""One of several models that are measured in turns: a run of a file that waits between its repetitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from suffice.decide.paired_speed import SETTING, openings_of, rounds_of_rows
from suffice.decide.quiet import with_quiet
from suffice.errors import UsageError
from suffice.measure.attention import PLAIN_CACHE_TYPES
from suffice.measure.file_run import FileRun, Lengths
from suffice.measure.request import ASKED_LENGTHS
from suffice.measure.run_record import earlier_state, measured
from suffice.measure.series import (
    WARM_UP_STEPS,
    WARM_UP_TOKENS,
    DecodeAt,
    Part,
    SeriesRunner,
    ThreadChoice,
    WarmUp,
    warm_up,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from suffice.decide.disturbance import ContentionReading
    from suffice.loaders.model_file import ModelFile
    from suffice.measure.base_run import Surroundings
    from suffice.measure.engine.seam import Session
    from suffice.measure.observer import Observer
    from suffice.measure.request import RunRequest
    from suffice.measure.series import SeriesPlan, SeriesState
    from suffice.records.schema import LoadRecord, ModelRecord, RunRecord
    from suffice.stats.stopping import StopReason

_PROBE: Final = "attention_probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionChoice:
    """Flash attention or not, as it was chosen with one model; ``probe``: the rates with it on and off, where they were compared."""

    name: str
    model: ModelRecord
    is_off: bool
    probe: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What was chosen with the first model whose request left it open, and is used by all the others that do. None: nothing yet."""

    threads: ThreadChoice | None = None
    threads_of: str | None = None
    attention: AttentionChoice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """Those that take turns with a model: what its record says of them."""

    session: str  # names this measurement: rounds of another one are other rounds
    names: tuple[str, ...]


class Turn(FileRun):
    """The steps of a run of a file, each for itself. Call them in order; the session may be closed between any two."""

    def __init__(
        self, name: str, request: RunRequest, model: ModelFile, around: Surroundings, earlier: RunRecord | None
    ) -> None:
        super().__init__(request, around, earlier, model.path)
        self.name = name
        self.company: Company
        self.observer: Observer | None = None  # shared with the others, while all sessions are open
        self._plan_of_turns: SeriesPlan
        self._state: SeriesState
        self.impression: WarmUp
        self._common = Common()
        self._attention_is_off = earlier is not None and self._is_off(earlier)
        self._threads: ThreadChoice
        self._runner: SeriesRunner | None = None
        self._is_open = False
        self.opened_once = False  # of all rounds, beside the others
        self._opening = 0  # since this part of the measurement began
        self._openings: dict[DecodeAt | None, set[tuple[str, int]]] = {}  # in which rounds of a series were made
        self._peak_bytes: int | None = None if earlier is None else earlier.measurement.peak_rss_bytes
        self._rounds: dict[DecodeAt | None, list[int]] = {}

    # -- before the rounds --------------------------------------------------------------------------------------------

    @property
    def needed_bytes(self) -> float:
        """Of weights and cache."""
        return self._needed_bytes()

    @property
    def load_s(self) -> float:
        """What a load takes when the file is in the page cache."""
        return self._record.measurement.load.warm_s or 0.0

    @property
    def threads(self) -> int:
        """The most that it computes with."""
        return max(self._threads.decode, self._threads.prefill)

    @property
    def pid(self) -> int | None:
        """Of its engine; the session must be open."""
        return self._session.pid

    @property
    def can_cut(self) -> bool:
        """Whether its cache can be cut back; asked of the open session, whose tokens are lost by it."""
        return self._session.rewind(1)

    @property
    def reopen_s(self) -> float:
        """What opening it again takes."""
        warming_s = 2 * (WARM_UP_TOKENS * self.impression.prefill_token_s + WARM_UP_STEPS * self.impression.step_s)
        return self.load_s + warming_s

    @property
    def goes_on(self) -> bool:
        """Whether it has repetitions of a part that was interrupted."""
        return self._earlier is not None

    @property
    def usable_bytes(self) -> int:
        """Memory that could be used before anything was loaded."""
        return self._facts.memory_usable_bytes

    @property
    def earlier_lengths(self) -> Lengths | None:
        """Of the part that is gone on with."""
        return self._earlier_lengths()

    def begin(self) -> bool:
        """Bandwidth and ceiling; whether the model fits in memory."""
        self._update()
        self._measure_bandwidth()
        self._update(ceiling=self._ceiling())
        return self._fits()

    def check_fits(self) -> None:
        """Refuse a model that does not fit in memory, before anything is measured.

        Raises:
            UsageError: with what it needs and what there is.
        """
        if not self._fits():
            raise UsageError(self._warnings[-1])

    def settle(self, common: Common) -> Common:
        """Load the model and get a first impression, with what ``common`` says; what was left open is added to it.

        The session is open after it.
        """
        self._common = common
        if common.attention is not None and self._earlier is None:
            can_be_off = self._leaves_attention_open and self._request.type_v in PLAIN_CACHE_TYPES
            self._attention_is_off = common.attention.is_off and can_be_off
        load, self._session = self._load()
        self._is_open = True
        self._opening += 1
        self._tell_session(load)
        self._threads, self.impression = self._settle(load)
        self._attention_is_off = self._is_off(self._record)
        self._keep_probe()
        self._tell_placement([self._session])
        self._note_peak()
        if common.threads is None and self._request.threads is None:
            common = replace(common, threads=self._threads, threads_of=self.name)
        if common.attention is None and self._leaves_attention_open:
            model, probe = self._record.model, self._record.settings.get(_PROBE)
            choice = AttentionChoice(name=self.name, model=model, is_off=self._attention_is_off, probe=probe)
            common = replace(common, attention=choice)
        self._common = common
        return common

    def open(self) -> None:
        """Load the model again, from the page cache where that holds it, and warm it up."""
        self._session = self._open(self._path)
        self._is_open = True
        self._opening += 1
        self._session.set_threads(self._threads.decode, self._threads.prefill)
        warm_up(self._session)
        self._session.rest()

    def close(self) -> None:
        """End the session, if it is open."""
        if self._is_open:
            self._is_open, self._runner = False, None
            self._session.close()

    # -- rounds -------------------------------------------------------------------------------------------------------

    def plan(self, plan: SeriesPlan, company: Company) -> None:
        """What to repeat from now on, and with whom in turns."""
        self.company, self._plan_of_turns = company, plan
        self._state = earlier_state(self._earlier, self._threads, plan.prompt_tokens)
        for at in plan.decode_series():
            self._state.step_rows.setdefault(at, [])
        self._rounds = {series: [] for series in self._rows()}
        if self._earlier is not None:
            told = rounds_of_rows(self._earlier)
            marks = [*told.get("decode", ()), told.get("prefill", ())]
            self._rounds = dict(zip(self._rows(), map(list, marks), strict=False))
        if {series: len(marks) for series, marks in self._rounds.items()} != self._rows():
            raise UsageError("the record to resume does not say in which rounds it was measured; leave out --resume")

    @property
    def last_round(self) -> int:
        """The latest round in which it had a turn; 0: none yet."""
        return max((max(marks) for marks in self._rounds.values() if marks), default=0)

    def tell(self, step: str) -> None:
        """Tell whoever waits what it is about to do."""
        self._around.progress(step)

    def rounds_of(self, parts: Sequence[Part]) -> set[int]:
        """The rounds in which everything of these parts was repeated."""
        found = [set(marks) for series, marks in self._rounds.items() if self._part_of(series) in parts]
        return set.intersection(*found) if found else set()

    def pieces(self, parts: Sequence[Part], number: int, repetitions: int = 1) -> Iterator[None]:
        """This model's part of a round, piece by piece: after each it rests, and others have theirs. The session must be open."""
        if self._runner is None:
            self._runner = SeriesRunner(
                self._session, self._around.clock, self._plan_of_turns, self._state, self.observer
            )
        for part in parts:
            for _ in range(repetitions):
                for _ in self._runner.turn(part):
                    self._session.rest()
                    yield
        for series, rows in self._rows().items():
            new = rows - len(self._rounds[series])
            self._rounds[series] += [number] * new
            if new:
                self._openings.setdefault(series, self._earlier_openings(series)).add(
                    (self.company.session, self._opening)
                )
        self._note_peak()
        self._session.rest()

    def stop(self, parts: Sequence[Part], reason: StopReason) -> None:
        """No more rounds of these parts."""
        for series in self._rounds:
            if self._part_of(series) in parts:
                self._state.stopped[series] = reason

    def keep(self) -> None:
        """Put what there is into the record, and hand it out."""
        self._record = replace(self._record, contention=self._state.kept_in(self._record.contention))
        so_far = self._record.measurement
        lengths = {"prompt_tokens": self._request.prompt_tokens, "depth": self._request.depth}
        settings = {**self._record.settings, SETTING: self._side_by_side(), ASKED_LENGTHS: lengths}
        self._update(**measured(self._state, so_far, so_far.load, self._peak_bytes), settings=settings)

    # -- after the rounds ---------------------------------------------------------------------------------------------

    def finish(self, reading: ContentionReading | None, warnings: Sequence[str] = ()) -> RunRecord:
        """Judge the run and return the complete record; ``reading``: of the time of all rounds, None where there were none."""
        self._warnings += warnings
        if reading is not None:
            self.keep()
            measurement = replace(self._record.measurement, budget_s=self._request.budget_s)
            self._update(measurement=with_quiet(measurement, self._record.contention.references))
            self._judge(reading)
        self._check_file()
        self._update(complete=True, warnings=tuple(self._warnings))
        return self._record

    # -- inside -------------------------------------------------------------------------------------------------------

    def _open(self, path: Path, **changes: Any) -> Session:  # noqa: ANN401  # fields of the settings
        if self._attention_is_off:
            changes.setdefault("flash_attention", "off")
        return super()._open(path, **changes)

    @property
    def _leaves_attention_open(self) -> bool:
        return self._request.flash_attention == "auto"

    def _is_off(self, record: RunRecord) -> bool:
        return self._leaves_attention_open and record.settings.get("flash_attention") is False

    def _choose_threads(self, session: Session) -> ThreadChoice:
        if self._request.threads is not None and self._earlier is None:
            return ThreadChoice(decode=self._request.threads, prefill=self._request.threads)
        if self._common.threads is None or self._request.threads is not None or self._earlier is not None:
            return super()._choose_threads(session)
        return replace(self._common.threads, sweep=())

    def _choose_attention(self, threads: ThreadChoice, impression: WarmUp, load: LoadRecord) -> None:
        if self._common.attention is None:
            super()._choose_attention(threads, impression, load)

    def _keep_probe(self) -> None:
        """The comparison of flash attention that the choice rests on, where the record has none of its own."""
        settings, chosen, probe = self._record.settings, self._common.attention, None
        if self._earlier is not None:
            probe = self._earlier.settings.get(_PROBE)
        elif chosen is not None and chosen.probe is not None and self._attends_like(chosen.model):
            probe = {**chosen.probe, "of": chosen.name}
        if probe is not None and _PROBE not in settings and self._leaves_attention_open:
            self._update(settings={**settings, _PROBE: probe})

    def _attends_like(self, model: ModelRecord) -> bool:
        own = self._record.model
        return (own.architecture, own.kv_layers, own.parameters) == (
            model.architecture,
            model.kv_layers,
            model.parameters,
        )

    def _openings_of(self, series: DecodeAt | None) -> set[tuple[str, int]]:
        return self._openings.get(series) or self._earlier_openings(series)

    def _earlier_openings(self, series: DecodeAt | None) -> set[tuple[str, int]]:
        """Those of the part that is gone on with, whose numbers are none of this part."""
        if self._earlier is None:
            return set()
        decode, prefill = openings_of(self._earlier)
        place = [one for one in self._rounds if one is not None].index(series) if series is not None else 0
        count = prefill if series is None else decode[place] if place < len(decode) else 0
        return {("earlier", number) for number in range(count)}

    def _part_of(self, series: DecodeAt | None) -> Part:
        deep = series is not None and series.depth > self._plan_of_turns.prompt_tokens
        return Part.DEEP if deep else Part.SHALLOW

    def _rows(self) -> dict[DecodeAt | None, int]:
        """Repetitions so far of each series, prefill last."""
        decode: dict[DecodeAt | None, int] = {at: len(rows) for at, rows in self._state.step_rows.items()}
        return {**decode, None: len(self._state.chunk_rows)}

    def _note_peak(self) -> None:
        now = self._session.peak_rss_bytes()
        self._peak_bytes = now if self._peak_bytes is None or now is None else max(now, self._peak_bytes)

    def _settings_of(self) -> dict[str, str | None]:
        """With which model what the request left open was chosen; None: the request states it."""
        attention = self._common.attention
        return {
            "threads": self._common.threads_of if self._request.threads is None else None,
            "flash_attention": attention.name if attention is not None and self._leaves_attention_open else None,
        }

    def _side_by_side(self) -> dict[str, Any]:
        return {
            "session": self.company.session,
            "name": self.name,
            "with": [name for name in self.company.names if name != self.name],
            "settings_of": self._settings_of(),
            "opened_once": self.opened_once,
            "openings": {
                "decode": [len(self._openings_of(series)) for series in self._rounds if series is not None],
                "prefill": len(self._openings_of(None)),
            },
            "round_of_row": {
                "decode": [list(marks) for series, marks in self._rounds.items() if series is not None],
                "prefill": list(self._rounds[None]),
            },
        }
