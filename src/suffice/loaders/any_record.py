"""A run record, whoever wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.records.store import load_record

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.records.schema import RunRecord


def load_any_record(path: Path) -> RunRecord:
    """Our own record, or llama-bench's JSON turned into one.

    Raises:
        RecordError: neither.
    """
    from suffice.loaders.llama_bench import is_llama_bench_file, load_llama_bench  # Pydantic models  # noqa: PLC0415  # Pydantic models, slow to import

    return load_llama_bench(path) if is_llama_bench_file(path) else load_record(path)
