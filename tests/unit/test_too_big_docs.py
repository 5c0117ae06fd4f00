"""docs/too-big.md: every figure of the worked 70B is what the functions say."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from suffice.catalogue.catalogue import shipped
from suffice.decide.alternatives import chained
from suffice.decide.alternatives_words import rpc_commands
from suffice.decide.quantity import Quantity
from suffice.loaders.alternatives import alternatives_for
from suffice.loaders.alternatives_models import LADDER
from suffice.loaders.reference import resolve_model
from suffice.loaders.shape_model import ShapeModel
from suffice.model.basis import Basis
from suffice.model.demand import single_stream_need
from suffice.model.rpc import FAST_NETWORK, MAX_RPC_SERVERS, SLOW_NETWORK, RpcChain, largest_part_bytes, layer_bytes
from suffice.report.alternatives import alternatives_markdown
from suffice.units import GIB, GIGA, MILLISECONDS_PER_SECOND

PAGE = (Path(__file__).parents[2] / "docs" / "too-big.md").read_text(encoding="utf-8")
CONTEXT = 8192
MODEL = resolve_model("llama-3.1-70b:q4_k_m")
CACHE = MODEL.shape.kv_cache_bytes(CONTEXT) or 0.0
assert isinstance(MODEL, ShapeModel)
SIZES = layer_bytes(MODEL.header, MODEL.shape, cache_bytes=CACHE, context_tokens=CONTEXT)


def rows(first: str) -> list[list[str]]:
    """The cells of the table whose header begins with a word, without header and rule."""
    lines = PAGE.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"| {first} |"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def gib(value: float) -> str:
    """As the page writes memory."""
    return f"{value / GIB:.2f} GiB"


def chain(machines: int) -> RpcChain:
    """The 70B over so many machines."""
    return RpcChain(machines=machines, n_embd=MODEL.shape.n_embd, n_vocab=MODEL.shape.n_vocab or 0)


def test_the_recipes_are_those_that_are_tried() -> None:
    """f16, then the ladder."""
    assert [row[0] for row in rows("recipe")] == ["f16", *LADDER]


@pytest.mark.parametrize("row", rows("recipe"), ids=lambda row: row[0])
def test_bytes_of_each_recipe(row: list[str]) -> None:
    """Weights, weights with the cache, and whether 31 GiB hold them."""
    weights = resolve_model(f"llama-3.1-70b:{row[0]}").shape.tensor_bytes
    holds = "holds it" if weights + CACHE <= 31 * GIB else "does not hold it"

    assert row[1:] == [gib(weights), gib(weights + CACHE), holds]


def test_the_cache_in_two_types() -> None:
    """f16 and q8_0, and a token of it."""
    smaller = MODEL.shape.kv_cache_bytes(CONTEXT, "q8_0", "q8_0") or 0.0
    token = MODEL.shape.kv_bytes_per_token() or 0.0

    assert (
        f"The cache takes {gib(CACHE)} in f16 ({token:,.0f} bytes a token) and would take {gib(smaller)} in q8_0."
        in PAGE
    )


@pytest.mark.parametrize("row", rows("machines"), ids=lambda row: row[0])
def test_what_a_chain_costs(row: list[str]) -> None:
    """Memory of the fullest machine, bytes, round trips, both networks, the rate that is left, and a start."""
    machines = int(row[0])
    shared = chain(machines)
    fast_s, slow_s = shared.network_s(FAST_NETWORK), shared.network_s(SLOW_NETWORK)
    rate = chained(Quantity(point=2.5, low=2.5, high=2.5, basis=Basis.PREDICTED), fast_s, slow_s)

    assert row[1:] == [
        gib(largest_part_bytes(SIZES, machines)),
        str(shared.crossings),
        f"{shared.pass_bytes():,}",
        str(shared.servers),
        f"{fast_s * MILLISECONDS_PER_SECOND:.2f} ms",
        f"{slow_s * MILLISECONDS_PER_SECOND:.2f} ms",
        f"{rate.low:.3f} to {rate.high:.3f}",
        f"{shared.load_s(SLOW_NETWORK, MODEL.shape.tensor_bytes):.0f} s",
    ]


def test_the_worked_formula() -> None:
    """Hidden state and logits of a token, and a prompt of 1,000 tokens over three machines."""
    three = chain(3)

    assert re.search(rf"8,192 x 4 += +{three.hop_bytes():,} bytes", PAGE)
    assert re.search(rf"128,256 x 4 += {three.logits_bytes:,} bytes", PAGE)
    fast_s, slow_s = (three.network_s(network, 1000) for network in (FAST_NETWORK, SLOW_NETWORK))
    assert f"{three.pass_bytes(1000):,} bytes, {fast_s:.2f} s at 10 Gbit/s and {slow_s:.2f} s at 1 Gbit/s" in PAGE
    assert f"{MAX_RPC_SERVERS} servers at most" in PAGE


def test_a_fast_model_loses_a_fifth_to_a_slow_network() -> None:
    """50 tokens/s and 5 ms: 20 ms become 25."""
    rate = chained(Quantity(point=50.0, low=50.0, high=50.0, basis=Basis.PREDICTED), 0.005, 0.005)

    assert rate.point == pytest.approx(40)
    assert "the same 5 ms of a slow network are a fifth of the speed" in PAGE


def test_the_commands_are_those_that_are_printed() -> None:
    """Word for word."""
    for command in rpc_commands(
        chain(3), MODEL.shape.n_layer, "llama-3.1-70b:q4_k_m", context_tokens=CONTEXT, streams=1
    ):
        assert f"\n{command}\n" in PAGE
    kept = MODEL.shape.n_layer + 1 - chain(3).layers_offloaded(MODEL.shape.n_layer)
    assert f"of three machines it keeps {kept} of the {MODEL.shape.n_layer} layers" in PAGE


@pytest.mark.parametrize("row", rows("model"), ids=lambda row: row[0])
def test_memory_by_all_experts_and_speed_by_the_active_ones(row: list[str]) -> None:
    """Parameters, active ones, bytes of the file and of a step."""
    shape = resolve_model(f"{row[0]}:q4_k_m").shape

    assert row[1:] == [
        f"{shape.parameters / GIGA:.1f} billion",
        f"{shape.active_parameters / GIGA:.1f} billion",
        gib(shape.tensor_bytes),
        gib(shape.streamed_bytes()),
    ]


def test_the_whole_table_is_what_is_printed() -> None:
    """For one stream of 5 tokens/s and 8,192 tokens, from the shipped catalogue."""
    demand = replace(single_stream_need(5.0), context_tokens=CONTEXT)
    found = alternatives_for(demand, MODEL, shipped(), today=date(2026, 11, 30))
    table = [line for line in alternatives_markdown(found).splitlines() if line.startswith("|")]

    assert "\n".join(table) in PAGE
    assert len(table) == len(found.items) + 2


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The Python block of the page, as it stands."""
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

    exec(compile(block, "too-big.md", "exec"), {})  # noqa: S102  # the page's own example

    assert capsys.readouterr().out.startswith("llama-3.1-70b:q4_k_m needs ")
