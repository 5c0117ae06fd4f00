"""What a plan is made of: options that could serve a demand, how each stands, and what it costs.

An option is judged by the verdict rule of :mod:`suffice.decide.verdict`, whoever owns the machine, and is worded as a
:class:`~suffice.decide.verdict.Grade`: "enough", "thin", "not enough" or "open". An option that is not enough has costs as well: they say
what would be paid for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from suffice.decide.verdict import Grade

if TYPE_CHECKING:
    from suffice.catalogue.entries import Price
    from suffice.decide.alternatives import Alternatives
    from suffice.decide.plan_curves import CostCurve
    from suffice.decide.quantity import Quantity
    from suffice.decide.verdict import Verdict
    from suffice.model.basis import Basis


class OptionKind(StrEnum):
    """What would answer the requests."""

    HERE = "this machine"  # the one that a run record is of; bought or paid for already
    CPU = "cpu instance"  # machines to rent without an accelerator; several of a kind where one is not enough
    GPU = "gpu instance"
    API = "api"  # paid by the token
    HYBRID = "hybrid"  # a GPU for the share that waits, CPUs for the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTag:
    """Where an amount comes from. All of it is shown with every amount: nobody trusts a price without a date.

    Attributes:
        amount: of one ``unit`` in ``currency``.
        unit: "hour", "month", "million input tokens", "million output tokens", "kWh".
        currency: three-letter code.
        region: as the provider writes it; "worldwide" for an API without regions, "stated" for the user's own figure.
        date: as exact as the source is: "2026-07-20", "2026-09".
        source: address or file.
        is_old: over 180 days old, or without a date: to be marked wherever it is shown.
    """

    amount: float
    unit: str
    currency: str
    region: str
    date: str
    source: str
    is_old: bool = False

    @classmethod
    def of_hour(cls, price: Price, *, is_old: bool = False) -> PriceTag:
        """The price of an hour of a machine of the catalogue."""
        return cls(
            amount=price.per_hour,
            unit="hour",
            currency=price.currency,
            region=price.region,
            date=price.date,
            source=price.source,
            is_old=is_old,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPart:
    """One line of a bill: ``amount`` a month is ``units`` times the price, and times the rate of ``conversion`` where there is one."""

    name: str
    amount: float
    units: float
    price: PriceTag
    conversion: PriceTag | None = None  # what the user states of one unit of the price's currency in that of the bill


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthlyCost:
    """What an option costs in a month of 730 hours.

    Attributes:
        amount: see above.
        currency: of it.
        parts: the lines of the bill.
        low: the least that it may be, where it rests on predicted speeds or on stated ranges.
        high: the most; None beside a ``low``: no upper end is known.
        per_volume: what of a machine's amount grows with the volume, at that of the demand: energy for the time in which it works.
    """

    amount: float
    currency: str
    parts: tuple[CostPart, ...]
    low: float | None = None
    high: float | None = None
    per_volume: float = 0.0

    @property
    def price_date(self) -> str | None:
        """The oldest date of its prices: a bill is as old as that."""
        return min((part.price.date for part in self.parts), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOption:
    """One way to serve the demand.

    Attributes:
        kind: what it is.
        name: "this machine", "aws/c7i.4xlarge", "3 x aws/c7i.4xlarge", "deepseek-v3 (siliconflow)".
        count: machines of it; 1 for an API.
        grade: how it stands; OPEN where what is known decides nothing, and ``reason`` says what would.
        reason: one sentence: by which constraint it fails or holds, and by how much.
        binding: the constraint with the least headroom; None: none could be judged.
        headroom: of the binding constraint, available over required; None: not known.
        basis: the weakest basis of what was judged; None: nothing was.
        cost: of a month at the demand's volume; None: no price is known, and ``cost_unknown`` says why.
        cost_unknown: see ``cost``.
        tokens_per_month: generated tokens that keep their limits; None: the demand states no volume.
        cost_per_million: of generated tokens that keep their limits. None: undefined, since limits are missed, or no volume or price is known.
        utilisation: share of the paid time in which the machines work, 0 to 1; None: not known, or not a machine.
        verdict: the whole verdict of one machine under its share of the demand; None for an API and a hybrid.
        members: of a hybrid: its parts, each judged under its share.
        notes: what has to be known about it, in sentences.
        prices: of one unit of it, also where no bill can be made out (an API without a volume).
        tokens_per_machine: generated tokens a month that one machine carries at its slow end with the margin; None: not looked for.
    """

    kind: OptionKind
    name: str
    grade: Grade
    reason: str
    count: int = 1
    binding: str | None = None
    headroom: float | None = None
    basis: Basis | None = None
    cost: MonthlyCost | None = None
    cost_unknown: str | None = None
    tokens_per_month: float | None = None
    cost_per_million: Quantity | None = None
    utilisation: float | None = None
    verdict: Verdict | None = None
    members: tuple[PlanOption, ...] = ()
    notes: tuple[str, ...] = ()
    prices: tuple[PriceTag, ...] = ()
    tokens_per_machine: float | None = None

    @property
    def is_enough(self) -> bool:
        """Whether it serves the demand with its whole margin."""
        return self.grade is Grade.ENOUGH


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """Where a machine and an API, which is paid by volume, cost the same.

    Attributes:
        cheaper_below: the API.
        cheaper_above: the machine: one of them where it is known what one carries, else as many as the option has.
        tokens_per_month: generated tokens at which they cost the same; never more than the machine is shown to carry.
        times_the_demand: that volume over the demand's.
        up_to_tokens_per_month: what the machine is shown to carry; beyond it the comparison says nothing.
    """

    cheaper_below: str
    cheaper_above: str
    tokens_per_month: float
    times_the_demand: float | None
    up_to_tokens_per_month: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All options, the best first: those that are enough by cost, then thin ones, open ones, and those that are not enough.

    Options in another currency than ``currency`` are ranked among themselves, behind; nothing is converted unless the user states a rate.

    Attributes:
        options: see above.
        currency: of the ranking: the demand's, else that of most prices.
        crossovers: between the cheapest machine that is enough and each API, by volume.
        model: that they would run, as the catalogue or the file calls it.
        alternatives: sentences about other models or quantizations, where nothing carries this one (:mod:`suffice.decide.alternatives`).
        too_big: the same with memory, prices and what has to be checked first; None where something carries the model.
        user_curves: cost against users at the same time, of some machines to rent; empty: it was not asked for.
        judged: how many options were looked at, those that are not kept included.
        notes: of the whole plan.
    """

    options: tuple[PlanOption, ...]
    currency: str
    model: str
    crossovers: tuple[Crossover, ...] = ()
    alternatives: tuple[str, ...] = ()
    too_big: Alternatives | None = None
    user_curves: tuple[CostCurve, ...] = ()
    judged: int = 0
    notes: tuple[str, ...] = ()
