"""A run of a model that nobody has downloaded: as a whole of random weights where it is small, else in slices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError
from suffice.measure.base_run import CACHE_MULTIPLE
from suffice.measure.file_run import FileRun
from suffice.measure.numa import facts_on
from suffice.measure.request import SliceChoice
from suffice.measure.slice_run import SliceRun
from suffice.measure.slice_work import open_bytes
from suffice.model.extrapolation import LEAST_SLICES
from suffice.model.slice_plan import plan_again, plan_slices
from suffice.model.slices import SliceDesign, whole_model
from suffice.units import GIB, MIB, format_memory

if TYPE_CHECKING:
    from suffice.loaders.shape_model import ShapeModel
    from suffice.measure.base_run import Surroundings
    from suffice.measure.request import RunRequest
    from suffice.records.schema import RunRecord

# What all open slices may take together: a ninth of the model, but not less and not more than this.
LEAST_SLICES_BYTES: Final = 195 * GIB // 100
MOST_SLICES_BYTES: Final = 46 * GIB // 10
MODEL_SHARE: Final = 9
MEMORY_SHARE: Final = 0.7
# A model so small is written whole: its slices would stay in caches that the whole does not fit in, or the other way round.
WHOLE_LEAST_BYTES: Final = 256 * MIB
WHOLE_MOST_BYTES: Final = 3 * GIB // 2


def run_shape(request: RunRequest, model: ShapeModel, around: Surroundings, earlier: RunRecord | None) -> RunRecord:
    """Measure a model without a file: small ones as a whole stand-in of random weights, others in slices.

    Raises:
        UsageError: settings that slices cannot have, or too little memory even for them.
        ModelFileError: the engine cannot run this architecture in slices.
        OutputError: they cannot be written.
    """
    if around.slices is None:
        raise UsageError(f"{model.reference}: is not a file, and nothing is here to write slices with")
    if request.prompt is not None:
        raise UsageError(
            "--prompt needs the model's own vocabulary, which a stand-in does not have; give its GGUF file"
        )
    facts = facts_on(around.machine.facts(), request.nodes)
    if _takes_whole(request.slices, model, facts.llc_bytes):
        design = whole_model(model.header)
        around.progress("writing a stand-in of the whole model")
        path = around.slices.obtain(design.slice_header(design.plans[0]), progress=around.progress)
        return StandInRun(request, around, earlier, path).execute()
    if 0 < request.n_gpu_layers < model.shape.n_layer:
        raise UsageError(
            f"--gpu-layers {request.n_gpu_layers}: slices cannot tell how a part of the {model.shape.n_layer} layers on a GPU would run; "
            "give all of them or none"
        )
    design = _design(model, facts.memory_usable_bytes, earlier)
    needed = open_bytes(design)
    if needed > facts.memory_usable_bytes:
        raise UsageError(
            f"{model.reference}: even its slices need {format_memory(needed)} of memory, and "
            f"{format_memory(facts.memory_usable_bytes)} can be used; `suffice ceiling` needs none"
        )
    return SliceRun(request, around, earlier, model, design).execute()


def _takes_whole(choice: SliceChoice, model: ShapeModel, llc_bytes: int | None) -> bool:
    if choice is not SliceChoice.AUTO:
        return choice is SliceChoice.WHOLE
    if model.shape.n_layer < LEAST_SLICES:
        return True
    limit = min(max(CACHE_MULTIPLE * (llc_bytes or 0), WHOLE_LEAST_BYTES), WHOLE_MOST_BYTES)
    return model.header.tensor_bytes <= limit


def _design(model: ShapeModel, usable_bytes: int, earlier: RunRecord | None) -> SliceDesign:
    """Slices by what is free now; those of an interrupted run, however much was free then."""
    extrapolation = None if earlier is None else earlier.measurement.extrapolation
    if extrapolation is not None and extrapolation.slices:
        return plan_again(model.header, [(one.layers, one.n_vocab) for one in extrapolation.slices])
    wanted = min(max(model.header.tensor_bytes // MODEL_SHARE, LEAST_SLICES_BYTES), MOST_SLICES_BYTES)
    return plan_slices(model.header, min(wanted, round(MEMORY_SHARE * usable_bytes)))


class StandInRun(FileRun):
    """A run of a whole model of random weights in place of the one that is not here."""

    def _blank(self) -> RunRecord:
        return replace(super()._blank(), basis="extrapolated")
