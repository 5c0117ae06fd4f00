"""The cheapest machines of the catalogue that would be enough for a demand, for the commands that name them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suffice.catalogue.catalogue import Catalogue
    from suffice.decide.prospects import Standing
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.shape_model import ShapeModel
    from suffice.model.demand import Demand
    from suffice.report.prospects import CheapestMachines

_SHOWN_OF_A_CURRENCY = 3


def cheapest_machines(
    demand: Demand, model: ModelFile | ShapeModel, catalogue: Catalogue, *, kv_type: str
) -> CheapestMachines:
    """Judge every machine of the catalogue by its predictions and keep the cheapest that are enough.

    Raises:
        DemandError: the model cannot hold the context that the demand needs.
    """
    from suffice.decide.prospects import cheapest, predicted_lengths, standings
    from suffice.loaders.prospects import prospects_of, support_of
    from suffice.report.prospects import CheapestMachines

    # Machines that earn their CPU time as credits cannot keep the speed that a short test shows.
    steady = [machine for machine in catalogue.instances if not machine.is_burstable]
    lengths = predicted_lengths(demand)
    found = standings(demand, prospects_of(steady, catalogue, model, lengths, kv_type=kv_type))
    machines = {machine.key: machine for machine in steady}

    def explained(one: Standing) -> Standing:
        """What a shown one rests on: told for each machine, it would take seconds."""
        support = one.prospect.rests_on or support_of(machines[one.prospect.name], model, lengths)
        return replace(one, prospect=replace(one.prospect, rests_on=support))

    shown = cheapest(found, _SHOWN_OF_A_CURRENCY)
    return CheapestMachines(
        by_currency={currency: tuple(map(explained, own)) for currency, own in shown.items()},
        judged=len(found),
        enough=sum(one.is_enough for one in found),
        today=datetime.now(UTC).date(),
        memory_unknown=sum(one.lacks_memory_only for one in found),
    )
