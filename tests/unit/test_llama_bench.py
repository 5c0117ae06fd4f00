"""llama-bench's JSON as a run record: statistics from the samples, never from its own columns."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.records import write_json
from suffice.decide.compare import decide
from suffice.decide.evidence import evidence_from
from suffice.errors import RecordError
from suffice.loaders.any_record import load_any_record
from suffice.loaders.llama_bench import is_llama_bench_file, load_llama_bench
from suffice.model.demand import single_stream_need
from suffice.records.store import load_record, save_record

if TYPE_CHECKING:
    from pathlib import Path

SECOND_NS = 1_000_000_000


def _row(**changes: Any) -> dict[str, Any]:
    row = {
        "build_commit": "abc123",
        "build_number": 6000,
        "cpu_info": "Test CPU",
        "gpu_info": "",
        "backends": "CPU",
        "model_filename": "C:\\models\\toy.gguf",
        "model_type": "llama 135M Q4_1",
        "model_size": 98_000_000,
        "model_n_params": 134_515_008,
        "n_batch": 2048,
        "n_ubatch": 512,
        "n_threads": 2,
        "type_k": "f16",
        "type_v": "f16",
        "n_gpu_layers": 99,
        "flash_attn": False,
        "n_prompt": 0,
        "n_gen": 100,
        "n_depth": 0,
        "test_time": "2026-01-01T00:00:00Z",
        "avg_ts": 123456.0,  # wrong on purpose
        "stddev_ts": 18446744073709551615,
        "samples_ns": [5 * SECOND_NS] * 8,
        "samples_ts": [1.0],
    }
    return {**row, **changes}


def _prompt(**changes: Any) -> dict[str, Any]:
    return _row(**{"n_prompt": 512, "n_gen": 0, "samples_ns": [2 * SECOND_NS] * 8, **changes})


def test_rates_come_from_the_samples(tmp_path: Path) -> None:
    """100 tokens in 5 s are 20 tokens/s and 512 in 2 s are 256, whatever avg_ts says; the interval is ours."""
    record = load_llama_bench(write_json(tmp_path / "bench.json", [_prompt(), _row()]))

    assert (record.decode_tokens_per_second, record.prefill_tokens_per_second) == (20.0, 256.0)
    assert record.ttft_s is None
    (series,) = record.measurement.decode
    assert series.tokens_per_second is not None
    assert series.tokens_per_second.interval is not None
    assert len(series.tokens_per_second.samples) == 8
    assert series.depth == 50  # a test of 100 tokens from an empty cache works at a mean depth of 50


def test_identity_is_kept_and_the_unknown_stays_unknown(tmp_path: Path) -> None:
    """File name without folders, build, settings; whether the machine was busy is not known."""
    record = load_llama_bench(write_json(tmp_path / "bench.json", [_row()]))

    assert (record.source, record.machine, record.device_kind) == ("llama-bench", "Test CPU", "cpu")
    assert (record.model.file_name, record.model.file_bytes) == ("toy.gguf", 98_000_000)
    assert record.model.streamed_bytes is None
    assert record.model.kv_bytes_per_token is None
    assert record.disturbed is None
    assert record.warnings


def test_layers_on_a_gpu_make_a_gpu_record(tmp_path: Path) -> None:
    """99 layers count only where there is a GPU to hold them (llama-bench writes 99 on a CPU too)."""
    path = write_json(tmp_path / "bench.json", [_row(gpu_info="Some GPU")])

    assert (load_llama_bench(path).device_kind, load_llama_bench(path).machine) == ("gpu", "Some GPU")


def test_the_record_decides_and_survives_the_disk(tmp_path: Path) -> None:
    """20 tokens/s against 8 are enough, from the file and from our own record of it."""
    path = write_json(tmp_path / "bench.json", [_prompt(), _row()])
    record = load_any_record(path)
    save_record(record, tmp_path / "run.json")

    for loaded in (record, load_any_record(tmp_path / "run.json"), load_record(tmp_path / "run.json")):
        assert decide(single_stream_need(8), [evidence_from(loaded)]).verdict.verdict == "cpu"


def test_several_depths_become_series(tmp_path: Path) -> None:
    """Generation at two depths gives two series, the shallow one first."""
    rows = [_row(n_depth=4096, samples_ns=[10 * SECOND_NS] * 8), _row()]

    record = load_llama_bench(write_json(tmp_path / "bench.json", rows))

    assert [series.depth for series in record.measurement.decode] == [50, 4146]
    assert record.decode_tokens_per_second == 20.0


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "no test"),
        ([_row(n_prompt=512)], "pp"),
        ([_row(), _row()], "several generation tests"),
        ([_prompt(), _prompt()], "2 prompt tests"),
        ([_row(), _prompt(n_threads=4)], "different n_threads"),
        ([_row(), _prompt(model_filename="other.gguf")], "different model_filename"),
        ([_row(samples_ns=[])], "samples_ns"),
        ([_row(samples_ns=[0])], "samples_ns"),
        ([_row(samples_ns=[-5])], "samples_ns"),
        ([_row(samples_ns=[1.5])], "samples_ns"),
        ([_row(samples_ns=None)], "samples_ns"),
        ([{k: v for k, v in _row().items() if k != "samples_ns"}], "samples_ns"),
        ([_row(n_gen=-1)], "n_gen"),
        ([_row(n_gen=2**40)], "n_gen"),
        ([5], "not llama-bench JSON"),
        ({"schema_version": 1}, "not llama-bench JSON"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, document: object, words: str) -> None:
    """Combined, repeated or mixed tests, and files of other shapes, raise one sentence."""
    with pytest.raises(RecordError) as failure:
        load_llama_bench(write_json(tmp_path / "bench.json", document))
    assert words in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    "content", ["[", "[NaN]", "[" * 100_000, "[" + "9" * 5000 + "]", "", "\ud800".encode("utf-8", "surrogatepass")]
)
def test_what_is_no_json_is_refused(tmp_path: Path, content: str | bytes) -> None:
    """Broken text, deep nesting, huge numbers and bytes that are no text raise RecordError."""
    path = tmp_path / "bench.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(RecordError):
        load_llama_bench(path)


def test_huge_samples_are_refused(tmp_path: Path) -> None:
    """A sample of 10^400 ns is no time, and no OverflowError."""
    text = json.dumps([_row()]).replace(str(5 * SECOND_NS), "1" + "0" * 400)
    path = tmp_path / "bench.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(RecordError):
        load_llama_bench(path)


def test_what_looks_like_llama_bench(tmp_path: Path) -> None:
    """A JSON list is taken for llama-bench's, with or without a BOM; objects, folders and missing files are not."""
    claims = {b" \n[1]": True, b"\xef\xbb\xbf[": True, b"{}": False, b"GGUF": False, b"": False}
    for content, expected in claims.items():
        (tmp_path / "x").write_bytes(content)
        assert is_llama_bench_file(tmp_path / "x") is expected
    assert not is_llama_bench_file(tmp_path)
    assert not is_llama_bench_file(tmp_path / "missing")


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"n_gpu_layers": -1, "backends": "CUDA", "gpu_info": "NVIDIA H100"}, "gpu"),
        ({"n_gpu_layers": 99, "backends": "Metal", "gpu_info": ""}, "gpu"),
        ({"n_gpu_layers": 0, "backends": "CUDA", "gpu_info": "NVIDIA H100"}, "cpu"),
        ({"n_gpu_layers": -1, "backends": "CPU", "gpu_info": ""}, "cpu"),
        ({"n_gpu_layers": -1, "backends": "BLAS,CPU", "gpu_info": ""}, "cpu"),
    ],
)
def test_where_the_layers_ran(changes: dict[str, object], kind: str, tmp_path: Path) -> None:
    """llama-bench's default of -1 layers means all of them, on a GPU when its build has one."""
    row = {"n_prompt": 0, "n_gen": 16, "samples_ns": [1_000_000_000] * 3, **changes}
    path = tmp_path / "bench.json"
    path.write_text(json.dumps([row]), encoding="utf-8")

    assert load_llama_bench(path).device_kind == kind
