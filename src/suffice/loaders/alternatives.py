"""From a model that is too big to what can be done instead: every figure from the shapes, the catalogue and the predictions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from suffice.decide import alternatives_words as words
from suffice.decide.alternatives import (
    Alternative,
    AlternativeKind,
    Alternatives,
    has_load,
    in_order,
    needed_bytes,
)
from suffice.decide.constraints import check_context
from suffice.decide.plan_apis import ApiWish, api_options
from suffice.decide.plan_load import volume_of
from suffice.decide.prospects import predicted_lengths
from suffice.decide.verdict import Grade
from suffice.loaders.alternatives_asked import Asked
from suffice.loaders.alternatives_chains import chains
from suffice.loaders.alternatives_market import Market
from suffice.loaders.alternatives_models import fewer_bits, known_of, similar_mixtures, smaller_siblings
from suffice.loaders.model_file import ModelFile
from suffice.loaders.plan_prices import tagged_apis
from suffice.model.recipe import needs_imatrix
from suffice.model.rpc import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from suffice.catalogue.catalogue import Catalogue
    from suffice.decide.alternatives import Check
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.prospects import Standing
    from suffice.loaders.shape_model import ShapeModel
    from suffice.model.demand import Demand

DEFAULT_CLUSTER: Final = Cluster()
_MOST_ACCELERATORS: Final = 3
_MOST_DEVICES: Final = 2
_NO_DEVICE_PRICE: Final = "the catalogue has no prices of cards to buy"
_OWN: Final = "a machine at hand"
_LARGE_CACHE: Final = 0.05  # of the weights: below it another type of the cache saves too little to tell


def alternatives_for(
    demand: Demand,
    model: ModelFile | ShapeModel,
    catalogue: Catalogue,
    *,
    here: Sequence[MachineEvidence] = (),
    kv_type: str = "f16",
    cluster: Cluster = DEFAULT_CLUSTER,
    today: date | None = None,
) -> Alternatives:
    """What can be done when a model is too big, sorted by how little it changes.

    One request alone is judged on each machine; of a demand with users, a rate or a queue nothing is simulated, so that it stays open whether
    an alternative holds all of it. `suffice plan` with that model says so.

    Args:
        demand: what is needed; where it states a rate and lengths, APIs have a monthly cost.
        model: that is too big.
        catalogue: machines to rent, cards and API prices.
        here: machines at hand, from run records of whatever model.
        kv_type: of the cache.
        cluster: how many machines may share the model, and what lies between them.
        today: for the marks of old prices; None: this day.

    Raises:
        DemandError: the model cannot hold the context that the demand needs.
    """
    asked = Asked(
        demand=demand,
        model=model,
        known=known_of(model),
        market=Market.of(catalogue, demand, predicted_lengths(demand), kv_type),
        here=tuple(here),
        kv_type=kv_type,
        cluster=cluster,
        today=today or datetime.now(UTC).date(),
    )
    check_context(demand, model.shape.context_length, model.shape.name)
    items = in_order(
        [
            *_other_models(asked, AlternativeKind.QUANT, fewer_bits(model, asked.known)),
            *chains(asked),
            *_accelerators(asked),
            *_apis(asked),
            *_other_models(asked, AlternativeKind.SIBLING, smaller_siblings(model, asked.known)),
            *_other_models(asked, AlternativeKind.MOE, similar_mixtures(model, asked.known)),
        ]
    )
    found = {item.kind for item in items}
    return Alternatives(
        model=asked.name,
        weights_bytes=float(model.shape.tensor_bytes),
        cache_bytes=asked.cache_bytes,
        context_tokens=asked.context_tokens,
        streams=demand.streams,
        rooms=tuple(asked.room(one) for one in asked.here),
        items=items,
        missing=tuple(why for kind, why in _why_missing(asked).items() if kind not in found),
        notes=_notes(asked),
    )


def _other_models(asked: Asked, kind: AlternativeKind, models: Sequence[ShapeModel]) -> Iterator[Alternative]:
    """Each on the machines at hand that hold it, and unless one of them is enough on the best machine to rent."""
    for model in models:
        length = model.shape.context_length
        if length is not None and length < asked.context_tokens:
            continue
        own = [item for one in asked.here if (item := _on_own(asked, kind, model, one)) is not None]
        yield from own
        best = None if any(item.grade is Grade.ENOUGH for item in own) else asked.market.best(model)
        if best is not None:
            item = _on_rented(asked, kind, model, best)
            yield replace(item, checks=_checks(asked, model, item.where, is_gpu=best.prospect.evidence.is_gpu))


def _on_own(asked: Asked, kind: AlternativeKind, model: ShapeModel, one: MachineEvidence) -> Alternative | None:
    seen = asked.seen_with(one, model)
    needed, usable = needed_bytes(seen, asked.demand), asked.usable_bytes(one)
    if needed is None or usable is None or needed > usable:
        return None
    item = Alternative(
        kind=kind,
        model=model.reference,
        where=one.name,
        grade=Grade.OPEN,
        reason="",
        weights_bytes=float(model.shape.tensor_bytes),
        needed_bytes=needed,
        usable_bytes=usable,
        decode=seen.decode_rate(asked.demand.work_depth_tokens),
        cost_unknown=_OWN,
        checks=_checks(asked, model, one.name, is_gpu=one.is_gpu),
    )
    return asked.with_verdict(item, asked.judged_alone(seen))


def _on_rented(asked: Asked, kind: AlternativeKind, model: ModelFile | ShapeModel, standing: Standing) -> Alternative:
    evidence, price = standing.prospect.evidence, standing.prospect.price
    name = str(model.path) if isinstance(model, ModelFile) else model.reference
    item = Alternative(
        kind=kind,
        model=name,
        where=evidence.name,
        grade=Grade.OPEN,
        reason="",
        weights_bytes=float(model.shape.tensor_bytes),
        needed_bytes=needed_bytes(evidence, asked.demand),
        usable_bytes=evidence.memory_usable_bytes,
        decode=evidence.decode[0].rate if evidence.decode else None,
        cost=None if price is None else asked.rent(price),
        cost_unknown=_NO_DEVICE_PRICE if price is None else None,
        checks=(words.served_check(evidence.name), *_load_checks(asked, name)),
    )
    return asked.with_verdict(item, standing.verdict)


def _checks(asked: Asked, model: ShapeModel, where: str, *, is_gpu: bool) -> tuple[Check, ...]:
    """Of another model, or the same with fewer bits: how it is made, its speed, the load, and what it answers."""
    name = model.reference
    matrix = (words.imatrix_check(name),) if needs_imatrix(name.rpartition(":")[2]) else ()
    speed = words.served_check(where) if is_gpu else words.speed_check(name, where)
    return (*matrix, speed, *_load_checks(asked, name), words.quality_check(name))


def _load_checks(asked: Asked, name: str) -> tuple[Check, ...]:
    return (words.load_check(name),) if has_load(asked.demand) else ()


def _notes(asked: Asked) -> tuple[str, ...]:
    """What concerns several ways."""
    known, cache = asked.known, asked.cache_bytes
    notes = []
    if known.entry is not None and not known.is_named:
        notes.append(words.shape_note(known.stem, known.entry.id))
    if asked.kv_type == "f16" and cache is not None and cache >= _LARGE_CACHE * asked.model.shape.tensor_bytes:
        notes.append(words.cache_note(cache, asked.cache_bytes_in("q8_0") or cache))
    return (*notes, *words.GENERAL_NOTES)


def _accelerators(asked: Asked) -> Iterator[Alternative]:
    found = asked.market.accelerators(asked.model, _MOST_ACCELERATORS)
    for one in (*found, *asked.market.devices(asked.model, _MOST_DEVICES)):
        yield _on_rented(asked, AlternativeKind.GPU, asked.model, one)


def _apis(asked: Asked) -> Iterator[Alternative]:
    """Every API that serves the very model, in whatever currency."""
    wish = ApiWish(names=(asked.known.stem,))
    volume = volume_of(asked.demand)
    for tagged in tagged_apis(asked.market.catalogue.apis, asked.today):
        for option in api_options(asked.demand, [tagged], wish, volume):
            api = tagged.api
            yield Alternative(
                kind=AlternativeKind.API,
                model=api.model,
                where=api.platform if api.tier is None else f"{api.platform}, {api.tier}",
                grade=option.grade,
                reason=option.reason,
                binding=option.binding,
                basis=option.basis,
                cost=option.cost,
                cost_unknown=option.cost_unknown,
                checks=(words.api_check(api.model),),
                notes=option.notes,
            )


def _why_missing(asked: Asked) -> dict[AlternativeKind, str]:
    """A sentence for each way, should nothing of it be found."""
    name, currency = asked.known.stem, asked.market.currency
    bits = f"fewer bits: no recipe that makes {name} clearly smaller fits a machine that is known"
    if asked.known.entry is None and not fewer_bits(asked.model, asked.known):
        bits = (
            f"fewer bits: {name} is quantized already, and no model of the catalogue has its shape; give the F16 file"
        )
    return {
        AlternativeKind.QUANT: bits,
        AlternativeKind.RPC: f"several machines: up to {asked.cluster.most_machines} of no kind with a price in {currency} hold it together and not alone",
        AlternativeKind.GPU: f"gpu: no machine with a price in {currency} and no card of the catalogue holds it",
        AlternativeKind.API: (
            f"api: the catalogue has no price of {name}; state one in a file of yours (`--catalog FILE`), or `suffice catalog refresh`"
        ),
        AlternativeKind.SIBLING: f"smaller model: the catalogue has none of the family of {name} that fits",
        AlternativeKind.MOE: f"mixture of experts: the catalogue has none of the size of {name} that reads less for a token and fits",
    }
