"""``suffice predict``: tables in, tables out, with anything missing."""

from __future__ import annotations

import csv
import gzip
import io
import json
from typing import TYPE_CHECKING

import pytest

from suffice.cli.predict import predict, read_table
from suffice.errors import OutputError, RecordError
from suffice.predict.bulk import OUTPUT_COLUMNS, predict_table
from suffice.predict.cpu_data import shipped_cpu_model, shipped_measurements
from suffice.predict.rows import Columns, machine_of, ran_on_a_gpu, workload_of

if TYPE_CHECKING:
    from pathlib import Path

FULL = {
    "vendor": "aws",
    "instance": "c7i.4xlarge-of-tomorrow",
    "llm_cpu": "Intel(R) Xeon(R) Platinum 8488C",
    "llm_gpu": "",
    "backend": "CPU",
    "build": "4753",
    "model": "llama-7b.Q4_K_M.gguf",
    "model_bytes": "4080263168",
    "model_params": "6738415616",
    "threads": "8",
    "gpu_layers": "0",
    "flash_attn": "True",
    "n_prompt": "0",
    "n_gen": "128",
    "samples": "5",
    "arch": "x86_64",
    "cpu_model": "Intel(R) Xeon(R) Platinum 8488C",
    "vcpu": "16",
    "threads_per_core": "2",
    "cores_per_socket": "8",
    "sockets": "1",
    "numa_nodes": "1",
    "l3": "110100480 (1 instance)",
    "isa": "avx avx2 fma f16c avx512f avx512bw avx512_vnni avx512_bf16 avx512_fp16 avx_vnni amx_tile amx_int8 amx_bf16",
    "read_gb_s": "100.5",
    "read_block_mb": "512",
    "membench_read_gb_s": "",
    "gpu": "",
    "gpu_count": "",
}
MEASURED = {
    "vendor": "alicloud",
    "instance": "ecs.c4.3xlarge",
    "model": "SmolLM-135M.Q4_K_M.gguf",
    "n_prompt": "128",
    "n_gen": "0",
}


def table(*rows: dict[str, str]) -> str:
    """A CSV text with the columns of all rows."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names)
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def run(tmp_path: Path, text: str, *, measured: bool = True) -> list[dict[str, str]]:
    """The rows that the command writes for a table."""
    source, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    source.write_text(text, encoding="utf-8")
    predict(source, out, measured=measured, json_output=False)
    with out.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_answer_stands_beside_the_input(tmp_path: Path) -> None:
    """The input's columns in their order, then point, low, high and basis."""
    (row,) = run(tmp_path, table(FULL))

    assert list(row) == [*FULL, *OUTPUT_COLUMNS]
    assert {name: row[name] for name in FULL} == FULL
    assert row["basis"] == "predicted"
    assert 0 < float(row["low"]) < float(row["predicted_tokens_per_second"]) < float(row["high"])


@pytest.mark.parametrize("name", sorted(set(FULL) - {"n_gen", "n_prompt"}))
def test_any_one_column_may_be_missing_or_empty(tmp_path: Path, name: str) -> None:
    """Without a column, or with an empty cell, there is an answer within a factor of two of the full one."""
    (full,) = run(tmp_path, table(FULL))
    (empty,) = run(tmp_path, table(FULL | {name: ""}))
    (missing,) = run(tmp_path, table({key: value for key, value in FULL.items() if key != name}))

    assert empty["predicted_tokens_per_second"] == missing["predicted_tokens_per_second"]
    assert 0.5 < float(empty["predicted_tokens_per_second"]) / float(full["predicted_tokens_per_second"]) < 2


def test_answers_that_are_there_are_never_read(tmp_path: Path) -> None:
    """tok_s_* is what is to be predicted: whatever stands there changes nothing."""
    (without,) = run(tmp_path, table(FULL))
    (with_it,) = run(tmp_path, table(FULL | {"tok_s_median": "999", "tok_s_min": "1", "tok_s_max": "1e9"}))

    assert with_it["predicted_tokens_per_second"] == without["predicted_tokens_per_second"]


def test_the_very_machine_is_shown_as_measured(tmp_path: Path) -> None:
    """Its measurement where it is in the table; a prediction where predictions are asked for."""
    (row,) = run(tmp_path, table(MEASURED))
    (guess,) = run(tmp_path, table(MEASURED), measured=False)

    assert row["basis"] == "measured elsewhere"
    assert float(row["predicted_tokens_per_second"]) == pytest.approx(744.937, rel=1e-5)
    assert guess["basis"] == "predicted"


def test_rows_that_say_too_little_are_unknown_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No model, both phases, no phase, no machine: empty cells, and one line on stderr."""
    nothing = {"vendor": "", "instance": "", "llm_cpu": "", "cpu_model": "", "vcpu": "", "read_gb_s": "", "threads": ""}
    rows = run(
        tmp_path,
        table(
            FULL,
            FULL | {"model": "", "model_bytes": "", "model_params": ""},
            FULL | {"n_prompt": "512"},
            FULL | {"n_gen": ""},
            FULL | nothing,
        ),
    )

    assert [row["basis"] for row in rows] == ["predicted", *["unknown"] * 4]
    assert all(row["predicted_tokens_per_second"] == row["low"] == row["high"] == "" for row in rows[1:])
    assert "4 of 5 rows cannot be predicted" in capsys.readouterr().err


@pytest.mark.parametrize("cell", ["nan", "-5", "1e400", "zero", "0", "1e99", "٣٣٣", "=1+1", "'; drop", "\t"])
@pytest.mark.parametrize("name", ["vcpu", "read_gb_s", "numa_nodes", "l3", "threads", "isa", "model_bytes", "sockets"])
def test_nonsense_in_a_cell_is_unknown_there(tmp_path: Path, name: str, cell: str) -> None:
    """A cell that is no sensible number counts as empty, and the row has a finite answer all the same."""
    (row,) = run(tmp_path, table(FULL | {name: cell}))

    assert 0 < float(row["low"]) < float(row["high"]) < 1e6


def test_rows_of_gpus_are_never_answered_as_cpus() -> None:
    """A GPU that ran goes to the device's model or is unknown; one that silently did not run is a CPU row."""
    gpu = FULL | {"gpu": "NVIDIA L4", "gpu_count": "1", "backend": "CUDA", "gpu_layers": "999", "llm_gpu": "NVIDIA L4"}
    idle = FULL | {"gpu": "NVIDIA L4", "gpu_count": "1"}
    header = list(FULL)
    rows = [list(gpu.values()), list(idle.values())]

    without = predict_table(header, rows, shipped_cpu_model(), None)
    with_it = predict_table(header, rows, shipped_cpu_model(), None, lambda cells: [(50.0, 40.0, 60.0)] * len(cells))

    assert [answer.basis for answer in without] == ["unknown", "predicted"]
    assert with_it[0].point == 50.0
    assert with_it[1].point == without[1].point


