"""One browser for all tests of this folder; without one they are skipped, and say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.chromium import why_no_browser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from helpers.chromium import Chromium


def pytest_configure(config: pytest.Config) -> None:
    """The marker of this folder, for runs that leave it out: ``-m "not browser"``."""
    config.addinivalue_line("markers", "browser: needs Chromium, Chrome or Edge")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """A running browser.

    Yields:
        The browser, which ends with the session.
    """
    from helpers.chromium import Chromium  # noqa: PLC0415  # needs POSIX

    reason = why_no_browser()
    if reason:
        pytest.skip(reason)
    with Chromium() as browser:
        yield browser
