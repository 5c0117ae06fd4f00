"""Outputs destroy nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from suffice.cli.paths import check_outputs
from suffice.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_an_output_is_no_input(tmp_path: Path) -> None:
    """The model that is measured is not overwritten by its own record, also not through a link."""
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF")
    link = tmp_path / "link.json"
    link.symlink_to(model)

    for out in (model, link):
        with pytest.raises(UsageError, match="is the file"):
            check_outputs({"--out": out}, [model, None])


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    """A memo does not replace the record that was just written."""
    with pytest.raises(UsageError, match="both write"):
        check_outputs({"--out": tmp_path / "demand.md", "--memo": tmp_path / "demand.md"}, [])


@pytest.mark.parametrize(
    ("flag", "theirs", "ours"),
    [
        ("--out", "# README\n", '{"schema_version": 1}'),
        ("--memo", "# README\n", "# Verdict: cpu\n"),
        ("--junit", '{"schema_version": 1}', "<?xml version='1.0'?>"),
    ],
)
def test_strangers_files_stay(flag: str, theirs: str, ours: str, tmp_path: Path) -> None:
    """An existing file is replaced only when it begins as suffice's own do, or is empty."""
    path = tmp_path / "file"
    path.write_text(theirs, encoding="utf-8")
    with pytest.raises(UsageError, match="no file that suffice wrote"):
        check_outputs({flag: path}, [])

    for content in (ours, ""):
        path.write_text(content, encoding="utf-8")
        check_outputs({flag: path}, [])
    check_outputs({flag: tmp_path / "new", "--none": None}, [])


def test_a_chart_replaces_only_charts_of_ours(tmp_path: Path) -> None:
    """Many pictures begin with <?xml; only one that says that suffice drew it may go."""
    theirs, ours = tmp_path / "logo.svg", tmp_path / "chart.svg"
    theirs.write_text('<?xml version="1.0"?><svg><title>logo</title></svg>', encoding="utf-8")
    ours.write_text('<?xml version="1.0"?><svg><metadata>suffice chart</metadata></svg>', encoding="utf-8")

    check_outputs({"--chart": ours}, [])
    with pytest.raises(UsageError, match="no file that suffice wrote"):
        check_outputs({"--chart": theirs}, [])
