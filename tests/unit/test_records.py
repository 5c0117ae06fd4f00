"""Run records on disk: what is written is what is read, and what contradicts itself is refused."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.records import bare_record, document_of, run_record, write_json
from suffice.errors import OutputError, RecordError
from suffice.loaders.any_record import load_any_record
from suffice.records.schema import SCHEMA_VERSION, KvLayers, RunRecord
from suffice.records.store import load_record, save_record, to_json, write_atomically

if TYPE_CHECKING:
    from pathlib import Path


def _refusal(path: Path, document: object) -> str:
    write_json(path, document)
    with pytest.raises(RecordError) as failure:
        load_record(path)
    return str(failure.value)


def _changed(**changes: Any) -> dict[str, Any]:
    return {**document_of(run_record()), **changes}


def test_a_record_survives_the_disk(tmp_path: Path) -> None:
    """Saved and loaded, a full record is equal to itself, tuples and nested tables included."""
    record = run_record()
    record = replace(
        record,
        model=replace(record.model, kv_layers=(KvLayers(count=2, bytes_per_token=512.0, window=1024),)),
        environment={"os": "Linux", "cpus": [1, 2]},
        warnings=("a warning with — and 大模型",),
    )

    save_record(record, tmp_path / "run.json")

    assert load_record(tmp_path / "run.json") == record
    assert load_any_record(tmp_path / "run.json") == record


def test_the_contract_of_the_top_level() -> None:
    """schema_version comes first, and the three plain numbers that scripts read are there, null when unknown."""
    document = json.loads(to_json(RunRecord()))

    assert next(iter(document)) == "schema_version"
    assert [document[name] for name in ("decode_tokens_per_second", "prefill_tokens_per_second", "ttft_s")] == [
        None
    ] * 3
    assert document["disturbed"] is None


def test_absent_fields_are_unknown(tmp_path: Path) -> None:
    """A file of others with a version and one number loads; all else is None, not 0."""
    record = load_record(write_json(tmp_path / "run.json", {"schema_version": 1, "decode_tokens_per_second": 12}))

    assert record.decode_tokens_per_second == 12
    assert (record.ttft_s, record.disturbed, record.model.file_bytes, record.memory_usable_bytes) == (None,) * 4


def test_unknown_fields_are_left_alone(tmp_path: Path) -> None:
    """Fields of a later minor change do not make a record unreadable."""
    assert load_record(write_json(tmp_path / "run.json", {"schema_version": 1, "new": [1]})) == RunRecord()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema_version": SCHEMA_VERSION + 1}, "upgrade"),
        ({"schema_version": 0}, "not a version number"),
        ({"schema_version": True}, "not a version number"),
        ({"schema_version": "1"}, "not a version number"),
        ({"decode_tokens_per_second": 0}, "unknown is null"),
        ({"ttft_s": -1}, "unknown is null"),
        ({"decode_tokens_per_second": 99.0}, "was edited"),
        ({"ttft_s": 0.001}, "was edited"),
        ({"decode_tokens_per_second": "20"}, "decode_tokens_per_second"),
        ({"decode_tokens_per_second": True}, "decode_tokens_per_second"),
        ({"device_kind": "tpu"}, "'cpu' or 'gpu'"),
        ({"model": {"file_bytes": 0}}, "model.file_bytes"),
        ({"model": {"file_bytes": 1, "kv_bytes_per_token": -1}}, "KV cache"),
        ({"model": {"kv_layers": [{"count": 1, "bytes_per_token": 1, "window": -5}]}}, "KV layers"),
        ({"memory_usable_bytes": -1}, "memory_usable_bytes"),
        ({"bandwidth_before": {"read_bytes_per_s": 0}}, "bandwidth"),
        ({"measurement": {"decode": 5}}, "measurement.decode"),
        ({"measurement": None}, "measurement"),
        ({"machine": ["x"]}, "machine"),
    ],
)
def test_wrong_records_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    """Each impossible, edited or newer record raises one sentence that names the file and the field."""
    message = _refusal(tmp_path / "run.json", _changed(**changes))

    assert words in message
    assert "run.json" in message
    assert "\n" not in message


def test_an_estimate_that_was_edited_is_refused(tmp_path: Path) -> None:
    """Raising the plain number and the point together does not help: the samples are still those of the slow run."""
    document = document_of(run_record(decode=5))
    document["decode_tokens_per_second"] = 50.0
    estimate = document["measurement"]["decode"][0]["tokens_per_second"]
    estimate["point"] = 50.0
    assert "outside of its own interval" in _refusal(tmp_path / "run.json", document)

    estimate["interval"] = {**estimate["interval"], "low": 49.0, "high": 51.0}
    assert "its own samples give 5" in _refusal(tmp_path / "run.json", document)


@pytest.mark.parametrize("value", [0, -1])
def test_impossible_raw_times_are_refused(tmp_path: Path, value: float) -> None:
    """A step or a chunk of no time would become a division by zero in a verdict."""
    for series, field in (("decode", "step_s"), ("prefill", "chunk_s")):
        document = document_of(run_record())
        table = document["measurement"][series]
        (table[0] if series == "decode" else table)[field] = [[value]]
        assert "not positive" in _refusal(tmp_path / "run.json", document)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "run.json is not JSON"),
        (b"{", "run.json is not JSON"),
        (b'{"schema_version": 1, "ttft_s": 1, "ttft_s": 2}', "the name 'ttft_s' stands there twice"),
        (b"[]", "not a run record"),
        (b"3", "not a run record"),
        (b"{}", "no 'schema_version'"),
        (b'{"schema_version": 1, "ttft_s": NaN}', "NaN"),
        (b'{"schema_version": 1, "environment": {"x": -Infinity}}', "Infinity"),
        (b'{"schema_version": 1, "environment": {"x": 1e400}}', "1e400"),
        (b'{"schema_version": 1, "ttft_s": ' + b"9" * 5000 + b"}", "5000 digits"),
        (b'{"schema_version": 1, "memory_usable_bytes": ' + b"9" * 400 + b"}", "400 digits"),
        (b'{"schema_version": 1, "environment": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"schema_version": 1, "environment": {"x": ' + b"[" * 400 + b"]" * 400 + b"}}", "nested too deeply"),
        (b'{"schema_version": 1, "machine": "\\ud800"}', "surrogate"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
    ],
)
def test_what_is_no_record_is_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    """Broken JSON, NaN, 1e400, huge numbers, deep nesting, lone surrogates and UTF-16 raise RecordError and nothing else."""
    path = tmp_path / "run.json"
    path.write_bytes(content)

    with pytest.raises(RecordError) as failure:
        load_record(path)
    assert words in str(failure.value)


def test_a_byte_order_mark_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """A record that an editor saved with a BOM is read."""
    (tmp_path / "run.json").write_bytes(b"\xef\xbb\xbf" + to_json(run_record()).encode())

    assert load_record(tmp_path / "run.json") == run_record()


def test_files_that_are_none(tmp_path: Path) -> None:
    """A missing file, a folder, a pipe, a device and a huge sparse file raise without hanging or reading them."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(300 * 2**20)

    for name, words in {
        "missing": "does not exist",
        "folder": "a folder",
        "pipe": "not a regular file",
        "/dev/zero": "not a regular file",
        "huge": "more than",
    }.items():
        with pytest.raises(RecordError, match=words):
            load_any_record(tmp_path / name)


