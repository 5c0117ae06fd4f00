"""Results of load tools as evidence: recognised by their keys, read with every number checked, mapped to our definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.errors import RecordError
from suffice.loaders.load_results.aiperf import aiperf_loads, is_aiperf
from suffice.loaders.load_results.fields import Node
from suffice.loaders.load_results.guidellm import guidellm_loads, is_guidellm
from suffice.loaders.load_results.inference_perf import inference_perf_loads, is_inference_perf
from suffice.loaders.load_results.own import is_own, own_loads
from suffice.loaders.load_results.own_capacity import capacity_loads, is_capacity
from suffice.loaders.load_results.vllm import is_vllm, vllm_loads
from suffice.records.store import load_json

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.model.served import ServedLoad

_READERS: Final = (
    (is_own, own_loads),
    (is_capacity, capacity_loads),
    (is_guidellm, guidellm_loads),
    (is_aiperf, aiperf_loads),
    (is_inference_perf, inference_perf_loads),
    (is_vllm, vllm_loads),
)
_TOOLS: Final = "suffice load, GuideLLM, AIPerf, GenAI-Perf, vllm bench serve and inference-perf"


def find_loads(path: Path) -> tuple[ServedLoad, ...] | None:
    """The loads in a file, or None when it is of no load tool.

    Raises:
        RecordError: not readable, not JSON, or a load tool's file with numbers that cannot be.
    """
    document = load_json(path)
    if not isinstance(document, dict):
        return None
    for is_its, loads in _READERS:
        if is_its(document):
            found = loads(Node(document, path.name))
            if not found:
                raise RecordError(f"{path.name} is a load tool's file without a single load in it")
            return found
    return None


def load_results(path: Path) -> tuple[ServedLoad, ...]:
    """The loads in a file of a load tool.

    Raises:
        RecordError: see :func:`find_loads`; or the file is of no load tool.
    """
    found = find_loads(path)
    if found is None:
        raise RecordError(f"{path.name} is no result of a load tool; {_TOOLS} are read")
    return found
