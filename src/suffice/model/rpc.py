"""One model over several machines by llama.cpp's RPC backend: what each must hold, and what the network costs a token.

Layers are dealt out whole and run one behind the other: the main machine has the first ones in its own memory, each server (`rpc-server`) the
next ones, the last server the output head as well. A token therefore takes the sum of the parts' times, and the network's. Memory adds up,
the speed of one stream does not.

Source: ``ggml-rpc.cpp``, ``llama-model.cpp`` and ``tools/rpc/README.md`` of llama.cpp, late 2026. Between two servers nothing goes directly
(``cpy_tensor`` refuses another endpoint), so that the hidden state is read by the main machine and sent on; reading waits for the answer,
sending and starting a graph do not, which makes one round trip for each server. Left out, being small: the description of the graph (sent when
it changes), the attention mask and the positions.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.model.kv_cache import KvLayout
from suffice.model.weights import OUTPUT_HEAD, TOKEN_EMBEDDING
from suffice.units import BITS_PER_BYTE, GIGA, MILLISECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.model.gguf_header import GgufHeader
    from suffice.model.shape import ModelShape

ACTIVATION_BYTES: Final = 4  # hidden states and logits cross in float32
MAX_RPC_SERVERS: Final = 16  # GGML_RPC_MAX_SERVERS
MICRO_BATCH_TOKENS: Final = 512  # llama.cpp's n_ubatch: tokens of a prompt that cross together


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What lies between the machines: bytes per second in one direction, and seconds there and back of a small message."""

    bytes_per_s: float
    round_trip_s: float

    def __post_init__(self) -> None:
        if not (self.bytes_per_s > 0 and self.round_trip_s >= 0):
            raise ValueError(
                f"a network needs a speed above 0 and a round trip of 0 or more, not {self.bytes_per_s:g} and {self.round_trip_s:g}"
            )

    @classmethod
    def of(cls, *, gigabit_per_s: float, round_trip_ms: float) -> Network:
        """From the units in which people state them."""
        return cls(
            bytes_per_s=gigabit_per_s * GIGA / BITS_PER_BYTE, round_trip_s=round_trip_ms / MILLISECONDS_PER_SECOND
        )


