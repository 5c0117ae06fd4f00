"""Loads on a server, as a tool might have recorded them."""

from __future__ import annotations

from typing import Any

from suffice.decide.served import ServedEvidence
from suffice.model.demand import Demand, DemandKind, Lengths, Limit
from suffice.model.served import LoadKind, ServedLengths, ServedLoad, ServedTimes, Tool


def times(seconds: float, count: int = 200) -> ServedTimes:
    """Times around ``seconds``: from half of it to once and a half, evenly, so that P95 is 1.45 times it."""
    values = tuple(seconds * (0.5 + i / (count - 1)) for i in range(count))
    return ServedTimes(values_s=values, count=count)


def load(
    level: float,
    ttft_s: float = 0.1,
    *,
    users: bool = False,
    failed: int = 0,
    count: int = 200,
    **more: Any,  # noqa: ANN401  # any field
) -> ServedLoad:
    """A load with 200 answers of 100 prompt and 20 output tokens."""
    fields: dict[str, Any] = {
        "tool": Tool.GUIDELLM,
        "source": f"at-{level:g}.json",
        "kind": LoadKind.USERS if users else LoadKind.RATE,
        "server": "http://host:8000",
        "model": "m",
        "asked": level,
        "level_low": level,
        "level_high": level,
        "attempted": count + failed,
        "failed": failed,
        "ttft": times(ttft_s, count),
        "tpot": times(0.01, count),
        "prompt": ServedLengths(mean=100, p95=100),
        "output": ServedLengths(mean=20, p95=20),
        "requests_per_s": None if users else level,
        "from_schedule": True,
    }
    return ServedLoad(**{**fields, **more})


def rate_demand(**more: Any) -> Demand:  # noqa: ANN401  # any field
    """4 requests/s of 100 and 20 tokens, TTFT of 0.5 s at P95, margin 1.5."""
    fields: dict[str, Any] = {
        "kind": DemandKind.INTERACTIVE,
        "prompt_tokens": Lengths(p50=100, p95=100),
        "output_tokens": Lengths(p50=20, p95=20),
        "requests_per_second": 4.0,
        "ttft": Limit(value_s=0.5, percentile=95),
        "margin": 1.5,
    }
    return Demand(**{**fields, **more})


def server(*loads: ServedLoad, is_gpu: bool | None = False) -> ServedEvidence:
    """One server with these loads."""
    return ServedEvidence(name="the server", is_gpu=is_gpu, loads=loads)
