"""Samples for calibration from tables of measurements: what may be used, and with which weight."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from suffice.predict.device_cloud import read_cloud
from suffice.predict.device_cross import Sample
from suffice.predict.device_fit import Observation
from suffice.predict.device_measured import read_measured
from suffice.predict.device_words import EngineFamily
from suffice.predict.machine import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PUBLISHED: Final = "published"
RENTED: Final = "rented"
_SILENTLY_ON_CPU: Final = 100.0  # tokens/s of prefill that every GPU of the table exceeds
_SHORTEST_PROMPT: Final = 128
_TOO_LONG_PROMPT: Final = 4096  # where attention is most of the work
_GENERATED: Final = 128
_FRAMEWORK_WEIGHT: Final = 0.1  # the host is what these rows measure: they say little about devices


def measured_samples(rows: Iterable[Mapping[str, str]], phase: Phase, *, moe: bool = False) -> list[Sample]:
    """The usable rows of ``measured.csv``; with ``moe`` also mixtures of experts whose active bytes are known."""
    samples = []
    for row in map(read_measured, rows):
        observation = row.decode if phase is Phase.DECODE else row.prefill
        if observation is None or not (row.usable or (moe and row.usable_moe)):
            continue
        if row.usable_moe and not moe:
            continue
        weight = _FRAMEWORK_WEIGHT if observation.case.engine is EngineFamily.FRAMEWORK else 1.0
        samples.append(
            Sample(
                observation=replace(observation, weight=weight),
                product=row.product,
                model=f"{row.model}:{row.quant}",
                source=PUBLISHED,
                kind=row.kind,
            )
        )
    return samples


def cloud_samples(rows: Sequence[Mapping[str, str]], phase: Phase) -> list[Sample]:
    """Rows of rented GPUs that ran there (some silently ran on the CPU); many machines with one product share its weight."""
    fastest: dict[tuple[str, str, str], float] = {}
    for row in rows:
        if row["llm_gpu"] and int(row["n_prompt"]) >= _SHORTEST_PROMPT:
            key = row["vendor"], row["instance"], row["model"]
            fastest[key] = max(fastest.get(key, 0.0), float(row["tok_s_median"]))
    chosen = [
        row
        for row in rows
        if row["llm_gpu"]
        and fastest.get((row["vendor"], row["instance"], row["model"]), 0.0) >= _SILENTLY_ON_CPU
        and _asked(row, phase)
    ]
    samples = [sample for row in chosen if (sample := _cloud_sample(row)) is not None]
    seen = Counter((sample.product, sample.model, sample.observation.work.count) for sample in samples)
    return [
        replace(
            sample,
            observation=replace(
                sample.observation,
                weight=seen[sample.product, sample.model, sample.observation.work.count] ** -0.5,
            ),
        )
        for sample in samples
    ]


def _asked(row: Mapping[str, str], phase: Phase) -> bool:
    prompt, generated = int(row["n_prompt"]), int(row["n_gen"])
    if phase is Phase.DECODE:
        return generated == _GENERATED and prompt == 0
    return _SHORTEST_PROMPT <= prompt < _TOO_LONG_PROMPT and generated == 0


def _cloud_sample(row: Mapping[str, str]) -> Sample | None:
    ready = read_cloud(row)
    if ready is None:
        return None
    return Sample(
        observation=Observation(case=ready.case, work=ready.work, measured_s=ready.tokens / float(row["tok_s_median"])),
        product=ready.case.device.key or row["llm_gpu"],
        model=row["model"],
        source=RENTED,
        kind="gpu",
    )