# Stated, not measured: what `iperf3` and `ping` say of the user's own machines is to be preferred.
FAST_NETWORK: Final = Network.of(gigabit_per_s=10, round_trip_ms=0.1)
SLOW_NETWORK: Final = Network.of(gigabit_per_s=1, round_trip_ms=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Machines that may share a model: how many of a kind at most, and the best and the worst that may lie between them."""

    most_machines: int = 8
    fast: Network = FAST_NETWORK
    slow: Network = SLOW_NETWORK

    @property
    def networks(self) -> tuple[Network, Network]:
        """The best and the worst."""
        return self.fast, self.slow


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcChain:
    """Machines that share the layers of one model: the main one and ``machines - 1`` servers.

    Attributes:
        machines: all of them, 2 at least.
        n_embd: length of the hidden state.
        n_vocab: length of the logits, which come back from the last server for each generated token.
    """

    machines: int
    n_embd: int
    n_vocab: int

    def __post_init__(self) -> None:
        if not 2 <= self.machines <= MAX_RPC_SERVERS + 1:  # noqa: PLR2004 - one machine needs no network
            raise ValueError(f"a chain has 2 to {MAX_RPC_SERVERS + 1} machines, not {self.machines}")

    @property
    def servers(self) -> int:
        """Machines that run `rpc-server`."""
        return self.machines - 1

    @property
    def crossings(self) -> int:
        """Times that a hidden state crosses the network: once to the first server, twice between two servers."""
        return 1 + 2 * (self.servers - 1)

    def hop_bytes(self, n_tokens: int = 1) -> int:
        """Hidden states of ``n_tokens`` tokens: what crosses one boundary once."""
        return n_tokens * self.n_embd * ACTIVATION_BYTES

    @property
    def logits_bytes(self) -> int:
        """What the last server sends back for one generated token."""
        return self.n_vocab * ACTIVATION_BYTES

    def pass_bytes(self, n_tokens: int = 1) -> int:
        """All that a pass over ``n_tokens`` tokens moves: 1 while an answer is written, the prompt before."""
        return self.crossings * self.hop_bytes(n_tokens) + self.logits_bytes

    def network_s(self, network: Network, n_tokens: int = 1) -> float:
        """Seconds that a pass spends on the network: bytes over its speed, and a round trip for each server and micro-batch.

        A prompt goes through the chain in micro-batches. None of them is taken to overlap with another, so that this is the most of it.
        """
        passes = math.ceil(n_tokens / MICRO_BATCH_TOKENS)
        return self.pass_bytes(n_tokens) / network.bytes_per_s + passes * self.servers * network.round_trip_s

    def load_s(self, network: Network, weights_bytes: float) -> float:
        """Seconds to send the servers their weights, which go over the network at each start unless a server keeps them (`-c`)."""
        return weights_bytes * self.servers / self.machines / network.bytes_per_s

    def layers_offloaded(self, n_layer: int) -> int:
        """What `-ngl` has to say so that the main machine keeps its share: layers of the servers, and the head."""
        return n_layer + 1 - math.ceil(n_layer / self.machines)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBytes:
    """Weights and cache of a model where a chain puts them.

    Attributes:
        layers: of each repeating layer, its cache included.
        first: of the embedding, which stays on the main machine.
        last: of the output head and what belongs to it; an embedding that doubles as the head lies there once more.
    """

    layers: tuple[float, ...]
    first: float
    last: float


def layer_bytes(header: GgufHeader, shape: ModelShape, *, cache_bytes: float, context_tokens: int) -> LayerBytes:
    """How many bytes go wherever a layer goes.

    Args:
        header: of the model; recipes give some layers more bits than others.
        shape: of the model.
        cache_bytes: of all sequences together; it lies with the layers, and a layer with a sliding window has less of it.
        context_tokens: of each sequence.
    """
    weights, first, last = [0.0] * shape.n_layer, 0.0, 0.0
    tied = all(tensor.name != OUTPUT_HEAD for tensor in header.tensors)
    with_attention = set()
    for tensor in header.tensors:
        match = _LAYER.match(tensor.name)
        layer = None if match is None else int(match[1])
        if layer is not None and layer < shape.n_layer:
            weights[layer] += tensor.n_bytes
            if _KEYS.search(tensor.name):
                with_attention.add(layer)
        elif tensor.name in _LOOKED_UP:
            first += tensor.n_bytes
            last += tensor.n_bytes if tied and tensor.name == TOKEN_EMBEDDING else 0
        else:
            last += tensor.n_bytes
    shares = _cache_shares(shape, sorted(with_attention), context_tokens)
    return LayerBytes(
        layers=tuple(one + cache_bytes * share for one, share in zip(weights, shares, strict=True)),
        first=first,
        last=last,
    )


def _cache_shares(shape: ModelShape, with_attention: list[int], context_tokens: int) -> list[float]:
    """The share of the cache that each layer has; even where it is not known which layers have one."""
    kept = shape.kv.layers
    where = list(range(shape.n_layer)) if len(kept) == shape.n_layer else with_attention
    each = [
        KvLayout(layers=(layer,)).cache_bytes(context_tokens, "f16", "f16", MICRO_BATCH_TOKENS) or 0.0 for layer in kept
    ]
    if len(where) != len(kept) or sum(each) <= 0:
        return [1 / shape.n_layer] * shape.n_layer
    shares = [0.0] * shape.n_layer
    for layer, size in zip(where, each, strict=True):
        shares[layer] = size / sum(each)
    return shares


_LAYER: Final = re.compile(r"blk\.(\d{1,6})\.")
_KEYS: Final = re.compile(r"\.attn_(k|kv_a_mqa)\.weight")
_LOOKED_UP: Final = frozenset(
    {TOKEN_EMBEDDING, "position_embd.weight", "token_types.weight", "per_layer_token_embd.weight"}
)


def part_bytes(sizes: LayerBytes, machines: int) -> tuple[float, ...]:
    """What each of ``machines`` equal machines holds, the main one first.

    The main machine keeps the first layers, its even share rounded up; what `-ngl` leaves to the servers, layers and head, is dealt out among
    them as llama.cpp does by equal free memory (``std::upper_bound`` over the splits): unit u of d goes to server u x servers / d, rounded down.
    """
    n_layer, servers = len(sizes.layers), machines - 1
    own = math.ceil(n_layer / machines)
    units = [*sizes.layers[own:], sizes.last]
    parts = [0.0] * servers
    for place, size in enumerate(units):
        parts[place * servers // len(units)] += size
    return (sum(sizes.layers[:own]) + sizes.first, *parts)


def largest_part_bytes(sizes: LayerBytes, machines: int) -> float:
    """The most that one of ``machines`` equal machines has to hold."""
    return max(part_bytes(sizes, machines))


def fewest_machines(needed: Sequence[float], usable_bytes: float) -> int | None:
    """How many equal machines hold the model; None: not even the most.

    Args:
        needed: what the fullest of 1, 2, 3 ... machines holds.
        usable_bytes: of each machine.
    """
    return next((count for count, size in enumerate(needed, start=1) if size <= usable_bytes), None)


def needed_by_count(sizes: LayerBytes, alone_bytes: float, most: int) -> tuple[float, ...]:
    """What the fullest of 1, 2 ... ``most`` machines holds; ``alone_bytes``: what one machine does."""
    counts = range(2, min(most, MAX_RPC_SERVERS + 1) + 1)
    return (alone_bytes, *(largest_part_bytes(sizes, count) for count in counts))
