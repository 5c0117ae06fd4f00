"""Sentences about alternatives: what is to be checked, with which command, and what is right about several machines."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from suffice.decide.alternatives import Check, CheckKind
from suffice.units import BITS_PER_BYTE, GIGA, MILLISECONDS_PER_SECOND, format_memory, format_seconds

if TYPE_CHECKING:
    from suffice.model.rpc import Network, RpcChain

TENSOR_SPLIT_NOTE: Final = (
    "`--tensor-split` does not reach other servers: it says in which proportion the devices that llama.cpp already has share the layers. Other "
    "machines become devices by `rpc-server` (`ggml-rpc-server` in newer builds) on each of them and `--rpc HOST:PORT,...` on the main one; then "
    "`--tensor-split` may set their proportions, which by default follow their free memory."
)
RPC_SPEED_NOTE: Final = (
    "Nobody has measured these chains: the figure is that of one such machine less the network. A server keeps weights as they are in the file, "
    "not in the layouts that llama.cpp's CPU backend computes fastest with, so that prompts above all may be read more slowly."
)
RPC_SAFETY_NOTE: Final = (
    "rpc-server has no authentication and no encryption, and llama.cpp calls it a proof of concept: bind it to a private network, and never to "
    "one that others reach."
)
QUALITY_NOTE: Final = (
    "Speed and memory are computed; what a model answers is not. Before one of these replaces the model that was asked for, ask both your items: "
    "the reference may be a server, rented for an hour."
)
PRICES_NOTE: Final = "List prices on demand, for 730 hours a month, or those of a job's daily window; a machine that is busy for a part of them costs the same."
GENERAL_NOTES: Final = (TENSOR_SPLIT_NOTE, RPC_SPEED_NOTE, RPC_SAFETY_NOTE, QUALITY_NOTE, PRICES_NOTE)
_REFERENCE: Final = "http://REFERENCE:8000/v1"  # too big to be asked here
_PORT: Final = 50052  # rpc-server's own
_CONTEXT_STEP_TOKENS: Final = 256  # llama.cpp rounds the context of a sequence up to a multiple of it
_PLAIN: Final = re.compile(r"[\w./:@+-]+", re.ASCII)


def quality_check(model: str) -> Check:
    """Items to both models."""
    return Check(
        kind=CheckKind.QUALITY,
        what="whether it answers your items as well",
        command=f"suffice quants {_REFERENCE} {quoted(file_name(model))} --items items.jsonl",
    )


def speed_check(model: str, where: str) -> Check:
    """A measurement on the machine itself; of a shape it takes slices, and downloads nothing."""
    return Check(
        kind=CheckKind.SPEED,
        what=f"how fast it is on {where}",
        command=f"suffice check demand.toml --model {quoted(model)}",
    )


def served_check(where: str) -> Check:
    """Where an engine of its own serves it: the load of the demand, or one stream."""
    return Check(
        kind=CheckKind.SPEED,
        what=f"how fast it is on {where}, served there",
        command="suffice load http://HOST:8000/v1 --demand demand.toml",
    )


def load_check(model: str) -> Check:
    """All of a demand's users, rate or queue, simulated."""
    return Check(
        kind=CheckKind.LOAD,
        what="whether it holds the whole load",
        command=f"suffice plan demand.toml --model {quoted(model)}",
    )


def api_check(model: str) -> Check:
    """An API under the demand's load, with the user's own key."""
    return Check(
        kind=CheckKind.SPEED,
        what="how fast it answers from where you are",
        command=f"suffice load https://API/v1 --model {quoted(model)} --api-key-env API_KEY --demand demand.toml",
    )


def imatrix_check(model: str) -> Check:
    """For formats that llama.cpp makes with an importance matrix only."""
    stem, _, recipe = model.rpartition(":")
    return Check(
        kind=CheckKind.MAKING,
        what=f"llama.cpp makes {recipe} with an importance matrix only",
        command=f"suffice quants {quoted(stem)}-f16.gguf --make {recipe} --imatrix imatrix.gguf --items items.jsonl",
    )


def quoted(text: str) -> str:
    """A name as one word of a command line: a name from outside must not become a command when somebody pastes it."""
    if _PLAIN.fullmatch(text) and not text.startswith("-"):
        return text
    inside = text.replace("'", "'\"'\"'")
    return f"'{inside}'"


