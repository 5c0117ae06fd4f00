"""A record of slices that was edited, in any place that can be recomputed, is refused."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from helpers.records import document_of
from helpers.slice_runs import Bench, short_design, toy_header, toy_model
from suffice.errors import RecordError
from suffice.measure.request import RunRequest
from suffice.records.store import record_from

if TYPE_CHECKING:
    from collections.abc import Callable


@cache
def whole() -> dict[str, Any]:
    """The document of a run on slices with one, and with two sequences."""
    with TemporaryDirectory() as folder:
        asked = RunRequest(model=toy_model(), prompt_tokens=64, threads=2, flash_attention="on", batch=2)
        return document_of(Bench(root=Path(folder)).run(asked, short_design(toy_header())))


def _slices(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["measurement"]["extrapolation"]
    return found


def _series(document: dict[str, Any], phase: str = "decode") -> dict[str, Any]:
    return next(series for series in _slices(document)["series"] if series["phase"] == phase)


def _faster_slices(document: dict[str, Any]) -> None:
    _series(document)["times_s"] = [[[s / 2 for s in row] for row in own] for own in _series(document)["times_s"]]


def _faster_prompt(document: dict[str, Any]) -> None:
    series = _series(document, "prefill")
    series["times_s"] = [[[s / 2 for s in row] for row in own] for own in series["times_s"]]


def _other_work(document: dict[str, Any]) -> None:
    _series(document)["work"] = [1.0, 2.0]


def _negative_work(document: dict[str, Any]) -> None:
    _series(document)["work"] = [-1.0]


def _smooth(document: dict[str, Any]) -> None:
    _series(document)["largest_residual"] = 0.5


def _no_residual(document: dict[str, Any]) -> None:
    _series(document)["largest_residual"] = None


def _other_line(document: dict[str, Any]) -> None:
    _series(document)["layer_s"] = [1.0]


def _other_fixed_part(document: dict[str, Any]) -> None:
    _series(document)["fixed_s"] = 1.0


def _fewer_layers(document: dict[str, Any]) -> None:
    _slices(document)["kinds"][0]["layers"] = 6.0


def _longer_slice(document: dict[str, Any]) -> None:
    _slices(document)["slices"][0]["counts"] = [9.0]


def _negative_count(document: dict[str, Any]) -> None:
    _slices(document)["slices"][0]["counts"] = [-1.0]


def _kind_too_few(document: dict[str, Any]) -> None:
    _slices(document)["slices"][0]["counts"] = []


def _slice_gone(document: dict[str, Any]) -> None:
    _slices(document)["slices"].pop()


def _ragged(document: dict[str, Any]) -> None:
    _series(document)["times_s"][0].pop()


def _ragged_chunks(document: dict[str, Any]) -> None:
    _series(document, "prefill")["times_s"][0][0].append(1.0)


def _time_of_nothing(document: dict[str, Any]) -> None:
    _series(document)["times_s"][0][0][0] = 0.0


def _other_phase(document: dict[str, Any]) -> None:
    _series(document)["phase"] = "guessing"


def _no_decode_slices(document: dict[str, Any]) -> None:
    _slices(document)["series"] = [series for series in _slices(document)["series"] if series["phase"] == "prefill"]


def _no_batch_slices(document: dict[str, Any]) -> None:
    _slices(document)["series"] = [series for series in _slices(document)["series"] if series["batch"] == 1]


def _no_prefill_slices(document: dict[str, Any]) -> None:
    _slices(document)["series"] = [series for series in _slices(document)["series"] if series["phase"] == "decode"]


def _called_measured(document: dict[str, Any]) -> None:
    document["basis"] = "measured"


def _many_kinds(document: dict[str, Any]) -> None:
    _slices(document)["kinds"] *= 1000


EDITS = [value for name, value in list(globals().items()) if name.startswith("_") and callable(value)]
EDITS = [edit for edit in EDITS if edit not in (_slices, _series) and edit.__module__ == __name__]


def test_the_record_itself_is_accepted() -> None:
    """Without an edit it is read: what follows is refused for its edit alone."""
    assert record_from(copy.deepcopy(whole()), source="whole").complete


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_an_edit_is_refused(edit: Callable[[dict[str, Any]], None]) -> None:
    """Each kind of number that an extrapolation rests on, changed alone."""
    document = copy.deepcopy(whole())
    edit(document)

    with pytest.raises(RecordError, match=r"\Aedited: "):
        record_from(document, source="edited")


def test_a_line_may_be_left_out() -> None:
    """Its parts can be computed, so a record without them says nothing wrong."""
    document = copy.deepcopy(whole())
    for series in _slices(document)["series"]:
        series["fixed_s"], series["layer_s"] = None, []

    record_from(document, source="short")
