"""Whether so many machines hold a load, simulated: each machine stands for all that are at least as fast, of whatever model.

As :mod:`suffice.decide.service_screen`, for shares of a load and for several models: a machine is reduced to what decides (decode, prefill,
slots that fit).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.decide.covering import Covering, all_as_fast
from suffice.decide.service import ServiceOutlook, outlook
from suffice.decide.service_load import MOST_SLOTS, LoadKind, machines_share, slots_that_fit
from suffice.decide.service_shown import low_end, shown_outlook, slow_alone
from suffice.model.demand import users_with_margin

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.service_load import Effort
    from suffice.model.demand import Demand

_KNOWN: Final = 64  # shares of loads that are remembered
_SCREEN_SLOTS: Final = 8  # that are tried where figures of its own are not asked for, and nothing speaks for more


@dataclass(frozen=True, slots=True)
class _Key:
    """What decides whether a machine is enough: more of each is never worse."""

    decode: tuple[float, ...]  # at each depth that is told
    prefill: float
    slots: int
    load: float  # users or requests a second: the one figure of which less is easier

    def covers(self, other: _Key) -> bool:
        faster = all_as_fast(self.decode, other.decode) and self.prefill >= other.prefill
        return faster and self.slots >= other.slots and self.load <= other.load


@lru_cache(maxsize=_KNOWN)
def _known_of(unloaded: Demand) -> Covering[_Key, ServiceOutlook]:  # noqa: ARG001  # the key of the cache
    """By the demand without its load, so that what holds more shows that it holds less."""
    return Covering()


def forget() -> None:
    """Know nothing of any load, as a new process does.

    What was found out first decides which machine stands for which, so that a long-lived process that answers the same twice forgets between two plans.
    """
    _known_of.cache_clear()


def _under(known: ServiceOutlook, part: float) -> ServiceOutlook:
    """What was simulated of a load, said of a part of it: that much is carried at least."""
    served, drained = known.served, known.drained
    if served is not None:
        case = replace(served.case, demanded=served.case.demanded * part)
        users = case.kind is LoadKind.USERS
        served = replace(served, case=case, slots=math.ceil(case.demanded) if users else served.slots)
    if drained is not None:
        drained = replace(drained, case=replace(drained.case, demanded=drained.case.demanded * part))
    return replace(known, served=served, drained=drained)


def holds(demand: Demand, evidence: MachineEvidence, count: int) -> ServiceOutlook | None:
    """What is simulated of one of ``count`` machines under its share, where it holds that with the margin at the slow end; else None.

    What stands in it is of the machine or of a slower one, and nothing bounds the high end. "Not shown" is never "not enough".
    """
    share = machines_share(demand, count)
    key, machine = _reduced(share, evidence)
    unloaded = replace(share, concurrent_users=None, requests_per_second=None, is_share=share.is_of_users)
    found = _known_of(unloaded).found(key, lambda: shown_outlook(share, machine))
    if found is None:
        return None
    other, known = found
    return known if other.load == key.load else _under(known, key.load / other.load)


def own_outlook(
    demand: Demand, evidence: MachineEvidence, count: int, effort: Effort | None = None
) -> ServiceOutlook | None:
    """The same with the figures of this machine, with its high end and its capacity."""
    return outlook(machines_share(demand, count), evidence, effort)


def _reduced(share: Demand, evidence: MachineEvidence) -> tuple[_Key, MachineEvidence]:
    """The slow end of the machine with the slots that are tried, with nothing left that tells one machine or model from another."""
    context = share.needed_context_tokens or evidence.run_context_tokens
    fitting = slots_that_fit(share, evidence, context)
    decode = tuple(replace(point, rate=slow_alone(point.rate)) for point in evidence.decode)
    prefill = evidence.prefill_rate and slow_alone(evidence.prefill_rate)
    most = _slots_worth_trying(share, low_end(decode[0].rate) if decode else 0.0)
    slots = most if fitting is None else min(fitting, most)
    machine = replace(
        evidence,
        name="",
        is_gpu=False,
        decode=decode,
        prefill_rate=prefill,
        weights_bytes=0.0,
        kv_bytes_per_token=1.0,
        kv_layers=(),
        kv_state_bytes=0.0,
        overhead_bytes=0.0,
        memory_usable_bytes=float(slots * context),
        context_length=None,
        streamed_bytes=None,
        model_identity=None,
        model_name=None,
        model_file=None,
        bits_per_weight=None,
    )
    load = float(share.streams) if share.requests_per_second is None else share.requests_per_second
    key = _Key(decode=tuple(low_end(point.rate) for point in decode), prefill=low_end(prefill), slots=slots, load=load)
    return key, machine


def _slots_worth_trying(share: Demand, decode: float) -> int:
    """At the slow end all slots share one speed: under a limit on each token more are of no use than there are streams that it allows.

    Each user has a slot, with the margin; without that limit those who wait for a first token find a place the sooner the more there are.
    """
    need = share.required_decode_tokens_per_second
    if share.requests_per_second is None:
        return max(_SCREEN_SLOTS, users_with_margin(share.streams, share.margin))
    if need is None:
        return _SCREEN_SLOTS if share.ttft is None else MOST_SLOTS
    return min(MOST_SLOTS, max(_SCREEN_SLOTS, 1 << math.ceil(math.log2(max(1.0, decode / need)))))
