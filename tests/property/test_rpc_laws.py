"""Laws of several machines that share a model."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.decide.alternatives import chained
from suffice.decide.quantity import Quantity
from suffice.model.basis import Basis
from suffice.model.rpc import MAX_RPC_SERVERS, Network, RpcChain

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
rates = st.floats(min_value=0.01, max_value=1000)
times = st.floats(min_value=0, max_value=1)
machines = st.integers(min_value=2, max_value=MAX_RPC_SERVERS)
networks = st.builds(
    Network, bytes_per_s=st.floats(min_value=1e6, max_value=1e11), round_trip_s=st.floats(min_value=0, max_value=0.1)
)


@QUICK
@given(
    rate=rates, spread=st.floats(min_value=0, max_value=0.5), times=st.tuples(times, times), tokens=st.integers(1, 4096)
)
def test_no_network_makes_a_stream_faster(rate: float, spread: float, times: tuple[float, float], tokens: int) -> None:
    """Each end of the range is at most what it was, and the ends stay in their order."""
    fast, slow = sorted(times)
    alone = Quantity(point=rate, low=rate * (1 - spread), high=rate * (1 + spread), basis=Basis.PREDICTED)

    together = chained(alone, fast, slow, tokens)

    assert together.low is not None
    assert together.high is not None
    assert alone.low is not None
    assert alone.high is not None
    rounding = 1 + 1e-9
    assert together.low <= alone.low * rounding
    assert together.point <= alone.point * rounding
    assert together.high <= alone.high * rounding
    assert together.low <= together.point * rounding
    assert together.point <= together.high * rounding


@QUICK
@given(count=machines, network=networks, tokens=st.integers(1, 4096))
def test_more_machines_or_tokens_never_cost_less(count: int, network: Network, tokens: int) -> None:
    """A longer chain moves more bytes and waits more often; so does a longer prompt."""
    short, long = (RpcChain(machines=n, n_embd=4096, n_vocab=32_000) for n in (count, count + 1))

    assert long.network_s(network, tokens) >= short.network_s(network, tokens)
    assert short.network_s(network, tokens + 1) >= short.network_s(network, tokens)


@QUICK
@given(value=st.one_of(st.none(), rates))
def test_an_end_that_is_not_known_stays_unknown(value: float | None) -> None:
    """Nothing bounds what nothing bounded."""
    together = chained(Quantity(point=5.0, low=value, high=value, basis=Basis.PREDICTED), 0.01, 0.02)

    assert (together.low is None) == (value is None)
    assert (together.high is None) == (value is None)