def file_name(model: str) -> str:
    """The file that a shape under a recipe would be: ``file_name("llama-3.1-70b:q4_k_m") == "llama-3.1-70b-q4_k_m.gguf"``."""
    name = model.rpartition("/")[2]
    return name if name.lower().endswith(".gguf") else f"{name.replace(':', '-')}.gguf"


def rpc_commands(
    chain: RpcChain, n_layer: int, model: str, *, context_tokens: int, streams: int, kv_type: str = "f16"
) -> tuple[str, str]:
    """What to run on each server, and on the main machine.

    The context is stated: by default llama-server takes all that the model was made for, whose cache no machine of the chain was chosen for; and
    it keeps up to 8 GiB of old prompts (`-cram`).
    """
    each = math.ceil(context_tokens / _CONTEXT_STEP_TOKENS) * _CONTEXT_STEP_TOKENS
    cache = "" if kv_type == "f16" else f" -ctk {quoted(kv_type)} -ctv {quoted(kv_type)}"
    hosts = ",".join(f"HOST{number}:{_PORT}" for number in range(2, chain.machines + 1))
    main = (
        f"llama-server -m {quoted(file_name(model))} --rpc {hosts} -ngl {chain.layers_offloaded(n_layer)} "
        f"-c {streams * each} -np {streams}{cache} -cram 0 -t CORES"
    )
    return f"rpc-server -H PRIVATE_ADDRESS -p {_PORT} -t CORES -c", main


def rpc_checks(chain: RpcChain, commands: tuple[str, str]) -> tuple[Check, ...]:
    """The network, and the chain itself by :func:`rpc_commands`."""
    server, main = commands
    others = "the other machine" if chain.servers == 1 else f"each of the {chain.servers} other machines"
    return (
        Check(
            kind=CheckKind.NETWORK,
            what="the speed of your network, and by `ping HOST2` its round trip",
            command="iperf3 -c HOST2",
        ),
        Check(kind=CheckKind.SERVERS, what=f"on {others}", command=server),
        Check(kind=CheckKind.MAIN, what="then on the main one", command=main),
        Check(
            kind=CheckKind.SPEED,
            what="how fast they are together",
            command="suffice load http://127.0.0.1:8080 --concurrency 1 --requests 20",
        ),
    )


def cache_note(cache_bytes: float, smaller_bytes: float) -> str:
    """What a smaller type of the cache would save."""
    return (
        f"The cache takes {format_memory(cache_bytes)}; in q8_0 (`-ctk q8_0 -ctv q8_0`, flash attention on) it would take "
        f"{format_memory(smaller_bytes)}, and answers may change."
    )


def shape_note(model: str, entry: str) -> str:
    """Of a model that the catalogue knows by its shape only."""
    return f"{model} has the shape of {entry} and another name: files with fewer bits are sized as that model's, and smaller models are of its family."


def network_note(chain: RpcChain, networks: tuple[Network, Network]) -> str:
    """What a token costs on the way."""
    trips = f"{chain.servers} round trip{'' if chain.servers == 1 else 's'}"
    costs = " and ".join(f"{format_seconds(chain.network_s(network))} over {_network(network)}" for network in networks)
    return (
        f"Each token moves {chain.pass_bytes():,} bytes ({chain.crossings} x {chain.hop_bytes():,} of hidden state, {chain.logits_bytes:,} of "
        f"logits) in {trips}: {costs}. Layers run one behind the other: memory adds up, one stream does not become faster."
    )


def loading_note(chain: RpcChain, networks: tuple[Network, Network], weights_bytes: float) -> str:
    """What a start costs."""
    times = " or ".join(format_seconds(chain.load_s(network, weights_bytes)) for network in networks)
    return f"At a start the servers get their weights over the network: {times}; `-c` keeps them there."


def _network(network: Network) -> str:
    gigabit = network.bytes_per_s * BITS_PER_BYTE / GIGA
    return f"{gigabit:g} Gbit/s with {network.round_trip_s * MILLISECONDS_PER_SECOND:g} ms"


def single_machine_note(name: str, decode: str, cost: str) -> str:
    """What one machine with enough memory would do instead."""
    return f"One {name} holds it alone: {decode} for {cost}."
