"""What a stated demand means in numbers."""

from __future__ import annotations

import numpy as np
import pytest

from suffice.model.demand import DEFAULT_MARGIN, Demand, DemandKind, Lengths, Limit, single_stream_need

INTERACTIVE = DemandKind.INTERACTIVE


def test_the_mean_of_lengths_is_that_of_the_log_normal() -> None:
    """p50 500 and p95 2000: sigma = ln 4 / 1.645 = 0.843, mean = 500 exp(0.355) = 713; a simulation agrees."""
    lengths = Lengths(p50=500, p95=2000)
    draws = np.random.default_rng(5).lognormal(np.log(500), np.log(4) / 1.6448536, size=200_000)

    assert lengths.mean == pytest.approx(713.2, abs=0.1)
    assert lengths.mean == pytest.approx(float(draws.mean()), rel=0.01)


def test_one_stated_length_is_its_own_mean() -> None:
    """Without a spread there is nothing to add."""
    assert Lengths(p50=512, p95=512).mean == 512


@pytest.mark.parametrize(("p50", "p95"), [(0, 1), (-1, 1), (2, 1), (float("nan"), 1)])
def test_impossible_lengths_are_refused(p50: float, p95: float) -> None:
    """Lengths are positive and P95 is not below the median."""
    with pytest.raises(ValueError, match="0 < p50 <= p95"):
        Lengths(p50=p50, p95=p95)


@pytest.mark.parametrize(("percentile", "length"), [(10, 100), (50, 100), (51, 900), (95, 900), (99, 900)])
def test_limits_over_the_median_use_the_p95_length(percentile: float, length: float) -> None:
    """A limit that must hold at P95 is asked of the P95 prompt, not of the typical one."""
    assert Lengths(p50=100, p95=900).at(percentile) == length


def test_need_is_one_interactive_stream() -> None:
    """`--need 8` is one stream that needs 8 tokens/s with the default margin of 1.5."""
    demand = single_stream_need(8)

    assert (demand.kind, demand.streams, demand.margin) == (INTERACTIVE, 1, DEFAULT_MARGIN)
    assert demand.margin == 1.5
    assert demand.required_decode_tokens_per_second == 8


def test_the_stricter_of_rate_and_tpot_is_required() -> None:
    """A TPOT of 50 ms is 20 tokens/s; stated beside 8 tokens/s it is the one that counts."""
    tpot = Limit(value_s=0.05, percentile=95)

    assert Demand(kind=INTERACTIVE, tpot=tpot).required_decode_tokens_per_second == 20
    assert Demand(kind=INTERACTIVE, tpot=tpot, tokens_per_second_per_user=8).required_decode_tokens_per_second == 20
    assert Demand(kind=INTERACTIVE, tpot=tpot, tokens_per_second_per_user=30).required_decode_tokens_per_second == 30


def test_what_is_not_stated_is_unknown() -> None:
    """A demand of nothing but its kind derives None everywhere, and no zeros."""
    demand = Demand(kind=INTERACTIVE)

    assert demand.requests_per_day is None
    assert demand.required_decode_tokens_per_second is None
    assert demand.work_depth_tokens is None
    assert demand.needed_context_tokens is None


def test_depth_and_context_of_a_request() -> None:
    """Decode works behind the prompt and half of the output; the context must hold the P95 of both."""
    demand = Demand(
        kind=INTERACTIVE, prompt_tokens=Lengths(p50=1000, p95=3000.5), output_tokens=Lengths(p50=200, p95=400)
    )

    assert demand.work_depth_tokens == 1100
    assert demand.needed_context_tokens == 3401  # 3000.5 + 400, rounded up
    assert Demand(kind=INTERACTIVE, context_tokens=8192).needed_context_tokens == 8192


def test_a_rate_over_a_day() -> None:
    """One request in ten seconds is 8640 a day; a stated volume of the day comes first, also beside users."""
    assert Demand(kind=DemandKind.BATCH, requests_per_second=0.1).requests_per_day == pytest.approx(8640)
    assert Demand(kind=INTERACTIVE, requests_per_second=0.1, volume_per_day=2000).requests_per_day == 2000
    assert Demand(kind=INTERACTIVE, concurrent_users=4, volume_per_day=2000).requests_per_day == 2000
