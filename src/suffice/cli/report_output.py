"""Where a page goes: HTML, Markdown or PDF, by the file's name, and never over somebody else's file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.report.page.model import Page

_HTML: Final = (".html", ".htm")
_MARKDOWN: Final = (".md", ".markdown")
_PDF: Final = ".pdf"
_SNIFF_BYTES: Final = 4096


def check_out(out: Path, inputs: Sequence[Path]) -> None:
    """Refuse, before anything is computed, a file that cannot be written or must not be replaced.

    Raises:
        UsageError: with what stands in its way.
    """
    from suffice.cli.paths import check_places

    if out.suffix.lower() not in (*_HTML, *_MARKDOWN, _PDF):
        raise UsageError(f"--out {out}: a page is .html, .md or .pdf; give the file such a name")
    if any(_is_same(out, path) for path in inputs):
        raise UsageError(f"--out {out} is a file that this command reads; give another name")
    check_places({"--out": out})
    if not _is_ours(out):
        raise UsageError(f"--out {out} exists and is no page that suffice wrote; remove it or give another name")


def _is_same(first: Path, second: Path) -> bool:
    try:
        return first.exists() and second.exists() and first.samefile(second)
    except (OSError, ValueError):  # such a path cannot be read, and reading it has its own message
        return False


def _is_ours(path: Path) -> bool:
    """Whether nothing is lost when the file is replaced."""
    from suffice.report.page import html, markdown
    from suffice.report.pdf import was_printed_here

    try:
        if not path.is_file():
            return True
        if path.suffix.lower() == _PDF:
            return was_printed_here(path)
        with path.open("rb") as file:
            start = file.read(_SNIFF_BYTES)
    except (OSError, ValueError):
        return True  # writing it will fail with its own message
    return not start.strip() or start.startswith((html.START.encode(), markdown.MARK.encode()))


def write_page(page: Page, out: Path) -> None:
    """Write a page, whole or not at all.

    Raises:
        OutputError: it cannot be written, or there is no browser for a PDF.
    """
    from suffice.records.store import write_atomically
    from suffice.report.page.html import page_html
    from suffice.report.page.markdown import page_markdown

    suffix = out.suffix.lower()
    if suffix in _MARKDOWN:
        write_atomically(out, page_markdown(page))
    elif suffix in _HTML:
        write_atomically(out, page_html(page))
    else:
        _write_pdf(page_html(page), out)


def _write_pdf(content: str, out: Path) -> None:
    from suffice.records.store import write_atomically
    from suffice.report.pdf import print_pdf

    with tempfile.TemporaryDirectory(prefix="suffice-") as folder:
        source = Path(folder) / "report.html"
        write_atomically(source, content)
        print_pdf(source, out)
