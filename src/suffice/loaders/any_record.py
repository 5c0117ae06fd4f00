"""A run record, whoever wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.records.store import load_record

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.model.served import ServedLoad
    from suffice.records.schema import RunRecord


def load_any_record(path: Path) -> RunRecord:
    """Our own record, or llama-bench's JSON turned into one.

    Raises:
        RecordError: neither.
    """
    from suffice.loaders.llama_bench import is_llama_bench_file, load_llama_bench  # Pydantic models  # noqa: PLC0415  # Pydantic models, slow to import

    return load_llama_bench(path) if is_llama_bench_file(path) else load_record(path)


def loads_in(path: Path) -> tuple[ServedLoad, ...] | None:
    """The loads in a load tool's result, or None when the file is something else, which :func:`load_any_record` may read.

    Raises:
        RecordError: such a result with numbers that cannot be; not readable or not JSON.
    """
    from suffice.loaders.llama_bench import is_llama_bench_file  # Pydantic models  # noqa: PLC0415
    from suffice.loaders.load_results import find_loads  # as above  # noqa: PLC0415

    return None if is_llama_bench_file(path) else find_loads(path)
