"""Published measurements of devices: when a device, a model and a format were measured, that row is worth more than any prediction."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from suffice.predict.device_classes import classify
from suffice.predict.device_measured import NOT_THE_BANDWIDTH, WRONG, read_measured
from suffice.predict.device_models import catalogue_model
from suffice.predict.device_words import quant_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from suffice.catalogue.entries import Device

COLUMNS: Final = (
    "hardware", "kind", "product", "model", "catalogue_model", "quant", "engine", "engine_version", "n_prompt", "n_gen", "depth",
    "prefill_tok_s", "decode_tok_s", "threads", "date", "source",
)  # fmt: skip
_MONTHS: Final = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_DATE: Final = re.compile(rf"\b20[12]\d-\d\d(?:-\d\d)?\b|\b(?:{_MONTHS})[a-z]* 20[12]\d\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredElsewhere:
    """What somebody published. None: the source does not say it.

    ``date`` is that of the measurement; most sources have a version of the engine or of the file instead.
    """

    hardware: str
    model: str
    quant: str
    engine: str
    engine_version: str | None
    prompt_tokens: int | None
    generated_tokens: int | None
    depth: int | None
    prefill_tokens_per_second: float | None
    decode_tokens_per_second: float | None
    threads: int | None
    date: str | None
    source: str


def measured_elsewhere(device: Device, model: str, quant: str) -> tuple[MeasuredElsewhere, ...]:
    """The published rows of this device, model and format, the shortest context first; empty: nobody published one.

    Args:
        device: of the catalogue. A product that comes with several memories or bandwidths has the rows of all of them.
        model: a catalogue id or a name in the wild; the same shape counts as the same model.
        quant: a recipe or another format, in any spelling.
    """
    kind = "apple" if "apple" in device.name.lower() and device.kind != "cpu" else device.kind
    key = classify(device.name, kind).key
    known = quant_format(quant)
    wanted = catalogue_model(model)
    if key is None or known is None or wanted is None:
        return ()
    found = [row for row in _table().get((key, wanted), ()) if _same_format(row.quant, quant)]
    return tuple(sorted(found, key=lambda row: (row.depth or 0) + (row.generated_tokens or 0)))


def elsewhere_rows(published: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """The rows of ``measured.csv`` that may be shown: nothing is known to be wrong with them, and they are of one stream on one device."""
    rows = []
    for raw in published:
        row = read_measured(raw)
        if row.refusal or row.case is None or row.case.device.key is None:
            continue
        if row.flags & (WRONG | NOT_THE_BANDWIDTH | {"batched", "multi_gpu"}):
            continue
        date = _DATE.search(f"{raw['engine_version']} {raw['notes']} {raw['source']}")
        rows.append(
            {
                "hardware": row.hardware,
                "kind": row.kind,
                "product": row.product,
                "model": row.model,
                "catalogue_model": catalogue_model(row.model) or "",
                "quant": row.quant,
                "engine": row.engine,
                "engine_version": raw["engine_version"],
                "n_prompt": raw["n_prompt"],
                "n_gen": raw["n_gen"],
                "depth": raw["depth_or_context"],
                "prefill_tok_s": raw["prefill_tok_s"],
                "decode_tok_s": raw["decode_tok_s"],
                "threads": raw["threads_or_gpus"] if row.kind == "cpu" else "",
                "date": date[0] if date else "",
                "source": row.source,
            }
        )
    return rows


def _same_format(one: str, other: str) -> bool:
    first, second = quant_format(one), quant_format(other)
    return first is not None and second is not None and (first.recipe or first) == (second.recipe or second)


@cache
def _table() -> Mapping[tuple[str, str], tuple[MeasuredElsewhere, ...]]:
    text = files("suffice.predict").joinpath("data/device_elsewhere.csv").read_text(encoding="utf-8")
    table: dict[tuple[str, str], list[MeasuredElsewhere]] = {}
    for row in csv.DictReader(text.splitlines()):
        if row["catalogue_model"]:
            table.setdefault((row["product"], row["catalogue_model"]), []).append(_entry(row))
    return {key: tuple(rows) for key, rows in table.items()}


def _entry(row: Mapping[str, str]) -> MeasuredElsewhere:
    return MeasuredElsewhere(
        hardware=row["hardware"],
        model=row["model"],
        quant=row["quant"],
        engine=row["engine"],
        engine_version=row["engine_version"] or None,
        prompt_tokens=_whole(row["n_prompt"]),
        generated_tokens=_whole(row["n_gen"]),
        depth=_whole(row["depth"]),
        prefill_tokens_per_second=_rate(row["prefill_tok_s"]),
        decode_tokens_per_second=_rate(row["decode_tok_s"]),
        threads=_whole(row["threads"]),
        date=row["date"] or None,
        source=row["source"],
    )


def _whole(text: str) -> int | None:
    return int(float(text)) if text.strip() else None


def _rate(text: str) -> float | None:
    return float(text) if text.strip() else None
