"""What all charts share: formats, fonts, and the mark by which a later chart knows that it may replace an earlier one."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError
from suffice.records.store import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

CREATOR: Final = "suffice chart"
"""Stands in the file's metadata; `suffice.cli.paths` looks for it before a picture is replaced."""
LABEL_CHARACTERS: Final = 48
_FORMATS: Final = (".svg", ".png")
_CJK_FONTS: Final = (
    *("Noto Sans CJK SC", "Source Han Sans SC", "WenQuanYi Micro Hei"),
    *("PingFang SC", "Microsoft YaHei", "SimHei"),
)


def check_chart(path: Path) -> None:
    """Refuse what cannot be drawn, before anything is measured.

    Raises:
        UsageError: another format, or matplotlib is not installed.
    """
    if path.suffix.lower() not in _FORMATS:
        raise UsageError(f"--chart {path}: draws {' or '.join(_FORMATS)}; give the file such a name")
    if find_spec("matplotlib") is None:
        raise UsageError("--chart needs matplotlib; install it with: pip install 'suffice[charts]'")


@contextmanager
def drawing() -> Iterator[None]:
    """Draw within this: fonts for Chinese where there are any, and no warnings of matplotlib's on stderr."""
    from matplotlib import rc_context  # noqa: PLC0415  # an optional extra, and slow to import

    with warnings.catch_warnings(), rc_context({"font.family": ["DejaVu Sans", *_installed(_CJK_FONTS)]}):
        # A name in a script that no font here has is drawn as boxes; the table has it right.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def save(figure: Figure, path: Path) -> None:
    """Write a figure, whole or not at all, the same bytes for the same figure.

    Raises:
        OutputError: it cannot be written.
    """
    suffix, picture = path.suffix.lower(), BytesIO()
    metadata = {"Title": CREATOR, "Date": None} if suffix == ".svg" else {"Software": CREATOR}
    figure.savefig(picture, format=suffix.removeprefix("."), metadata=metadata)
    write_atomically(path, picture.getvalue())


def _installed(names: Sequence[str]) -> list[str]:
    from matplotlib.font_manager import get_font_names  # noqa: PLC0415  # as above

    there = set(get_font_names())
    return [name for name in names if name in there]
