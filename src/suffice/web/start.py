"""Reads what the page is started with: records, demand, model and catalogue, each once."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.loaders.any_record import load_any_record
from suffice.loaders.catalogue import load_catalogue
from suffice.loaders.demand_toml import read_demand_file
from suffice.web.answer import Bench
from suffice.web.choices import Models
from suffice.web.form import Opened, default_form, opened, with_choice
from suffice.web.page import Pages, Setting
from suffice.web.runs import NamedRecord
from suffice.web.server import Site

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What the command line names.

    Attributes:
        runs: run records.
        demand: file of the demand; it need not be there yet.
        model: reference; None: the demand's, else the records', else one of the catalogue.
        catalog: the user's own entries.
    """

    runs: tuple[Path, ...] = ()
    demand: Path | None = None
    model: str | None = None
    catalog: Path | None = None


def started(start: Start) -> Site:
    """All that is served.

    Raises:
        SufficeError: a file cannot be read, or is wrong.
    """
    records = [NamedRecord(file=path.name, record=load_any_record(path)) for path in start.runs]
    found = _opened(start.demand)
    stated = start.model or found.model
    folder = start.demand.parent if start.model is None and start.demand is not None else None
    models = Models(stated, folder, [one.record for one in records])
    model, quantization = models.start
    setting = Setting(
        models=models,
        machines=tuple(dict.fromkeys(one.record.machine or one.file for one in records)),
        kept=tuple(found.kept),
        file=start.demand,
        csrf=secrets.token_urlsafe(32),
    )
    return Site(
        bench=Bench(records=records, catalogue=load_catalogue(start.catalog).catalogue, models=models, kept=found.kept),
        pages=Pages(setting),
        start=with_choice(found.form, model=model, quantization=quantization),
        save_to=None
        if start.demand is None
        else start.demand.resolve(),  # a link stays one, and leads where it led then
        csrf=setting.csrf,
    )


def _opened(path: Path | None) -> Opened:
    """The form of the demand's file; an example where there is none yet."""
    if path is None or not path.exists():
        return Opened(form=default_form(), kept={}, model=None)
    return opened(read_demand_file(path), source=path.name)
