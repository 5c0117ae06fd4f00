"""llama-bench's ``-o json`` output as a run record.

Its statistics are recomputed from ``samples_ns``: its own deviation is an integer calculation in one pass that wraps
(llama.cpp issue 22300), and its ``avg_ts`` averages rates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from suffice.errors import RecordError
from suffice.records.schema import DecodeSeries, EngineRecord, MeasurementRecord, ModelRecord, PrefillSeries, RunRecord
from suffice.records.store import load_json
from suffice.stats.intervals import estimate_from
from suffice.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.stats.estimate import Estimate

_SNIFF_BYTES: Final = 256
_CPU_BACKENDS: Final = {"", "CPU", "BLAS", "RPC"}
_Count = Annotated[int, Field(ge=0, le=2**31)]


class _Row(BaseModel):
    """One test of llama-bench; fields that are not used are left alone."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    model_filename: str = ""
    model_type: str = ""
    model_size: Annotated[int, Field(ge=0)] = 0
    model_n_params: Annotated[int, Field(ge=0)] = 0
    build_commit: str = ""
    build_number: int | str = ""
    cpu_info: str = ""
    gpu_info: str = ""
    backends: str = ""
    n_gpu_layers: int = 0
    n_threads: _Count = 0
    n_batch: _Count = 0
    n_ubatch: _Count = 0
    type_k: str = "f16"
    type_v: str = "f16"
    flash_attn: bool | int | None = None
    n_prompt: _Count = 0
    n_gen: _Count = 0
    n_depth: _Count = 0
    test_time: str | None = None
    samples_ns: Annotated[list[Annotated[int, Field(gt=0)]], Field(min_length=1, max_length=100_000)]


_ROWS: Final = TypeAdapter(list[_Row])


def is_llama_bench_file(path: Path) -> bool:
    """Whether a file looks like a JSON list, as llama-bench writes it; a GGUF file begins otherwise."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(_SNIFF_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    except OSError:
        return False


def load_llama_bench(path: Path) -> RunRecord:
    """The record in a llama-bench JSON file: its prompt test (pp) and its generation test (tg).

    Raises:
        RecordError: not such a file, tests of more than one model or setting, or combined (pg) tests only.
    """
    document = load_json(path)
    try:
        rows = _ROWS.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise RecordError(f"{path} is not llama-bench JSON: '{where}': {first['msg']}") from error
    return _record(rows, path)


def _record(rows: list[_Row], path: Path) -> RunRecord:
    prompts = [row for row in rows if row.n_prompt and not row.n_gen]
    generations = [row for row in rows if row.n_gen and not row.n_prompt]
    if not prompts and not generations:
        raise RecordError(
            f"{path} holds no test of prompt (pp) or generation (tg) alone; run llama-bench -p 512 -n 128 -o json"
        )
    _check_one_setting([*prompts, *generations], path)
    prompt = _only(prompts, "prompt", path)
    generation_rows = sorted(generations, key=lambda row: row.n_depth)
    depths = [row.n_depth for row in generation_rows]
    if len(set(depths)) != len(depths):
        raise RecordError(f"{path} holds several generation tests of the same depth; keep one")
    decode = tuple(_decode(row) for row in generation_rows)
    prefill = None if prompt is None else _prefill(prompt)
    any_row = (generation_rows or prompts)[0]
    on_gpu = _ran_on_gpu(any_row)
    first_rate = decode[0].tokens_per_second if decode else None
    return RunRecord(
        created_at=any_row.test_time,
        source="llama-bench",
        decode_tokens_per_second=None if first_rate is None else first_rate.point,
        prefill_tokens_per_second=None
        if prefill is None or prefill.tokens_per_second is None
        else prefill.tokens_per_second.point,
        machine=(any_row.gpu_info if on_gpu else any_row.cpu_info) or None,
        device_kind="gpu" if on_gpu else "cpu",
        model=ModelRecord(
            name=any_row.model_type or None,
            file_name=any_row.model_filename.replace("\\", "/").rsplit("/", 1)[-1] or None,
            file_bytes=any_row.model_size or None,
            parameters=any_row.model_n_params or None,
        ),
        engine=EngineRecord(
            name="llama-bench",
            version=str(any_row.build_number) or None,
            llama_cpp_version=any_row.build_commit or None,
        ),
        settings=any_row.model_dump(
            include={"n_batch", "n_ubatch", "type_k", "type_v", "flash_attn", "n_gpu_layers", "n_threads"}
        ),
        measurement=MeasurementRecord(decode=decode, prefill=prefill),
        warnings=("llama-bench does not record whether the machine was busy, nor which bytes a step reads",),
    )


def _ran_on_gpu(row: _Row) -> bool:
    """llama-bench gives all layers to a GPU that its build knows, unless told otherwise: -1, its default, means all of them."""
    backends = {name.strip().upper() for name in row.backends.split(",")} - _CPU_BACKENDS
    return row.n_gpu_layers != 0 and (bool(row.gpu_info) or bool(backends))


def _check_one_setting(rows: list[_Row], path: Path) -> None:
    """Averages over rows with differing settings are numbers of nothing (llama.cpp issue 7673)."""
    for name in (
        "model_filename",
        "n_threads",
        "type_k",
        "type_v",
        "n_gpu_layers",
        "backends",
        "gpu_info",
        "n_batch",
        "n_ubatch",
    ):
        values = sorted({str(getattr(row, name)) for row in rows})
        if len(values) > 1:
            raise RecordError(
                f"{path} holds tests with different {name} ({', '.join(values)}); give one setting per file"
            )


def _only(rows: list[_Row], what: str, path: Path) -> _Row | None:
    if len(rows) > 1:
        raise RecordError(f"{path} holds {len(rows)} {what} tests; give a file with one")
    return rows[0] if rows else None


def _rate(row: _Row, tokens: int) -> Estimate:
    return estimate_from([tokens * NANOSECONDS_PER_SECOND / sample for sample in row.samples_ns])


def _decode(row: _Row) -> DecodeSeries:
    # A test of n tokens from depth d works at a mean depth of d + n/2; the steps themselves are not in the file.
    return DecodeSeries(
        depth=row.n_depth + row.n_gen // 2, threads=row.n_threads, tokens_per_second=_rate(row, row.n_gen)
    )


def _prefill(row: _Row) -> PrefillSeries:
    if row.n_depth:
        return PrefillSeries(
            prompt_tokens=row.n_prompt, threads=row.n_threads, tokens_per_second=_rate(row, row.n_prompt)
        )
    return PrefillSeries(
        prompt_tokens=row.n_prompt,
        threads=row.n_threads,
        chunk_tokens=(row.n_prompt,),
        chunk_s=tuple((sample / NANOSECONDS_PER_SECOND,) for sample in row.samples_ns),
        tokens_per_second=_rate(row, row.n_prompt),
    )
