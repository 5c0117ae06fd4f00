"""One run, from a model to a record: of a file, of a whole stand-in, or of slices of a model that nobody has downloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.loaders.model_file import ModelFile
from suffice.measure.base_run import Surroundings
from suffice.measure.file_run import FileRun
from suffice.measure.numa import pinned_to
from suffice.measure.request import RunRequest
from suffice.measure.shape_run import run_shape

if TYPE_CHECKING:
    from suffice.records.schema import RunRecord

__all__ = ["RunRequest", "Surroundings", "measure_model"]


def measure_model(request: RunRequest, around: Surroundings, *, earlier: RunRecord | None = None) -> RunRecord:
    """Measure a model and return its record; ``earlier`` is the incomplete record of a run to go on with.

    A file that does not fit in the usable memory is not run: the record then holds its facts, the bandwidth and the ceiling. A
    model without a file is stood in for, and its figures are those that it would have if it fitted. A run that is placed on NUMA nodes
    stays on the first one, from the reading of the file on.

    Raises:
        UsageError: lengths that the model cannot hold, or an ``earlier`` record of another model or settings.
        EngineError: the engine failed; what was measured before was saved.
        OutputError: slices could not be written.
        SufficeError: the system keeps it off the node that it was to be placed on.
    """
    with pinned_to(request.nodes[:1]):
        if isinstance(request.model, ModelFile):
            return FileRun(request, around, earlier, request.model.path).execute()
        return run_shape(request, request.model, around, earlier)
