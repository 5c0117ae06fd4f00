"""One model over several machines: bytes, round trips and seconds worked by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from suffice.loaders.reference import resolve_model
from suffice.loaders.shape_model import ShapeModel
from suffice.model.rpc import (
    FAST_NETWORK,
    SLOW_NETWORK,
    LayerBytes,
    Network,
    RpcChain,
    fewest_machines,
    largest_part_bytes,
    layer_bytes,
    needed_by_count,
    part_bytes,
)
from suffice.units import GIB

MODEL = resolve_model("llama-3.1-70b:q4_k_m").shape


def laid_out(reference: str, cache_bytes: float, context_tokens: int = 8192) -> LayerBytes:
    """A model of the catalogue, layer by layer."""
    model = resolve_model(reference)
    assert isinstance(model, ShapeModel)
    return layer_bytes(model.header, model.shape, cache_bytes=cache_bytes, context_tokens=context_tokens)


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
    sizes = laid_out("llama-3.1-70b:q4_k_m", cache)
    parts = [largest_part_bytes(sizes, machines) for machines in range(2, 9)]

    assert all(later < earlier for earlier, later in pairwise([whole, *parts]))
    assert all(part * machines >= whole for machines, part in enumerate(parts, start=2))


def test_layers_are_dealt_out_as_llama_cpp_does() -> None:
    """88 layers over four: 22 stay; of 66 and the head each of three servers takes 23, 22 and 21 with the head, so that one has more than 22."""
    sizes = LayerBytes(layers=(10.0,) * 88, first=3.0, last=4.0)

    assert part_bytes(sizes, 4) == (223.0, 230.0, 220.0, 214.0)
    assert largest_part_bytes(sizes, 4) == 230.0


def test_layers_with_more_bits_are_counted_where_they_are() -> None:
    """Q4_K_M gives the first eighth of the layers more bits: the main machine of eight holds more than an even share, and nothing is lost."""
    sizes = laid_out("mistral-large-123b:q4_k_m", 0.0)
    parts = part_bytes(sizes, 8)

    assert sizes.layers[0] > min(sizes.layers)
    assert max(parts) == parts[0] > 1.03 * 11 / 88 * sum(sizes.layers)
    assert sum(parts) == pytest.approx(sum(sizes.layers) + sizes.first + sizes.last)


def test_an_embedding_that_doubles_as_the_head_lies_at_both_ends() -> None:
    """Gemma 3 has one matrix for both: the main machine looks tokens up in it, the last server multiplies with it."""
    sizes = laid_out("gemma-3-27b:q4_k_m", 0.0)

    assert 0 < sizes.first < sizes.last


def test_the_cache_lies_where_attention_sees_everything() -> None:
    """Gemma 3 at 131,072 tokens: each sixth layer keeps all of them, the others 1,536 cells of their window."""
    cache = 1e9
    bare, full = laid_out("gemma-3-27b:q4_k_m", 0.0), laid_out("gemma-3-27b:q4_k_m", cache, 131_072)
    kept = [more - less for less, more in zip(bare.layers, full.layers, strict=True)]

    assert sum(kept) == pytest.approx(cache)
    assert kept[5] / kept[0] == pytest.approx(131_072 / 1536)


def test_a_layer_without_attention_has_no_cache() -> None:
    """Qwen3-Next has attention in each fourth layer; the others have a state of their own."""
    bare, full = laid_out("qwen3-next-80b-a3b:q4_k_m", 0.0), laid_out("qwen3-next-80b-a3b:q4_k_m", 1e9)

    assert [more > less for less, more in zip(bare.layers, full.layers, strict=True)] == [
        False,
        False,
        False,
        True,
    ] * 12


@pytest.mark.parametrize(("usable_gib", "machines"), [(42.0, 1), (31.0, 2), (15.0, 3), (3.0, None)])
def test_as_few_machines_as_hold_it(usable_gib: float, machines: int | None) -> None:
    """39.8 GiB: one of 42, two of 31, three of 15; of 3 GiB not even eight."""
    cache = 0.23 * GIB
    needed = needed_by_count(laid_out("llama-3.1-70b:q4_k_m", cache), MODEL.tensor_bytes + cache, 8)

    assert len(needed) == 8
    assert fewest_machines(needed, usable_gib * GIB) == machines


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