@pytest.mark.parametrize(
    ("gpu", "cells", "ran"),
    [
        ("NVIDIA L4", ("CUDA", "999", "NVIDIA L4"), True),
        ("NVIDIA L4", ("CPU", "0", ""), False),
        ("NVIDIA L4", ("CUDA", "0", "NVIDIA L4"), False),
        ("NVIDIA L4", ("", "", ""), True),
        ("", ("", "", ""), False),
        ("", ("CPU", "", ""), False),
        ("", ("CUDA", "999", ""), True),
    ],
)
def test_a_gpu_ran_where_backend_and_layers_say_so(gpu: str, cells: tuple[str, ...], *, ran: bool) -> None:
    """The backend CPU, or no layers on the GPU, means that the CPU ran."""
    assert ran_on_a_gpu(gpu, cells) is ran


def test_the_cpu_of_the_measurement_counts() -> None:
    """llm_cpu before cpu_model, but not llama.cpp's bare "CPU" of ARM."""
    columns = Columns.of(["cpu_model", "llm_cpu"])
    names = tuple(
        "vendor instance cpu_model llm_cpu vcpu threads_per_core cores_per_socket sockets numa_nodes l3".split()
    )
    rest = ("isa", "read_gb_s", "membench_read_gb_s", "gpu", "gpu_count", "arch")

    other = machine_of(columns.picked(["AMD EPYC 7763", "AMD EPYC 7452"], names + rest))
    arm = machine_of(columns.picked(["Neoverse-N1", "CPU"], names + rest))

    assert (other.cpu_model, other.described_cpu_model) == ("AMD EPYC 7452", "AMD EPYC 7763")
    assert arm.cpu_model == "Neoverse-N1"


def test_a_prompt_and_an_answer_in_one_row_are_no_phase() -> None:
    """llama-bench's pg tests mix both: their rate is neither."""
    assert workload_of(("llama-7b.Q4_K_M.gguf", "", "", "", "512", "128")) is None


def test_an_earlier_prediction_is_overwritten(tmp_path: Path) -> None:
    """Predicting the output again gives the same columns once."""
    (first,) = run(tmp_path, table(FULL))
    (again,) = run(tmp_path, table(first))

    assert again == first


def test_compressed_tables_go_in_and_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """.csv.gz at both ends, and a summary document with --json."""
    source, out = tmp_path / "rows.csv.gz", tmp_path / "out.csv.gz"
    source.write_bytes(gzip.compress(table(FULL, FULL).encode()))

    predict(source, out, json_output=True)

    assert len(gzip.decompress(out.read_bytes()).splitlines()) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["rows"] == 2
    assert document["basis"] == {"predicted": 2, "measured elsewhere": 0, "unknown": 0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x00\x01\x02", "NUL"),
        (b"\xff\xfe\x00a", "not UTF-8"),
        (b"\x1f\x8b\x08\x00broken", "damaged gzip"),
        (b"a,b,c\n1,2,3\n", "no column says anything of a machine"),
        (b"vcpu,n_gen\n4,128\n", "no column names a model"),
        (b"vcpu,model\n4,llama-7b\n", "no column says what is done"),
        (b"vcpu,model,n_gen\n4,llama-7b,128,9\n", "row 2 has 4 cells"),
        (b'vcpu,model,n_gen\n4,"' + b"x" * 100_000 + b'",128\n', "field larger"),
    ],
)
def test_what_is_no_table_is_refused_in_one_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    """What, where and what to do; never a traceback of the csv module."""
    path = tmp_path / "rows.csv"
    path.write_bytes(content)

    with pytest.raises(RecordError, match=message):
        read_table(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    """Before anything is written."""
    with pytest.raises(RecordError, match="does not exist"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(RecordError, match="not a regular file"):
        read_table(tmp_path)


def test_an_output_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A folder is no file; the error is the tool's own."""
    source = tmp_path / "rows.csv"
    source.write_text(table(FULL), encoding="utf-8")

    with pytest.raises(OutputError, match="folder"):
        predict(source, tmp_path)


def test_a_header_alone_is_an_empty_table(tmp_path: Path) -> None:
    """No rows in, no rows out."""
    assert run(tmp_path, table(FULL).splitlines()[0] + "\n") == []


def test_the_table_of_measurements_has_what_was_measured() -> None:
    """Every machine has threads and a date, and some task."""
    measured = shipped_measurements()

    assert len(measured.machines) == len(measured.dates) == len(measured.threads) > 1900
    assert {"llama-7b.q4_k_m.gguf|decode|128", "llama-7b.q4_k_m.gguf|prefill|512"} <= set(measured.tasks)
