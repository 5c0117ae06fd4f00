"""A kept comparison: read as it was written, or refused."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.quants import comparison, distance
from suffice.errors import RecordError
from suffice.model.quants import Measured
from suffice.records.quants_store import load_quants, quants_to_json, save_quants

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suffice.model.quants import QuantsRecord


def full_record() -> QuantsRecord:
    """With everything that a comparison may hold."""
    return replace(
        comparison([1.0, None, 0.0], [1.0, 0.0, 0.0]),
        distances=(distance("c1", [0.1, 0.2]), distance("ref", [0.0, 0.0], is_self=True)),
        measured=(Measured(subject="c1", record="speed/c1.json"),),
        settings={"max_tokens": 64, "slots": [1, 2.5], "nothing": None},
        notes=("a note",),
        created_at="2026-01-01T00:00:00Z",
        suffice_version="1",
        complete=True,
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Every field comes back, of its own type; no temporary file stays."""
    path = tmp_path / "quants.json"

    save_quants(full_record(), path)

    assert load_quants(path) == full_record()
    assert [one.name for one in tmp_path.iterdir()] == ["quants.json"]
    assert path.stat().st_mode & stat.S_IRUSR


def test_a_run_that_goes_on_keeps_what_was_measured(tmp_path: Path) -> None:
    """While it asks the reference again, distances of candidates that have not answered yet are no contradiction."""
    path = tmp_path / "quants.json"
    record = replace(full_record(), models=full_record().models[:1], complete=False)

    save_quants(record, path)

    assert load_quants(path) == record


def _outcome(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["models"][1]["outcomes"][0]
    return found


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (lambda d: d.update(form="other"), "not a comparison"),
        (lambda d: d.pop("form"), "not a comparison"),
        (lambda d: d.update(schema_version=2), "upgrade"),
        (lambda d: d.update(schema_version=True), "version number"),
        (lambda d: d.update(extra=1), "extra"),
        (lambda d: d.pop("tasks"), "tasks"),
        (lambda d: d.update(models=[]), "models"),
        (lambda d: d["models"][1]["outcomes"].pop(), "2 outcomes for 3 items"),
        (lambda d: d["models"][1]["subject"].update(name="ref"), "stands there twice"),
        (lambda d: d["models"][1]["subject"].update(kind="cloud"), "kind"),
        (lambda d: d["tasks"][1].update(item_id="i0"), "stands there twice"),
        (lambda d: d["tasks"][0].update(is_labelled=False), "no label"),
        (lambda d: d["tasks"][0].update(is_labelled="yes"), "is_labelled"),
        (lambda d: _outcome(d).update(score=1.5), "score"),
        (lambda d: _outcome(d).update(score=0.5), "is 0 or 1"),
        (lambda d: _outcome(d).update(score="1"), "score"),
        (lambda d: _outcome(d).update(score=True), "score"),
        (lambda d: _outcome(d).update(tokens=-1), "tokens"),
        (lambda d: _outcome(d).pop("score"), "score"),
        (lambda d: d["distances"][0].update(candidate="c9"), "none of its models"),
        (lambda d: d["distances"][0].update(settings={"candidate": "hash of c9"}), "of another candidate"),
        (lambda d: d["distances"][1].update(settings={"reference": "hash of c9"}), "of another reference"),
        (lambda d: d["settings"].update(answers={"c1": "../answers.jsonl"}), "not beside"),
        (lambda d: d["distances"][0].update(documents=[]), "documents"),
        (lambda d: d["distances"][0].update(largest=0.01), "largest"),
        (lambda d: d["distances"][0]["documents"][0].update(same_top=101), "same top token"),
        (lambda d: d["distances"][0]["documents"][0].update(tokens=0), "tokens"),
        (lambda d: d["distances"][0]["documents"][1].update(name="d0"), "stands there twice"),
        (lambda d: d["distances"][0]["p99"].update(low=5.0, high=6.0), "P99"),
        (lambda d: d["measured"][0].update(record="../../etc/passwd"), "not beside"),
        (lambda d: d["measured"][0].update(record="/etc/passwd"), "not beside"),
        (lambda d: d["measured"][0].update(subject="c9"), "none of its models"),
    ],
)
def test_edited_nonsense_is_refused(tmp_path: Path, edit: Callable[[dict[str, Any]], object], complaint: str) -> None:
    """Each with what is wrong, in one sentence that names the file."""
    document = json.loads(quants_to_json(full_record()))
    edit(document)
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(document), encoding="utf-8")

    with pytest.raises(RecordError, match=complaint) as error:
        load_quants(path)

    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"form": NaN}', '{"a": 1, "a": 2}', "[" * 100_000])
def test_what_is_no_comparison_is_refused(tmp_path: Path, text: str) -> None:
    """Broken JSON, other JSON, names that stand twice."""
    path = tmp_path / "quants.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(RecordError):
        load_quants(path)


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    """A number that is none, or half a character, is an error before anything is touched."""
    path = tmp_path / "quants.json"
    save_quants(full_record(), path)

    nonsense: list[dict[str, object]] = [{"a": float("nan")}, {"a": "\ud800"}, {"a": object()}]
    for settings in nonsense:
        with pytest.raises(RecordError, match="cannot be kept"):
            save_quants(replace(full_record(), settings=settings), path)

    assert load_quants(path) == full_record()


def test_what_nobody_could_read_is_not_written(tmp_path: Path) -> None:
    """A comparison that contradicts itself is refused when it is written, and the old file stays."""
    path = tmp_path / "quants.json"
    save_quants(full_record(), path)
    distances = (replace(full_record().distances[0], candidate="c9"),)

    with pytest.raises(RecordError, match="none of its models"):
        save_quants(replace(full_record(), distances=distances), path)

    assert load_quants(path) == full_record()
