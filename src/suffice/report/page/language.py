"""The languages of a page, in a module of their own: the command line knows them before it loads anything of a page."""

from __future__ import annotations

from enum import StrEnum


class Language(StrEnum):
    """Of a page; the values are those of HTML's ``lang``."""

    EN = "en"
    ZH = "zh"
