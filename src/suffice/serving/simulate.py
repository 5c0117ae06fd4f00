"""One run of a server under a load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.serving.blocks_engine import BlocksEngine
from suffice.serving.misses import Misses
from suffice.serving.schedulers import LlamaCppScheduler
from suffice.serving.slots_engine import SlotsEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.serving.curve import ServiceCurve
    from suffice.serving.engine import Engine
    from suffice.serving.load import DrawnLoad, Load
    from suffice.serving.run import SimulatedRun
    from suffice.serving.schedulers import Scheduler
    from suffice.serving.search import LatencyLimit
    from suffice.serving.summary import Window


def simulate(curve: ServiceCurve, scheduler: Scheduler, load: Load, seed: int = 0) -> SimulatedRun:
    """Serve one realisation of a load; the same seed gives the same run."""
    return _engine(curve, scheduler, load.draw(seed)).run()


def simulate_until_certain(
    curve: ServiceCurve, scheduler: Scheduler, load: Load, seed: int, limits: Sequence[LatencyLimit], window: Window
) -> SimulatedRun | bool:
    """Whether that run keeps the limits, as soon as this is certain; the run itself where its end is needed for it."""
    drawn = load.draw(seed)
    misses = Misses(limits, window, drawn, scheduler.request_tokens)
    run = _engine(curve, scheduler, drawn, misses).run()
    return run if misses.kept is None else misses.kept


def _engine(curve: ServiceCurve, scheduler: Scheduler, drawn: DrawnLoad, misses: Misses | None = None) -> Engine:
    if isinstance(scheduler, LlamaCppScheduler):
        return SlotsEngine(curve, scheduler, drawn, misses)
    return BlocksEngine(curve, scheduler, drawn, misses)
