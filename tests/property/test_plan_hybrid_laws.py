"""Laws of hybrids: prices and shares move the saving the way that they must."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.hybrids import cpu, gpu, mixed_demand
from suffice.decide.plan_hybrid import Hybrid, found_hybrids

QUICK = settings(max_examples=8, deadline=None, derandomize=True)
RATES = st.sampled_from([0.05, 0.3, 1.0])
SHARES = st.sampled_from([0.05, 0.3, 0.7])
PRICES = st.floats(0.01, 2.0)


def hybrid(rate: float, share: float, gpu_per_hour: float, cpu_per_hour: float) -> Hybrid:
    """The only one."""
    demand = mixed_demand(requests_per_second=rate, interactive_share=share)
    (found,) = found_hybrids(demand, [gpu(per_hour=gpu_per_hour)], [cpu(per_hour=cpu_per_hour)], most=64)
    return found


@QUICK
@given(RATES, SHARES, PRICES, st.floats(1.01, 5.0))
def test_dearer_cpus_save_less(rate: float, share: float, price: float, factor: float) -> None:
    """All else equal."""
    cheap, dear = hybrid(rate, share, 1.0, price).saving, hybrid(rate, share, 1.0, price * factor).saving

    assert dear.low < cheap.low
    assert dear.likely is not None
    assert cheap.likely is not None
    assert dear.likely < cheap.likely


@QUICK
@given(RATES, SHARES, PRICES, st.floats(0.1, 10.0))
def test_another_unit_of_money_changes_no_saving(rate: float, share: float, price: float, factor: float) -> None:
    """A saving is a share."""
    one, other = hybrid(rate, share, 1.0, price).saving, hybrid(rate, share, factor, price * factor).saving

    assert abs(one.low - other.low) < 1e-9
    assert (one.shown is None) == (other.shown is None)


@QUICK
@given(RATES, SHARES, PRICES, PRICES)
def test_the_ends_enclose_the_likely(rate: float, share: float, gpu_price: float, cpu_price: float) -> None:
    """And no saving reaches the whole bill."""
    saving = hybrid(rate, share, gpu_price, cpu_price).saving

    assert saving.likely is not None
    assert saving.low <= saving.likely < 1
    assert saving.high is None or saving.likely <= saving.high < 1
