"""A record against everything that was asked of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from suffice.decide.guard_fingerprint import Comparison
    from suffice.decide.guard_types import GuardCheck, GuardResult, Limit, Metric, RunFacts
    from suffice.decide.quality import QualityEvidence
    from suffice.model.demand import Demand
    from suffice.records.schema import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a run is held against. ``history`` holds its runs, oldest first; None: none was given."""

    limits: tuple[Limit, ...]
    metrics: tuple[Metric, ...]
    tolerance: float
    baseline: tuple[Path, RunRecord] | None = None
    history: tuple[RunFacts, ...] | None = None
    demand: Demand | None = None
    quality: tuple[Path, ...] = ()


def judge(record: RunRecord, name: str, asked: Asked) -> GuardResult:
    """All checks of one record, as one result.

    Raises:
        UsageError: a comparison of ``--quality`` that does not hold the model.
        DemandError: the model cannot hold the context that the demand needs.
    """
    from suffice.decide.guard import check_verdict, result_of
    from suffice.decide.guard_limits import check_limit

    facts = run_facts(record, name, asked)
    checks = [check_limit(facts, limit) for limit in asked.limits]
    comparison, compared, base = _compared(facts, asked)
    checks += compared
    if facts.verdict is not None:
        checks.append(_flip(facts, base, comparison) if base is not None else check_verdict(facts.verdict, None))
    result = result_of(checks, record.decode_tokens_per_second, _causes(base, facts, comparison))
    return replace(result, comparison=comparison, notes=_notes(record))


def run_facts(record: RunRecord, name: str, asked: Asked) -> RunFacts:
    """What a guard needs of a record, its verdict included where there is a demand."""
    from suffice.decide.guard_facts import facts_of

    facts = facts_of(record, name, _quality(record, asked))
    return facts if asked.demand is None else with_verdict(facts, record, asked.demand)


def with_verdict(facts: RunFacts, record: RunRecord, demand: Demand) -> RunFacts:
    """The same with the verdict of a demand on that record."""
    from suffice.decide.evidence import evidence_from
    from suffice.decide.verdict import decide_machine

    verdict = decide_machine(demand, evidence_from(record)).verdict
    return replace(facts, verdict=verdict, demand=demand_identity(demand))


def demand_identity(demand: Demand) -> str:
    """A hash of what is demanded: two verdicts of different demands are no flip."""
    import hashlib

    from suffice.loaders.json_lines import canonical_json

    return hashlib.sha256(canonical_json(asdict(demand)).encode()).hexdigest()


def _compared(facts: RunFacts, asked: Asked) -> tuple[Comparison | None, list[GuardCheck], RunFacts | None]:
    """How it compares, the checks, and the run that it was compared with."""
    from suffice.decide.compare_runs import base_of_history, compare_with_baseline, compare_with_history

    if asked.baseline is not None:
        path, record = asked.baseline
        base = run_facts(record, path.name, replace(asked, quality=()))
        comparison, checks = compare_with_baseline(base, facts, tolerance=asked.tolerance, metrics=asked.metrics)
        return comparison, checks, base
    if asked.history is not None:
        found, checks = compare_with_history(asked.history, facts, tolerance=asked.tolerance, metrics=asked.metrics)
        return found, checks, base_of_history(asked.history, facts, asked.metrics)
    return None, [], None


def _flip(facts: RunFacts, base: RunFacts, comparison: Comparison | None) -> GuardCheck:
    from suffice.decide.guard import check_verdict
    from suffice.decide.guard_types import CheckKind, GuardCheck, Outcome

    if base.verdict is None or base.demand != facts.demand:
        why = "no verdict" if base.verdict is None else "the verdict of another demand"
        reason = f"verdict {facts.verdict}, and {base.name} holds {why}"
        return GuardCheck(name="verdict", kind=CheckKind.VERDICT, outcome=Outcome.INCONCLUSIVE, reason=reason)
    return check_verdict(facts.verdict or "", base.verdict, "" if comparison is None else comparison.reason)


def _causes(base: RunFacts | None, facts: RunFacts, comparison: Comparison | None) -> list[str]:
    from suffice.decide.guard import likely_causes

    return [] if base is None or comparison is None else likely_causes(base, facts, comparison)


def _notes(record: RunRecord) -> tuple[str, ...]:
    if record.disturbed is None and record.decode_tokens_per_second is not None:
        return ("the record does not say whether the machine was busy while it was measured",)
    return ()


def _quality(record: RunRecord, asked: Asked) -> QualityEvidence | None:
    from suffice.decide.guard_types import Metric
    from suffice.decide.quants import compare_quality
    from suffice.decide.quants_evidence import quality_evidence
    from suffice.decide.quants_types import QualityPolicy
    from suffice.records.quants_store import load_quants

    floor = next((limit.value for limit in asked.limits if limit.metric is Metric.QUALITY), None)
    for path in asked.quality:
        kept = load_quants(path)
        names = [one.subject.name for one in kept.models if one.subject.identity == record.model.identity]
        if names and record.model.identity is not None:
            return quality_evidence(compare_quality(kept, QualityPolicy(floor=floor)), names[0], source=path.name)
    if asked.quality:
        files: Sequence[str] = [path.name for path in asked.quality]
        raise UsageError(f"--quality {', '.join(files)}: the model of the run was not compared there")
    return None
