"""A load against physics: no server writes tokens, or reads prompts, faster than its machine's ceilings. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.stats.intervals import median
from suffice.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.model.load_request import RequestRow
    from suffice.records.schema import RunRecord

# Ceilings rest on a measured bandwidth, which is a lower bound: what is above by less than its spread is no contradiction.
DEFAULT_SPREAD: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalLimits:
    """What one machine can do at most with one model.

    Attributes:
        decode_tokens_per_second: of one stream. A step reads all weights, so that no stream of a batch is faster either.
        prefill_tokens_per_second: of all prompts together; None: not known.
        spread: how far above a ceiling its bandwidth's interval reaches, as a share.
    """

    decode_tokens_per_second: float | None
    prefill_tokens_per_second: float | None = None
    spread: float = DEFAULT_SPREAD


def physical_limits(record: RunRecord) -> PhysicalLimits | None:
    """The limits in a run record: bandwidth over streamed weights alone, which is more than any step reaches; None where it has none."""
    readings = (record.bandwidth_before, record.bandwidth_after, record.cache_bandwidth)
    known = [reading for reading in readings if reading is not None]
    if record.device_kind == "gpu" or not known or not record.model.streamed_bytes:
        return None
    best = max(known, key=lambda reading: reading.read_bytes_per_s)
    high = best.interval_high_bytes_per_s or best.read_bytes_per_s
    return PhysicalLimits(
        decode_tokens_per_second=best.read_bytes_per_s / record.model.streamed_bytes,
        prefill_tokens_per_second=record.ceiling.prefill_tokens_per_second,
        spread=max(DEFAULT_SPREAD, high / best.read_bytes_per_s - 1),
    )


def contradictions_with(rows: Sequence[RequestRow], limits: PhysicalLimits) -> tuple[str, ...]:
    """In what the answers of a load are faster than physics allows, in sentences; medians over the measured answers."""
    done = [row for row in rows if row.succeeded and not row.warm_up]
    found = []
    tpot = [row.tpot_s for row in done if row.tpot_s is not None]
    ceiling = limits.decode_tokens_per_second
    if tpot and ceiling is not None and 1 / median(tpot) > ceiling * (1 + limits.spread):
        found.append(
            f"TPOT of {format_seconds(median(tpot))} (P50) is shorter than a step can be, {format_seconds(1 / ceiling)} at the decode "
            f"ceiling of {ceiling:.4g} tokens/s; doubt that the server runs this model with this quantization on this machine, its count of "
            "tokens, and the bandwidth of the record; speculative decoding is faster, too"
        )
    speeds = [speed for row in done if (speed := _prompt_speed(row)) is not None]
    most = limits.prefill_tokens_per_second
    if speeds and most is not None and median(speeds) > most * (1 + limits.spread):
        found.append(
            f"prompts came at {median(speeds):.4g} tokens/s (P50, without what a cache held), above the prefill ceiling of {most:.4g}; doubt "
            "that the server says what its cache held, that it runs this model on this machine, and the peak that the ceiling assumes"
        )
    return tuple(found)


def _prompt_speed(row: RequestRow) -> float | None:
    """Tokens of the prompt that had to be read, over the time to the first token; None where they are not counted."""
    if row.prompt_tokens is None or not row.ttft_s:
        return None
    return max(0, row.prompt_tokens - (row.cached_tokens or 0)) / row.ttft_s
