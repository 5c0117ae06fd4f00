"""Several machines that share a model which none of them holds, by llama.cpp's RPC backend."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from suffice.decide import alternatives_words as words
from suffice.decide.alternatives import Alternative, AlternativeKind, chained_evidence
from suffice.decide.plan_load import paid_hours
from suffice.decide.verdict import Grade
from suffice.decide.wording import format_value
from suffice.loaders.alternatives_market import chain_of, fastest
from suffice.loaders.gguf import read_gguf_header
from suffice.loaders.shape_model import ShapeModel
from suffice.model.cost import HOURS_PER_MONTH
from suffice.model.rpc import fewest_machines, layer_bytes, needed_by_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from suffice.decide.evidence import MachineEvidence
    from suffice.loaders.alternatives_asked import Asked
    from suffice.loaders.alternatives_market import Chained
    from suffice.model.rpc import RpcChain


def chains(asked: Asked) -> Iterator[Alternative]:
    """Several like each machine at hand; of those to rent the cheapest that hold it, and the cheapest that suit or else the fastest."""
    cache_bytes = asked.cache_bytes
    if cache_bytes is None:
        return
    needed = _needed(asked, cache_bytes)
    for one in asked.here:
        own = _of_own(asked, one, needed)
        if own is not None:
            yield own
    found = asked.market.chains(asked.model, needed, asked.cluster.networks)
    notes = _instead(asked) if found else ()
    for chained in _named(asked, found):
        item = _to_rent(asked, chained, needed)
        yield replace(item, notes=(*item.notes, *notes))
        notes = ()  # once is enough


def _needed(asked: Asked, cache_bytes: float) -> tuple[float, ...]:
    """Bytes of the fullest of 1, 2, 3 ... machines."""
    model = asked.model
    header = model.header if isinstance(model, ShapeModel) else read_gguf_header(model.path)
    sizes = layer_bytes(header, model.shape, cache_bytes=cache_bytes, context_tokens=asked.context_tokens)
    return needed_by_count(sizes, model.shape.tensor_bytes + cache_bytes, asked.cluster.most_machines)


def _of_own(asked: Asked, one: MachineEvidence, needed: Sequence[float]) -> Alternative | None:
    seen, usable = asked.seen_with(one, asked.model), asked.usable_bytes(one)
    if usable is None:
        return None
    free = usable - seen.overhead_bytes
    count = fewest_machines(needed, free)
    if count is None or count == 1:
        return None
    chain, name = chain_of(asked.model, count), f"{count} x {one.name}"
    roomy = replace(seen, memory_usable_bytes=usable)
    together = chained_evidence(roomy, chain, asked.cluster.networks, asked.market.lengths.prompt_tokens, name)
    item = replace(
        _item(asked, chain, needed, free),
        where=name,
        decode=together.decode_rate(asked.demand.work_depth_tokens),
        cost_unknown="one is at hand; what more of them cost is not known",
    )
    return asked.with_verdict(item, asked.judged_alone(together, keeps_memory=False))


def _to_rent(asked: Asked, one: Chained, needed: Sequence[float]) -> Alternative:
    evidence, price, count = one.prospect.evidence, one.prospect.price, one.chain.machines
    item = replace(
        _item(asked, one.chain, needed, (evidence.memory_usable_bytes or 0.0) / count),
        where=f"{count} x {evidence.name}",
        decode=evidence.decode[0].rate if evidence.decode else None,
        cost=None if price is None else asked.rent(price, count),
    )
    return asked.with_verdict(item, asked.market.judged(one.prospect).verdict)


def _item(asked: Asked, chain: RpcChain, needed: Sequence[float], usable_bytes: float) -> Alternative:
    """What does not depend on the machines' speed."""
    shape = asked.model.shape
    fast, slow = (chain.network_s(network) for network in asked.cluster.networks)
    commands = words.rpc_commands(
        chain,
        shape.n_layer,
        asked.name,
        context_tokens=asked.context_tokens,
        streams=asked.demand.streams,
        kv_type=asked.kv_type,
    )
    return Alternative(
        kind=AlternativeKind.RPC,
        model=asked.name,
        where="",
        grade=Grade.OPEN,
        reason="",
        weights_bytes=float(shape.tensor_bytes),
        needed_bytes=needed[chain.machines - 1],
        usable_bytes=usable_bytes,
        chain=chain,
        network_s=(fast, slow),
        checks=words.rpc_checks(chain, commands),
        notes=(
            words.network_note(chain, asked.cluster.networks),
            words.loading_note(chain, asked.cluster.networks, shape.tensor_bytes),
        ),
    )


def _named(asked: Asked, found: Sequence[Chained]) -> tuple[Chained, ...]:
    if not found:
        return ()
    suited = asked.market.suited(one.prospect for one in found)
    best = fastest([one.prospect for one in found]) if suited is None else suited.prospect
    return tuple(one for place, one in enumerate(found) if place == 0 or one.prospect is best)


def _instead(asked: Asked) -> tuple[str, ...]:
    """The cheapest single machine that holds the model, for the hours of their bill: what several have to be compared with."""
    one = asked.market.cheapest_plain(asked.model)
    if one is None or one.price is None or not one.evidence.decode:
        return ()
    price, rate = one.price, one.evidence.decode[0].rate
    hours = paid_hours(asked.demand)
    rented = "" if hours >= HOURS_PER_MONTH else f", rented for {hours:,.0f} of its {HOURS_PER_MONTH:.0f} hours"
    amount = f"{asked.rent(price).amount:,.0f} {price.currency} a month{rented}"
    cost = f"{amount} ({price.region}, {price.date}, {price.source})"
    return (words.single_machine_note(one.name, format_value(rate.point, "tokens/s"), cost),)
