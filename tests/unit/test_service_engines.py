"""A machine that runs an engine on each NUMA node is judged by one of them under its share of the demand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.records import batch_demand, run_record
from helpers.serving import chat, flat_curve, with_curve
from suffice.decide import service_load, words
from suffice.decide.evidence import evidence_from
from suffice.decide.service import outlook
from suffice.decide.service_load import share_of
from suffice.decide.verdict import decide_machine
from suffice.records.schema import ServiceRecord
from suffice.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterator

GAINING = flat_curve(step_s=0.02, more_s=0.01, token_s=0.0001)  # 8 users at the slow end of one engine


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Shorter runs than a verdict has; nothing is kept from one test to the next."""
    monkeypatch.setattr(service_load, "FULL", replace(service_load.FULL, requests=90))
    outlook.cache_clear()
    yield
    outlook.cache_clear()


def test_the_share_of_an_engine() -> None:
    """Users rounded up, rate and memory divided; one engine gets all, and what is not stated stays so."""
    demand = replace(chat(concurrent_users=7), memory_bytes=float(8 * GIB))

    assert share_of(demand, 1) == demand
    assert share_of(demand, 2).concurrent_users == 4
    assert share_of(demand, 2).memory_bytes == 4 * GIB
    rate = batch_demand().requests_per_second
    assert rate is not None
    assert share_of(batch_demand(), 4).requests_per_second == rate / 4
    assert share_of(batch_demand(), 4).concurrent_users is None


def test_two_engines_carry_twice_the_users_of_one() -> None:
    """One engine carries 7 users at the slow end: 8 with the margin of 1.5 are beyond it, and not beyond two of it."""
    one = with_curve(GAINING)

    assert decide_machine(chat(concurrent_users=8), one).verdict != words.CPU
    two = decide_machine(chat(concurrent_users=8), replace(one, engines=2))
    assert two.verdict == words.CPU
    assert decide_machine(chat(concurrent_users=24), replace(one, engines=2)).verdict == words.GPU


def test_a_record_of_several_engines_says_so_in_its_name() -> None:
    """The number comes from the service curve, and stands behind the machine's name."""
    record = run_record()
    served = replace(record, measurement=replace(record.measurement, service=ServiceRecord(slots=2, instances=2)))

    assert evidence_from(record).engines == 1
    assert evidence_from(served).engines == 2
    assert evidence_from(served).name == "Test CPU, each of 2 engines side by side"
