"""The files that `suffice report` makes a page from, with one text from outside in every place that takes one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from helpers import pages
from helpers.quants import comparison, paired_scores
from helpers.records import write_json
from suffice.model.quants import Measured
from suffice.records.quants_store import save_quants
from suffice.records.schema import EngineRecord
from suffice.records.store import save_record

if TYPE_CHECKING:
    from pathlib import Path

_DEMAND: Final = """[demand]
kind = "interactive"
prompt_tokens = 100
output_tokens = 20
ttft_s = 5.0
tokens_per_second_per_user = 5
margin = 1.25
quality_floor = 0.6
quality_max_loss_points = 20
budget_per_month = 900
currency = "USD"
"""
_QUANTS: Final = (("ref", 9.0), ("c1", 24.0), ("c2", 21.0), ("c3", 16.0))
# What is written by somebody else in the documents of `suffice plan` and `suffice simulate`; the other texts are words of ours.
_FOREIGN: Final = {
    *("name", "reason", "model", "source", "region", "cost_unknown", "cheaper_below", "cheaper_above"),
    *("curve", "notes", "alternatives"),
}


def write_page_files(folder: Path, text: str, load_result: Path) -> list[str]:
    """Write them all, and answer the command line after ``suffice report``, without options of language and output.

    Args:
        folder: where they are written.
        text: it stands in names of models, machines, engines and options, in reasons, notes, warnings and sources.
        load_result: a load tool's result, of which a copy is changed.
    """
    (folder / "demand.toml").write_text(_DEMAND, encoding="utf-8")
    whole = pages.record()
    model = replace(whole.model, name=text, file_name=text, architecture=text)
    engine = EngineRecord(name=text, version=text, advice=text)
    save_record(replace(whole, machine=text, model=model, engine=engine, warnings=(text,)), folder / "run.json")
    _write_quants(folder / "quants", text)
    load = json.loads(load_result.read_text(encoding="utf-8"))
    write_json(folder / "load.json", {**load, "model_id": text, "tokenizer_id": text})
    write_json(folder / "simulated.json", _marked(pages.simulation_document(), text))
    write_json(folder / "plan.json", _marked(pages.plan_document(), text))
    given = {"quants": "quants", "load": "load.json", "simulate": "simulated.json", "plan": "plan.json"}
    options = [word for name, file in given.items() for word in (f"--{name}", str(folder / file))]
    return [str(folder / "demand.toml"), str(folder / "run.json"), *options]


def _write_quants(folder: Path, text: str) -> None:
    folder.mkdir()
    ways = [paired_scores(100, right=88, lost=lost, gained=1) for lost in (2, 3, 1)]
    record = comparison(ways[0][0], *(candidate for _, candidate in ways))
    models = tuple(
        replace(model, subject=replace(model.subject, name=f"{model.subject.name} {text}", warnings=(text,)))
        for model in record.models
    )
    measured = tuple(
        Measured(subject=f"{name} {text}", record=f"{number}.json") for number, (name, _) in enumerate(_QUANTS)
    )
    for number, (name, speed) in enumerate(_QUANTS):
        run = pages.record(decode=speed)
        save_record(
            replace(run, model=replace(run.model, sha256=f"hash of {name}", name=text)), folder / f"{number}.json"
        )
    save_quants(replace(record, models=models, measured=measured, notes=(text,)), folder / "quants.json")


def _marked(document: Any, text: str, key: str = "") -> Any:  # noqa: ANN401  # any JSON value
    """The document with the text behind every text that is somebody else's; the source of a price becomes it."""
    if isinstance(document, dict):
        return {name: _marked(value, text, name) for name, value in document.items()}
    if isinstance(document, list):
        return [_marked(value, text, key) for value in document]
    if isinstance(document, str) and key in _FOREIGN:
        return text if key == "source" else f"{document} {text}"
    return document
