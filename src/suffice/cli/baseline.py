"""``suffice baseline``: the run that later ones are held against, a run record in a file that goes into git."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from suffice.cli import options
from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.decide.guard_fingerprint import Comparison
    from suffice.decide.guard_types import GuardCheck
    from suffice.records.schema import RunRecord

DEFAULT_BASELINE: Final = Path("suffice-baseline.json")
_INCONCLUSIVE: Final = 3
BaselineFile = Annotated[Path, typer.Option("--baseline", metavar="BASE", help="The baseline's file.")]


def build_baseline_app() -> typer.Typer:
    """The command's subcommands."""
    app = options.group(
        "The run that later ones are held against (suffice guard RUN --baseline BASE): a plain run record, to be kept in git."
    )
    app.command("set")(set_baseline)
    app.command("show")(show)
    app.command("diff")(diff)
    return app


def set_baseline(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run record, or llama-bench's JSON.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to keep the baseline.")] = DEFAULT_BASELINE,
    force: Annotated[
        bool, typer.Option("--force", help="Also a run that a guard will not take for evidence (busy, unfinished).")
    ] = False,
    json_output: options.Json = False,
) -> None:
    """Make a run the baseline, raw samples and all: it can be judged again by any later rule. What it replaces is compared.

    Example: suffice baseline set run.json
    """
    from suffice.cli.output import print_json, print_text
    from suffice.cli.paths import check_outputs
    from suffice.loaders.any_record import load_any_record
    from suffice.records.store import load_record, save_record
    from suffice.report.guard import comparison_document, comparison_text

    check_outputs({"--out": out}, [run])
    record = load_any_record(run)
    _check_evidence(record, run, force=force)
    earlier = load_record(out) if out.exists() else None
    save_record(record, out)
    if json_output:
        replaced = None if earlier is None else comparison_document(_compared(earlier, record, out, run)[0])
        print_json({"baseline": str(out), "replaced": replaced})
        return
    print_text(f"baseline: {out} is {run.name} now")
    if earlier is not None:
        print_text(f"the one before: {comparison_text(*_compared(earlier, record, out, run))}")


def _check_evidence(record: RunRecord, run: Path, *, force: bool) -> None:
    from suffice.decide.guard_facts import facts_of

    facts = facts_of(record, run.name)
    if not facts.figures:
        raise UsageError(f"{run} holds no figure that could be compared")
    doubt = next(iter((*facts.busy, *facts.doubts)), None)
    if doubt is not None and not force:
        raise UsageError(
            f"{run} is no evidence: {doubt}; every guard against it would be inconclusive. Measure again, or give --force"
        )


def _compared(base: RunRecord, new: RunRecord, base_file: Path, run: Path) -> tuple[Comparison, list[GuardCheck]]:
    from suffice.decide.compare_runs import compare_with_baseline
    from suffice.decide.guard_facts import facts_of
    from suffice.decide.guard_types import COMPARED

    return compare_with_baseline(facts_of(base, base_file.name), facts_of(new, run.name), metrics=COMPARED)


def show(
    baseline: Annotated[Path, typer.Argument(metavar="[BASE]", help="The baseline's file.")] = DEFAULT_BASELINE,
    json_output: options.Json = False,
) -> None:
    """The baseline: its figures with their intervals, and its fingerprint.

    Example: suffice baseline show
    """
    from suffice.cli.output import print_json, print_text
    from suffice.decide.guard_facts import facts_of
    from suffice.loaders.any_record import load_any_record
    from suffice.report.run import run_text
    from suffice.report.tables import plain_table

    record = load_any_record(baseline)
    facts = facts_of(record, baseline.name)
    if json_output:
        figures = {
            metric.value: {"point": one.quantity.point, "low": one.quantity.low, "high": one.quantity.high}
            for metric, one in facts.figures.items()
            if one.quantity is not None
        }
        print_json(
            {
                "baseline": str(baseline),
                "created_at": record.created_at,
                "figures": figures,
                "fingerprint": facts.fingerprint,
                "busy": list(facts.busy),
                "doubts": list(facts.doubts),
            }
        )
        return
    print_text(run_text(record))
    rows = [["fingerprint", "value"], *([name, str(value)] for name, value in facts.fingerprint.items())]
    print_text(f"\n{plain_table(rows)}")


def diff(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run record.")],
    baseline: BaselineFile = DEFAULT_BASELINE,
    json_output: options.Json = False,
) -> None:
    """How a run differs from the baseline: figures, and every field of the fingerprint. Nothing is judged.

    Exit code 0: the two are comparable, or after normalisation; 3: they are not.

    Example: suffice baseline diff run.json
    """
    from dataclasses import asdict

    from suffice.cli.output import print_json, print_text
    from suffice.decide.guard_fingerprint import Comparability
    from suffice.loaders.any_record import load_any_record
    from suffice.report.guard import comparison_document, comparison_text

    comparison, checks = _compared(load_any_record(baseline), load_any_record(run), baseline, run)
    if json_output:
        print_json({**comparison_document(comparison), "checks": [asdict(check) for check in checks]})
    else:
        print_text(comparison_text(comparison, checks))
    raise typer.Exit(_INCONCLUSIVE if comparison.comparability is Comparability.NOT_COMPARABLE else 0)