def test_writing_replaces_the_whole_file(tmp_path: Path) -> None:
    """The new content is there, nothing else is left in the folder, and the team may read it."""
    path = tmp_path / "deep" / "run.json"
    for text in ("first, and longer", "second"):
        write_atomically(path, text)

    assert path.read_text(encoding="utf-8") == "second"
    assert [entry.name for entry in path.parent.iterdir()] == ["run.json"]
    assert path.stat().st_mode & 0o400


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    """Text that cannot be encoded raises OutputError; the old record is whole and no scrap is left."""
    path = tmp_path / "run.json"
    write_atomically(path, "old")

    with pytest.raises(OutputError, match=r"cannot write .*run\.json"):
        write_atomically(path, "new \ud800")

    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder, a pipe (as /dev/null would be), a path below a file and a name with NUL raise OutputError and stay as they are."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")

    for path in (
        tmp_path,
        tmp_path / "pipe",
        tmp_path / "file" / "run.json",
        tmp_path / "nul\0",
        tmp_path / ("x" * 300),
    ):
        with pytest.raises(OutputError, match="cannot write"):
            write_atomically(path, "text")
    assert (tmp_path / "pipe").is_fifo()


def test_not_a_number_is_never_written() -> None:
    """NaN cannot get into a record: json would write a word that no other reader understands."""
    with pytest.raises(ValueError, match="Out of range"):
        to_json(bare_record(float("nan")))
