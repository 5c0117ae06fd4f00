"""The work of `quants`: compare, judge, print; what the machine's verdict is with each candidate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from suffice.errors import EngineError, SufficeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from suffice.cli.output import Progress
    from suffice.cli.quants_asked import QuantsOptions
    from suffice.decide.quants_conclusion import Conclusions
    from suffice.decide.quants_types import QualityPolicy
    from suffice.model.demand import Demand
    from suffice.model.quants import QuantsRecord
    from suffice.quants.speeds import Speeds
    from suffice.quants.subjects import LocalModel
    from suffice.records.schema import RunRecord

_SPEED_BUDGET_S: Final = 20.0  # of each model
_PASSED, _FAILED, _OPEN = 0, 1, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """A comparison with the speeds by name; ``folder`` None: logs were compared, which keep nothing."""

    record: QuantsRecord
    speeds: Mapping[str, RunRecord]
    folder: Path | None = None


def run(asked: QuantsOptions, *, json_output: bool) -> int:
    """Compare, print, write what was asked for, and return the exit code.

    Raises:
        SufficeError: see :func:`suffice.quants.workflow.compare_models`; or a file could not be written, after the report was printed.
    """
    from suffice.cli.output import Progress, print_json, print_text
    from suffice.cli.quants_flags import check_flags
    from suffice.cli.quants_outputs import check_asked_outputs, write_outputs
    from suffice.decide.quants_conclusion import conclude
    from suffice.report.quants import quants_text
    from suffice.report.quants_document import quants_document

    check_flags(asked)
    check_asked_outputs(asked)
    demand = asked.demand()
    policy = asked.policy(demand)
    with Progress() as progress:
        found = _compared(asked, demand, progress)
    record = replace(found.record, notes=(*found.record.notes, *_demand_notes(demand, found.record)))
    verdicts = {} if demand is None else _verdicts(demand, record, policy, found.speeds)
    conclusions = conclude(record, policy, found.speeds, verdicts)
    if json_output:
        print_json(quants_document(conclusions))
    else:
        print_text(quants_text(conclusions))
        if found.folder is not None:
            print_text(f"\ncomparison  {found.folder}")
    write_outputs(asked, conclusions, demand)  # last: whatever becomes of the files, the report is there
    return _exit_code(conclusions)


def _demand_notes(demand: Demand | None, record: QuantsRecord) -> tuple[str, ...]:
    """What of a demand is not judged here."""
    from suffice.model.quants import SubjectKind
    from suffice.quants.respondent import SERVER_SPEED_NOTE

    kinds = {model.subject.kind for model in record.models}
    notes = {
        SERVER_SPEED_NOTE: SubjectKind.SERVER in kinds,
        "logs tell no speed: of the demand only the quality is judged": SubjectKind.LOG in kinds,
    }
    return () if demand is None else tuple(note for note, holds in notes.items() if holds)


def _compared(asked: QuantsOptions, demand: Demand | None, progress: Progress) -> _Compared:
    from suffice.quants.logs import record_of_logs

    if asked.logs:
        return _Compared(record=record_of_logs(asked.sample_logs()), speeds={})
    if asked.from_folder is not None:
        return _with_speeds(*_kept(asked.from_folder))
    folder = asked.new_folder()
    try:
        record = _asked_here(asked, folder, demand, progress)
    except (KeyboardInterrupt, EngineError):
        _tell_how_to_go_on(folder)
        raise
    return _with_speeds(record, folder)


def _kept(place: Path) -> tuple[QuantsRecord, Path]:
    """The comparison of a folder, or in a file of one.

    Raises:
        UsageError: there is none.
        RecordError: it cannot be read.
    """
    from suffice.quants.folder import RECORD_NAME
    from suffice.records.quants_store import load_quants

    path = place / RECORD_NAME if place.is_dir() else place
    if not path.exists():
        raise UsageError(
            f"{place} holds no comparison yet, which begins when the reference has answered; go on with it by --resume"
        )
    return load_quants(path), path.parent


def _with_speeds(record: QuantsRecord, folder: Path) -> _Compared:
    from suffice.quants.speeds import kept_speeds, speed_warnings

    speeds, notes = kept_speeds(record, folder)
    unfinished = () if record.complete else ("the comparison is not finished; go on with it by --resume",)
    record = replace(record, notes=(*record.notes, *notes, *speed_warnings(speeds), *unfinished))
    return _Compared(record=record, speeds=speeds, folder=folder)


def _tell_how_to_go_on(folder: Path) -> None:
    """Where what was answered is, for whoever did not name the folder."""
    from suffice.cli.output import say
    from suffice.quants.asking import ANSWERS_FOLDER

    if (folder / ANSWERS_FOLDER).is_dir():
        say(f"what was answered is kept; go on with: suffice quants ... --out {folder} --resume")


def _asked_here(asked: QuantsOptions, folder: Path, demand: Demand | None, progress: Progress) -> QuantsRecord:
    from suffice.cli.session import engine_of
    from suffice.loaders.item_functions import load_functions
    from suffice.measure.engine.quantizer import find_quantizer
    from suffice.quants.made_store import MadeStore
    from suffice.quants.workflow import Around, Job, compare_models

    parties, items = asked.parties(), asked.item_set()
    functions = load_functions(items.items, folder=asked.items.parent) if asked.items is not None else {}
    budget_s = asked.budget_s or _SPEED_BUDGET_S * len(parties)
    engine = cache(lambda: engine_of(asked.engine, asked.engine_library, longest_budget_s=budget_s))
    job = Job(
        parties=parties,
        items=items,
        folder=folder,
        functions=functions,
        options=asked.ask_options(),
        texts=asked.texts,
        text_tokens=asked.text_tokens,
        distances=asked.distance,
        imatrix=asked.imatrix,
        ca_file=asked.ca_file,
        resume=asked.resume,
    )
    around = Around(
        engine=engine,
        quantizer=cache(lambda: find_quantizer(asked.engine_library, asked.engine)),
        store=cache(MadeStore),
        progress=progress,
        speed=_speed_of(asked, demand, budget_s, progress) if asked.speed else None,
    )
    return compare_models(job, around)


def _speed_of(
    asked: QuantsOptions, demand: Demand | None, budget_s: float, progress: Progress
) -> Callable[[Mapping[str, LocalModel], Mapping[str, Path]], Speeds]:
    """What measures files side by side and keeps their records."""

    def measure(models: Mapping[str, LocalModel], paths: Mapping[str, Path]) -> Speeds:
        from suffice.cli.asked import RunOptions
        from suffice.cli.session import EngineChoice, Workbench
        from suffice.loaders.model_file import open_model_file
        from suffice.quants.speeds import earlier_speeds, measure_speeds
        from suffice.records.store import save_record

        options = RunOptions(budget_s=budget_s, threads=asked.threads)
        requests = {name: options.request(open_model_file(model.path), demand) for name, model in models.items()}
        choice = EngineChoice(name=asked.engine, library=asked.engine_library)

        def save(name: str, record: RunRecord) -> None:
            save_record(record, paths[name])

        with Workbench(choice, longest_budget_s=budget_s, shared=True) as bench:

            def together(names: Sequence[str], goes_on: bool) -> Mapping[str, RunRecord]:
                earlier = earlier_speeds(models, paths) if goes_on else {}
                wanted = {name: requests[name] for name in names}
                return bench.side_by_side(wanted, save, progress, budget_s=budget_s, earlier=earlier)

            progress(f"speed: {len(requests)} models side by side, about {budget_s:.0f} s for all together (--budget)")
            return measure_speeds(tuple(requests), together, resume=asked.resume, progress=progress)

    return measure


def _verdicts(
    demand: Demand, record: QuantsRecord, policy: QualityPolicy, speeds: Mapping[str, RunRecord]
) -> dict[str, tuple[str, str]]:
    """The machine's verdict with the reference and with each candidate that was measured, quality and all."""
    from suffice.decide.evidence import evidence_from
    from suffice.decide.quants import compare_quality
    from suffice.decide.quants_evidence import quality_evidence
    from suffice.decide.verdict import decide_machine

    wanted = replace(demand, quality_floor=policy.floor, quality_max_loss=policy.max_loss, model=None)
    comparison = compare_quality(record, policy)

    def verdict(name: str) -> str | None:
        if name not in speeds:
            return None
        quality = quality_evidence(comparison, name, source="this comparison")
        try:
            return decide_machine(wanted, replace(evidence_from(speeds[name]), quality=quality)).verdict
        except SufficeError:
            return None  # a demand that this model cannot hold

    before = verdict(record.reference.subject.name)
    after = {one.subject.name: verdict(one.subject.name) for one in record.candidates}
    return {name: (before, word) for name, word in after.items() if before is not None and word is not None}


def _exit_code(conclusions: Conclusions) -> int:
    decisions = [one.decision for one in conclusions.quality.candidates]
    if "passes" in decisions:
        return _PASSED
    return _FAILED if decisions and all(decision == "fails" for decision in decisions) else _OPEN
