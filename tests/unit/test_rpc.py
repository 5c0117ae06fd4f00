"""One model over several machines: bytes, round trips and seconds worked by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from suffice.loaders.reference import resolve_model
from suffice.model.rpc import FAST_NETWORK, SLOW_NETWORK, Network, RpcChain, fewest_machines, largest_part_bytes
from suffice.model.weights import WeightUse
from suffice.units import GIB

MODEL = resolve_model("llama-3.1-70b:q4_k_m").shape


def chain(machines: int) -> RpcChain:
    """Llama 3.1 70B over so many machines."""
    return RpcChain(machines=machines, n_embd=8192, n_vocab=128_256)


def test_a_token_moves_its_hidden_state_and_its_logits() -> None:
    """8192 x 4 = 32,768 bytes to the server, 128,256 x 4 = 513,024 back."""
    assert chain(2).hop_bytes() == 32_768
    assert chain(2).logits_bytes == 513_024
    assert chain(2).pass_bytes() == 545_792


def test_between_two_servers_everything_goes_through_the_main_machine() -> None:
    """One crossing to the first server and two for each further one: 1, 3, 5."""
    assert [chain(machines).crossings for machines in (2, 3, 4)] == [1, 3, 5]
    assert chain(4).pass_bytes() == 5 * 32_768 + 513_024


def test_a_token_waits_for_each_server_once() -> None:
    """Three machines, 10 Gbit/s = 1.25e9 bytes/s and 0.1 ms: 611,328 / 1.25e9 + 2 x 0.0001 = 0.689 ms."""
    assert FAST_NETWORK.bytes_per_s == 1.25e9
    assert chain(3).network_s(FAST_NETWORK) == pytest.approx(611_328 / 1.25e9 + 2 * 0.0001)
    assert chain(3).network_s(SLOW_NETWORK) == pytest.approx(611_328 / 0.125e9 + 2 * 0.0005)


def test_a_prompt_moves_all_its_hidden_states_and_the_logits_of_its_last_token() -> None:
    """1,000 tokens in two micro-batches over three machines: 3 x 1,000 x 32,768 + 513,024 bytes and 2 x 2 round trips."""
    moved = 3 * 1000 * 32_768 + 513_024

    assert chain(3).pass_bytes(1000) == moved
    assert chain(3).network_s(FAST_NETWORK, 1000) == pytest.approx(moved / 1.25e9 + 4 * 0.0001)


def test_the_servers_get_their_share_of_the_weights_at_a_start() -> None:
    """Three of four parts of 40e9 bytes at 0.125e9 bytes/s: 240 s."""
    assert chain(4).load_s(SLOW_NETWORK, 40e9) == pytest.approx(240)


def test_the_main_machine_keeps_its_layers() -> None:
    """80 layers over two machines: 40 stay, 40 and the head go; over three 27 stay, 53 and the head go."""
    assert chain(2).layers_offloaded(80) == 41
    assert chain(3).layers_offloaded(80) == 54


def test_memory_adds_up() -> None:
    """The fullest of n machines holds less than the whole, at least its nth part, and all n of them together hold it."""
    cache = 2.5 * GIB
    whole = MODEL.tensor_bytes + cache
    parts = [largest_part_bytes(MODEL, machines, cache) for machines in range(2, 9)]

    assert all(later < earlier for earlier, later in pairwise([whole, *parts]))
    assert all(part * machines >= whole for machines, part in enumerate(parts, start=2))


def test_layers_are_dealt_out_whole() -> None:
    """Over three machines one has 27 of 80 layers, and beside them the larger of embedding and head."""
    ends = {
        use: sum(group.n_bytes for group in MODEL.weights if group.use is use)
        for use in (WeightUse.LOOKUP, WeightUse.HEAD)
    }
    layers = MODEL.tensor_bytes - sum(ends.values())

    assert largest_part_bytes(MODEL, 3, 80.0) == pytest.approx(27 / 80 * (layers + 80) + ends[WeightUse.HEAD])


@pytest.mark.parametrize(("usable_gib", "machines"), [(42.0, 1), (31.0, 2), (15.0, 3), (3.0, None)])
def test_as_few_machines_as_hold_it(usable_gib: float, machines: int | None) -> None:
    """39.8 GiB: one of 42, two of 31, three of 15; of 3 GiB not even eight."""
    assert fewest_machines(MODEL, 0.23 * GIB, usable_gib * GIB, 8) == machines


@pytest.mark.parametrize("machines", [1, 18])
def test_a_chain_that_llama_cpp_cannot_build_is_refused(machines: int) -> None:
    """One machine needs none, and there are 16 servers at most."""
    with pytest.raises(ValueError, match="2 to 17"):
        RpcChain(machines=machines, n_embd=8, n_vocab=8)


@pytest.mark.parametrize(("speed", "trip"), [(0.0, 0.1), (-1.0, 0.1), (1.0, -0.1), (float("nan"), 0.1)])
def test_a_network_without_speed_is_refused(speed: float, trip: float) -> None:
    """Division by it would be no time."""
    with pytest.raises(ValueError, match="network"):
        Network(bytes_per_s=speed, round_trip_s=trip)
