"""The work of `quants`: compare, judge, print; what the machine's verdict is with each candidate."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from suffice.errors import RecordError, SufficeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from suffice.cli.output import Progress
    from suffice.cli.quants_asked import QuantsOptions
    from suffice.decide.quants_conclusion import Conclusions
    from suffice.decide.quants_types import QualityPolicy
    from suffice.loaders.model_file import ModelFile
    from suffice.model.demand import Demand
    from suffice.model.quants import QuantsRecord
    from suffice.quants.subjects import LocalModel
    from suffice.records.schema import RunRecord

_SPEED_BUDGET_S: Final = 20.0  # of each model
_PASSED, _FAILED, _OPEN = 0, 1, 3


def run(asked: QuantsOptions, *, json_output: bool) -> int:
    """Compare, print, write what was asked for, and return the exit code.

    Raises:
        SufficeError: see :func:`suffice.quants.workflow.compare_models`.
    """
    from suffice.cli.output import Progress, print_json, print_text
    from suffice.cli.paths import check_outputs
    from suffice.decide.quants_conclusion import conclude
    from suffice.report.pictures import check_chart
    from suffice.report.quants import quants_text
    from suffice.report.quants_document import quants_document

    if asked.chart is not None:
        check_chart(asked.chart)
    check_outputs({"--chart": asked.chart, "--csv": asked.csv, "--markdown": asked.markdown}, asked.inputs)
    demand = asked.demand()
    policy = asked.policy(demand)
    with Progress() as progress:
        record, speeds, folder = _compared(asked, demand, progress)
    verdicts = {} if demand is None else _verdicts(demand, record, policy, speeds)
    conclusions = conclude(record, policy, speeds, verdicts)
    _write(asked, conclusions, demand)
    if json_output:
        print_json(quants_document(conclusions))
    else:
        print_text(quants_text(conclusions))
        if folder is not None:
            print_text(f"\ncomparison  {folder}")
    return _exit_code(conclusions)


def _compared(
    asked: QuantsOptions, demand: Demand | None, progress: Progress
) -> tuple[QuantsRecord, dict[str, RunRecord], Path | None]:
    """The record, the speeds by name, and the folder; None where logs were compared, which keep nothing."""
    from suffice.quants.logs import record_of_logs

    if asked.logs:
        return record_of_logs(asked.sample_logs()), {}, None
    record, folder = _asked_here(asked, demand, progress)
    return record, kept_speeds(record, folder), folder


def _asked_here(asked: QuantsOptions, demand: Demand | None, progress: Progress) -> tuple[QuantsRecord, Path]:
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
        folder=asked.folder,
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
    return compare_models(job, around), job.folder


def _speed_of(
    asked: QuantsOptions, demand: Demand | None, budget_s: float, progress: Progress
) -> Callable[[Mapping[str, LocalModel], Path], Sequence[str]]:
    """What measures files side by side and keeps their records in a folder."""

    def measure(models: Mapping[str, LocalModel], folder: Path) -> Sequence[str]:
        from suffice.cli.asked import RunOptions
        from suffice.cli.session import EngineChoice, Workbench
        from suffice.loaders.model_file import open_model_file
        from suffice.quants.workflow import record_stem
        from suffice.records.store import load_record, save_record

        options = RunOptions(budget_s=budget_s, threads=asked.threads)
        files: dict[str, ModelFile] = {name: open_model_file(model.path) for name, model in models.items()}
        requests = {name: options.request(file, demand) for name, file in files.items()}
        paths = {name: folder / f"{record_stem(name)}.json" for name in files}
        earlier = {name: load_record(path) for name, path in paths.items() if asked.resume and path.exists()}

        def save(name: str, record: RunRecord) -> None:
            save_record(record, paths[name])

        choice = EngineChoice(name=asked.engine, library=asked.engine_library)
        with Workbench(choice, longest_budget_s=budget_s, shared=True) as bench:
            return tuple(bench.side_by_side(requests, save, progress, budget_s=budget_s, earlier=earlier))

    return measure


def kept_speeds(record: QuantsRecord, folder: Path) -> dict[str, RunRecord]:
    """The run records that belong to a comparison, by the name of the model.

    Raises:
        RecordError: one is missing, damaged, or of another model.
    """
    from suffice.records.store import load_record

    identities = {model.subject.name: model.subject.identity for model in record.models}
    found = {}
    for one in record.measured:
        path = folder / one.record
        speed = load_record(path)
        if speed.model.identity != identities.get(one.subject):
            raise RecordError(f"{path} is of another model than {one.subject}; measure it again")
        found[one.subject] = speed
    return found


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


def _write(asked: QuantsOptions, conclusions: Conclusions, demand: Demand | None) -> None:
    from suffice.records.store import write_atomically
    from suffice.report.quants import quants_markdown
    from suffice.report.quants_chart import write_quants_chart
    from suffice.report.quants_csv import quants_csv

    if asked.csv is not None:
        write_atomically(asked.csv, quants_csv(conclusions))
    if asked.markdown is not None:
        write_atomically(asked.markdown, quants_markdown(conclusions))
    if asked.chart is not None:
        need = None if demand is None else demand.required_decode_tokens_per_second
        write_quants_chart(asked.chart, conclusions, need)


def _exit_code(conclusions: Conclusions) -> int:
    decisions = [one.decision for one in conclusions.quality.candidates]
    if "passes" in decisions:
        return _PASSED
    return _FAILED if decisions and all(decision == "fails" for decision in decisions) else _OPEN
