"""Look at pages in a real Chromium: screenshots on a phone and on a desk, light and dark, and what went wrong there.

    PYTHONPATH=tests python benchmarks/page_in_browser.py OUT PAGE.html|http://127.0.0.1:PORT/...

Writes OUT/NAME-WIDTH-SCHEME.png for each page, width and scheme, and prints a line for each: what was logged, what was asked for beside the
page itself, how far it scrolls sideways, texts of charts that leave their picture, and the least contrast of text. Exit code 1 where one of
these is not as it should be. The pictures are to be looked at.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

from helpers.chromium import Chromium
from helpers.page_checks import foreign_requests, least_contrast, sideways_pixels, texts_outside

WIDTHS = (390, 1280)
SCHEMES = ("light", "dark")
LEAST_CONTRAST = 4.5


def main(arguments: list[str]) -> int:
    """Look at each page; answers the exit code."""
    if len(arguments) < 2:
        print(__doc__)
        return 2
    out = Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    is_good = True
    with Chromium() as browser:
        for number, given in enumerate(arguments[1:], 1):
            url = given if urlsplit(given).scheme in ("http", "https") else Path(given).resolve().as_uri()
            name = Path(urlsplit(url).path).stem or f"page{number}"
            for width in WIDTHS:
                for scheme in SCHEMES:
                    is_good &= _look(browser, url, width, scheme, out / f"{name}-{width}-{scheme}.png")
    return 0 if is_good else 1


def _look(browser: Chromium, url: str, width: int, scheme: str, picture: Path) -> bool:
    page = browser.open(url, width=width, scheme=scheme)
    page.screenshot(picture)
    asked, sideways, outside = foreign_requests(page, url), sideways_pixels(page), texts_outside(page)
    contrast = least_contrast(page)
    print(
        f"{picture.name}: logged {page.console or 'nothing'}; asked elsewhere {asked or 'nothing'}; sideways {sideways} px;"
        f" chart texts outside {outside or 'none'}; least contrast {contrast:.2f}"
    )
    return not page.console and not asked and sideways == 0 and not outside and contrast >= LEAST_CONTRAST


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
