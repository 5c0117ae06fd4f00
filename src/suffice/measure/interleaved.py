"""Several GGUF files measured side by side: in turns, so that a noisy neighbour or a drifting clock hits all alike.

One after the other, each model meets another machine: a neighbour that came for a minute makes one of them slow, and the ratio of two speeds
is as wrong as the machine was uneven. In rounds of one repetition each, made in turns of some steps in a balanced order, all meet nearly the
same machine; who has no turn rests, so that its threads take no CPU. Half of the rounds are made after all were loaded again in the opposite order.
Each model gets an ordinary run record; which rows were made in the same round stands in ``settings.interleaved``, and
:mod:`suffice.decide.paired_speed` reads the ratio of two from there.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from suffice.decide.paired_speed import interleaved_of
from suffice.measure.base_run import BANDWIDTH_SHARE, MAX_BANDWIDTH_BUDGET_S
from suffice.measure.file_run import affordable_lengths, shortening_warnings
from suffice.measure.interleaved_request import begun_of, check_finished, check_requests, file_of, named
from suffice.measure.numa import pinned_to
from suffice.measure.rounds import Stage, sittings_of, take_turns
from suffice.measure.series import DEEP_SHARE, Part, SeriesPlan, steps_per_repetition
from suffice.measure.shared_machine import OneReading
from suffice.measure.turn import Common, Company, Turn
from suffice.measure.watch import Watch
from suffice.stats.rounds import LEAST_ROUNDS, balanced_order
from suffice.stats.stopping import StopReason
from suffice.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from suffice.measure.base_run import Surroundings
    from suffice.measure.file_run import Lengths
    from suffice.measure.observer import Observer
    from suffice.measure.request import RunRequest
    from suffice.records.schema import RunRecord

# Student's factor for ten ratios is 2.26, that for any number of them 1.96: more rounds narrow an interval by their number only.
DEFAULT_ROUNDS: Final = 10
# A model that must be loaded for its turn makes so many repetitions of it: loading may take longer than all of them.
REOPENED_REPETITIONS: Final = 3
# A model's piece of a round: as short as can be against neighbours who come and go, long against what changing turns takes (a millisecond). Of ten rounds of the same
# thing twice, 64 steps each, the ratio of a round scattered by 11 % in turns of 64 steps, by 3 % in turns of four (30 ms) (benchmarks/guard_bars.py).
PIECE_S: Final = 0.03
# The first step behind others' turns took 0.1 ms longer than the rest (7.57 and 7.46 ms in the median): of a long step that is nothing.
LONG_STEP_S: Final = 0.01
# Of the budget, planned with even when loading and choosing took nearly all of it.
LEAST_SHARE_LEFT: Final = 0.25


OPENED_ONCE: Final = (
    "the models were loaded once only, since the budget was too little to load them again in the opposite order: where a process lies in memory, and "
    "which one was opened first, makes it up to 3 % faster or slower"
)


def measure_interleaved(
    requests: Mapping[str, RunRequest],
    around: Surroundings,
    *,
    budget_s: float,
    save: Callable[[str, RunRecord], None],
    rounds: int = DEFAULT_ROUNDS,
    earlier: Mapping[str, RunRecord] | None = None,
    needs_all: bool = False,
) -> dict[str, RunRecord]:
    """Measure several files, or one file with several settings, side by side in rounds; the first is the reference.

    Threads and flash attention are chosen once, with the first model whose request leaves them open, and used by all that do. All have the lengths
    of their requests, shortened for all alike where the budget cannot repeat them. Bandwidth is read once before and once after, the
    machine is watched over all rounds. A model that does not fit in memory is not run, and its record says so.

    Args:
        requests: what to measure, by a name of its own: file and settings. Lengths, batch, prompt and node must be the same for all;
            ``budget_s`` of a request is not looked at, and a service curve (``slots``) is not measured here.
        around: the outside; its ``save`` is not used.
        budget_s: for all of it. Loading, and three rounds of every series, are made whatever it is.
        save: called with name and record before anything is measured, after every round and at the end.
        rounds: of every series; fewer are made where the budget does not allow them.
        earlier: records of a measurement that was interrupted, to go on with. Rounds that all have are not made again. Complete ones
            of all models are returned as they are.
        needs_all: a model that does not fit in memory ends it before anything is measured: the others alone are of no use.

    Returns:
        The complete records, by name.

    Raises:
        UsageError: requests that cannot be compared, settings that the machine or a model cannot have, ``earlier`` records of another
            measurement, or a model that does not fit where all are needed; with the name.
        EngineError: the engine failed, with the name of the model; what was measured in earlier rounds was saved.
    """
    check_requests(requests, rounds)
    begun = begun_of(requests, earlier or {})
    nodes = next(iter(requests.values())).nodes[:1]
    with pinned_to(nodes), ExitStack() as stack:
        if earlier and all(name in earlier and earlier[name].complete for name in requests):
            check_finished(requests, earlier, around)
            return {name: earlier[name] for name in requests}
        side_by_side = _SideBySide(requests, around, begun, budget_s=budget_s, rounds=rounds, save=save)
        if needs_all:
            side_by_side.check_fits()
        return side_by_side.run(stack)


class _SideBySide:
    """The models of one measurement, and the rounds that they have turns in."""

    def __init__(
        self,
        requests: Mapping[str, RunRequest],
        around: Surroundings,
        earlier: Mapping[str, RunRecord],
        *,
        budget_s: float,
        rounds: int,
        save: Callable[[str, RunRecord], None],
    ) -> None:
        self._requests, self._clock, self._rounds, self._budget_s = requests, around.clock, rounds, budget_s
        self._started_s = around.clock.now_s()
        reading_s = min(MAX_BANDWIDTH_BUDGET_S, BANDWIDTH_SHARE * budget_s)
        self._machine = OneReading(around.machine, budget_s=reading_s)
        sessions = [interleaved_of(record)["session"] for record in earlier.values()]
        self._session = sessions[0] if sessions else uuid.uuid4().hex
        self._turns = [
            self._turn(name, request, around, earlier.get(name), partial(save, name))
            for name, request in requests.items()
        ]
        self._plan: SeriesPlan
        self._watch: Watch
        self._warnings: list[str] = []

    def _turn(
        self,
        name: str,
        request: RunRequest,
        around: Surroundings,
        earlier: RunRecord | None,
        save: Callable[[RunRecord], None],
    ) -> Turn:
        own = replace(around, machine=self._machine, progress=partial(_tell, around.progress, name), save=save)
        share = replace(request, budget_s=self._budget_s / len(self._requests))
        with named(name):
            return Turn(name, share, file_of(name, request), own, earlier)

    def check_fits(self) -> None:
        """Refuse to measure some of them where one does not fit in memory."""
        for turn in self._turns:
            with named(turn.name):
                turn.check_fits()

    def run(self, stack: ExitStack) -> dict[str, RunRecord]:
        """Do all of it; the stack closes what is open."""
        able, records = [], {}
        for turn in self._turns:
            stack.callback(turn.close)
            with named(turn.name):
                if turn.begin():
                    able.append(turn)
                else:
                    records[turn.name] = turn.finish(None)
        if able:
            records |= self._measure(able)
        return {name: records[name] for name in self._requests}

    def _measure(self, able: Sequence[Turn]) -> dict[str, RunRecord]:
        together = self._fit_together(able)
        self._settle(able, together=together)
        self._plan = self._planned(able, together=together)
        company = Company(session=self._session, names=tuple(turn.name for turn in able))
        for turn in able:
            with named(turn.name):
                turn.plan(self._plan, company)
        self._watch = Watch(self._machine.contention(max(turn.threads for turn in able)))
        started_s = self._clock.now_s()
        if together:
            self._sit_together(able, started_s)
        else:
            for stage in self._stages(together=False):
                self._repeat(able, stage, started_s, together=False)
        for turn in able:
            turn.close()
        reading = self._watch.reading()
        return {turn.name: turn.finish(reading, self._warnings) for turn in able}

    # -- before the rounds --------------------------------------------------------------------------------------------

    def _fit_together(self, able: Sequence[Turn]) -> bool:
        """Whether weights and caches of all fit in the memory at once; how much a GPU has of it is not known."""
        needed, usable = sum(turn.needed_bytes for turn in able), min(turn.usable_bytes for turn in able)
        why = f"the {len(able)} models need {format_memory(needed)} together and {format_memory(usable)} can be used"
        if any(self._requests[turn.name].n_gpu_layers for turn in able):
            why = "whether the GPU has room for all models together is not known"
        elif needed <= usable:
            return True
        if len(able) == 1:
            return True
        self._warnings.append(
            f"{why}: each was loaded anew for every round, which leaves more time between their turns"
        )
        return False

    def _settle(self, able: Sequence[Turn], *, together: bool) -> None:
        """Load all; those that go on come first: their threads were chosen already."""
        common = Common()
        for turn in sorted(able, key=lambda turn: not turn.goes_on):
            with named(turn.name):
                common = turn.settle(common)
            if not together:
                turn.close()

    def _planned(self, able: Sequence[Turn], *, together: bool) -> SeriesPlan:
        """Lengths and steps for all alike, that the rest of the budget can repeat."""
        request = replace(self._requests[able[0].name], budget_s=self._budget_s)
        left_s = max(
            self._budget_s - (self._clock.now_s() - self._started_s),
            self._budget_s * LEAST_SHARE_LEFT,
        )
        loads_s = 0.0 if together else LEAST_ROUNDS * sum(turn.load_s for turn in able)
        token_s = sum(turn.impression.prefill_token_s for turn in able)
        evaluating_s = max(left_s - loads_s, left_s * LEAST_SHARE_LEFT)
        fillings = 2 if together else LEAST_ROUNDS  # of deep caches: once before and once behind loading again
        lengths: Lengths = next(
            (found for turn in able if (found := turn.earlier_lengths) is not None),
            affordable_lengths(request, token_s, evaluating_s, fillings=fillings),
        )
        self._warnings += shortening_warnings(request, lengths, token_s)
        step_s = sum(turn.impression.step_s for turn in able) / len(able)
        # Pieces of a model whose cache cannot be cut would begin behind other models' turns, and those of the others behind a step of their own.
        in_pieces = together and all(turn.can_cut for turn in able)
        return SeriesPlan(
            prompt_tokens=lengths.prompt_tokens,
            depth=lengths.depth,
            # The same for all: a repetition of more steps would decode behind a deeper cache on average.
            steps=steps_per_repetition(step_s),
            piece_steps=max(1, round(PIECE_S / step_s)) if in_pieces else None,
            wakes=in_pieces and step_s < LONG_STEP_S,
            budget_s=left_s,
            rule=request.rule,
            prompt=request.prompt,
            batch=request.batch,
        )

    # -- rounds -------------------------------------------------------------------------------------------------------

    def _stages(self, *, together: bool) -> list[Stage]:
        """What is repeated in the same rounds, one stage after the other.

        A deep cache stays filled as long as nothing else is evaluated, so its rounds are made before those of the prompt.
        """
        if self._plan.depth <= self._plan.prompt_tokens:
            return [Stage(parts=(Part.SHALLOW,), rounds=self._rounds)]
        if together:
            deep = Stage(parts=(Part.DEEP,), rounds=self._rounds, until=DEEP_SHARE)
            return [deep, Stage(parts=(Part.SHALLOW,), rounds=self._rounds)]
        return [Stage(parts=(Part.DEEP, Part.SHALLOW), rounds=self._rounds)]

    def _sit_together(self, able: Sequence[Turn], started_s: float) -> None:
        """All stages with all sessions open, which are closed and opened in the opposite order where :func:`~suffice.measure.rounds.sittings_of` says so."""
        loads_s = sum(turn.reopen_s for turn in able)
        sittings = sittings_of(self._stages(together=True), loads_s, self._plan.budget_s)
        is_reversed = was_reversed = False
        for number, stages in enumerate(sittings):
            if number and not any(self._is_due(able, stage, started_s) for stage in stages):
                continue
            if number:
                is_reversed = not is_reversed
                self._reopen(able[::-1] if is_reversed else able)
            before = self._made(able)
            with self._watch.watched(), self._observer(able) as observer:
                for turn in able:
                    turn.observer = observer
                for stage in stages:
                    self._repeat(able, stage, started_s, together=True)
                if observer is not None:
                    observer.prepare(always=True)
            was_reversed = was_reversed or (is_reversed and self._made(able) > before)
        if len(able) > 1 and not was_reversed:
            self._warnings.append(OPENED_ONCE)
            for turn in able:
                turn.opened_once = True

    def _is_due(self, able: Sequence[Turn], stage: Stage, started_s: float, round_s: float = 0.0) -> bool:
        """Whether another round of a stage is to be made, which takes about ``round_s``."""
        done = self._done(able, stage)
        is_over = self._clock.now_s() - started_s + round_s > stage.until * self._plan.budget_s
        return done < stage.rounds and not (done >= stage.least and is_over)

    @staticmethod
    def _done(able: Sequence[Turn], stage: Stage) -> int:
        return len(set.intersection(*(turn.rounds_of(stage.parts) for turn in able)))

    def _made(self, able: Sequence[Turn]) -> int:
        """Rounds of all stages so far."""
        return sum(self._done(able, stage) for stage in self._stages(together=True))

    def _reopen(self, able: Sequence[Turn]) -> None:
        for turn in able:
            turn.close()
        for turn in able:
            turn.tell("loading again, in the opposite order")
            with named(turn.name):
                turn.open()

    def _observer(self, able: Sequence[Turn]) -> AbstractContextManager[Observer | None]:
        """Whoever watches each repetition of all: only where none is on a GPU."""
        if any(self._requests[turn.name].n_gpu_layers for turn in able):
            return nullcontext()
        observer = self._machine.observer([turn.pid for turn in able], max(turn.threads for turn in able))
        return nullcontext() if observer is None else observer

    def _repeat(self, able: Sequence[Turn], stage: Stage, started_s: float, *, together: bool) -> None:
        round_s, has_filled = 0.0, False
        while self._is_due(able, stage, started_s, round_s):
            before_s = self._clock.now_s()
            self._round(able, stage.parts, self._done(able, stage), together=together)
            # The first round fills deep caches, the others find them so.
            round_s, has_filled = (self._clock.now_s() - before_s if has_filled or not together else 0.0), True
        is_whole = self._done(able, stage) >= self._rounds
        for turn in able:
            turn.stop(stage.parts, StopReason.MAXIMUM if is_whole else StopReason.BUDGET)

    def _round(self, able: Sequence[Turn], parts: tuple[Part, ...], done: int, *, together: bool) -> None:
        # A round that was interrupted is not gone on with: those who had their turn would be compared with another time.
        number = 1 + max(turn.last_round for turn in able)
        deep, prompt = f"decode behind {self._plan.depth} tokens", f"a prompt of {self._plan.prompt_tokens} tokens"
        what = " and ".join(text for part, text in ((Part.DEEP, deep), (Part.SHALLOW, prompt)) if part in parts)
        for place in balanced_order(len(able), number - 1):
            able[place].tell(f"round {done + 1} of {self._rounds}, {what}")
            if not together:
                self._visit_closed(able[place], parts, number)
        if together:
            take_turns({turn.name: turn.pieces(parts, number) for turn in able}, number - 1)
        for turn in able:
            turn.keep()

    def _visit_closed(self, turn: Turn, parts: tuple[Part, ...], number: int) -> None:
        with named(turn.name):
            turn.open()
            # The file that is read while it is loaded is not the model that leaves the memory.
            with self._watch.watched():
                for _ in turn.pieces(parts, number, REOPENED_REPETITIONS):
                    pass
            turn.close()


def _tell(progress: Callable[[str], None], name: str, step: str) -> None:
    progress(f"{name}: {step}")
