"""`suffice plan` for a training: which machine trains the model in the time and for the money there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.catalogue.catalogue import Catalogue
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.shape_model import ShapeModel
    from suffice.model.training import TrainingDemand
    from suffice.records.schema import RunRecord

# By grade, as a verdict's: a thin margin still reaches what is asked for.
_EXIT_CODES: Final = {"enough": 0, "thin": 0, "not enough": 1, "open": 3}


def plan_training(
    demand: TrainingDemand,
    model: ModelFile | ShapeModel,
    catalogue: Catalogue,
    runs: Sequence[RunRecord],
    *,
    json_output: bool,
    out: Path | None = None,
    max_machines: int | None = None,
    margin: float | None = None,
) -> int:
    """Print the plan of a training; the exit code of the command: 0 where an option is enough, 1 where none is, 3 where that is open.

    Args:
        demand: what is to be trained.
        model: that is trained.
        catalogue: machines to rent and accelerators.
        runs: records of machines at hand.
        json_output: print one JSON document instead of text.
        out: a file for the plan, Markdown, or JSON where its name ends so; None: none.
        max_machines: of a kind that are tried; None: our default.
        margin: on time, from the command line, which wins; None: that of the demand.

    Raises:
        UsageError: the operations of the model are not known, or it has no place for such adapters.
        OutputError: the file could not be written.
    """
    from suffice.cli.output import print_json, print_text
    from suffice.loaders.training_plan import MOST_MACHINES, plan_of_training
    from suffice.records.store import write_atomically
    from suffice.report.json_values import json_text
    from suffice.report.training import training_document, training_markdown, training_text

    demand = demand if margin is None else replace(demand, margin=margin)
    plan = plan_of_training(
        demand, model, catalogue, runs, max_machines=MOST_MACHINES if max_machines is None else max_machines
    )
    if out is not None:
        as_json = out.suffix.lower() == ".json"
        text = json_text(training_document(plan, demand)) + "\n" if as_json else training_markdown(plan, demand)
        write_atomically(out, text)
    if json_output:
        print_json(training_document(plan, demand))
    else:
        print_text(training_text(plan, demand))
    return _EXIT_CODES[plan.grade.value]


def refuse_serving_options(given: Mapping[str, object]) -> None:
    """Refuse options of `suffice plan` that are about serving: to leave them aside would be to answer another question.

    Args:
        given: flag -> what was given; None, False and what is empty was not.

    Raises:
        UsageError: one of them was.
    """
    others = [flag for flag, value in given.items() if value not in (None, False, (), [])]
    if others:
        raise UsageError(
            f"{', '.join(others)}: about serving, and this demand is of a training, which takes --model, --run, --max-machines, --margin, "
            "--catalog, --out and --json; leave it out"
        )
