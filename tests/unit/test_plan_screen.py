"""A screen of thousands says "enough" just where a machine's own figures do: what it says otherwise costs the reader of a plan a machine."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.hybrids import machine, mixed_demand
from suffice.decide.plan_screen import forget, holds, own_outlook
from suffice.decide.service_load import machines_share
from suffice.decide.service_screen import screened_outlooks
from suffice.decide.verdict import Grade, decide_machine
from suffice.model.demand import DemandKind, Lengths

EACH: dict[str, Any] = {
    "interactive_share": None,
    "prompt_tokens": Lengths(p50=100, p95=250),
    "output_tokens": Lengths(p50=50, p95=120),
    "margin": 1.3,
}
LOADS: dict[str, dict[str, Any]] = {
    "users": {"requests_per_second": None, "concurrent_users": 4, "tokens_per_second_per_user": 3.0, "ttft": None},
    "rate": {"requests_per_second": 0.12, "tokens_per_second_per_user": 6.0},
    "first tokens alone": {"requests_per_second": 0.12, "tokens_per_second_per_user": None},
    "work without an end": {"requests_per_second": 0.25, "tokens_per_second_per_user": None, "ttft": None},
    "job": {
        "requests_per_second": 0.03,
        "tokens_per_second_per_user": None,
        "ttft": None,
        "kind": DemandKind.SCHEDULED,
        "window_s": 3 * 3600.0,
    },
}
LOADS["uneven job"] = {
    **LOADS["job"],
    "prompt_tokens": Lengths(p50=100, p95=600),
    "output_tokens": Lengths(p50=5, p95=10),
}
ENOUGH_NEAR = {
    ("users", 1): 40.0,
    ("users", 2): 21.5,
    ("rate", 1): 46.5,
    ("rate", 2): 31.5,
    ("first tokens alone", 1): 21.5,
    ("first tokens alone", 2): 13.5,
    ("work without an end", 1): 27.0,
    ("work without an end", 2): 13.5,
    ("job", 1): 27.0,
    ("job", 2): 13.5,
    ("uneven job", 1): 6.3,
    ("uneven job", 2): 3.15,
}
"""Tokens/s from which so many are about enough."""


@pytest.mark.parametrize(("load", "count"), ENOUGH_NEAR)
def test_a_screen_says_enough_where_the_own_figures_do(load: str, count: int) -> None:
    """From speeds that are a little too slow to those that are just enough, and each looked at as if it were the only one."""
    demand = mixed_demand(**{**EACH, **LOADS[load]})
    screened, own = [], []
    for step in range(-4, 5):
        speed = ENOUGH_NEAR[load, count] * 1.03**step
        evidence = machine("m", speed, 20 * speed, 1.0, spread=0.0).prospect.evidence
        forget()
        screened.append(holds(demand, evidence, count) is not None)
        verdict = decide_machine(machines_share(demand, count), evidence, own_outlook(demand, evidence, count))
        own.append(verdict.grade is Grade.ENOUGH)
        if count == 1:
            (listed,) = screened_outlooks(demand, [evidence])
            assert (listed is not None and listed.is_enough) == own[-1]

    surely = max(step for step, enough in enumerate(own) if not enough) + 1  # a slower one may hold by chance
    assert screened[surely:] == own[surely:] != []
    assert all(own[step] for step, enough in enumerate(screened) if enough)
