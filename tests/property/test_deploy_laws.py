"""Quoting holds for any text, not only for those that somebody thought of."""

from __future__ import annotations

import shlex
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.deploy.quote import shell, slug, yaml_string
from suffice.deploy.yaml_text import Noted, yaml_document

yaml = pytest.importorskip("yaml")

# What check_text lets through, and for YAML everything but surrogates.
SEEN = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Cn", "Zl", "Zp")), min_size=1, max_size=40)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(SEEN)
@settings(max_examples=150)
def test_any_word_of_a_shell_is_read_back(text: str) -> None:
    """One word in, the same out, with a comment behind it."""
    assert shlex.split(f"{shell(text)} # why", comments=True) == [text]


@given(ANY, ANY)
@settings(max_examples=150)
def test_any_text_of_a_yaml_file_is_read_back(value: str, comment: str) -> None:
    """As a value and as a key, whatever the comment beside it."""
    document = yaml.safe_load(
        yaml_document([comment], {"a": Noted(value, comment), "b": {value or "k": [Noted(value, comment)]}})
    )

    assert document == {"a": value, "b": {value or "k": [value]}}


@given(ANY)
@settings(max_examples=150)
def test_any_text_gives_a_name(text: str) -> None:
    """RFC 1123 with a letter first, and the name of a name is itself."""
    name = slug(text)

    assert name[0].isalpha()
    assert name[-1].isalnum()
    assert len(name) <= 40
    assert slug(name) == name


@given(ANY)
def test_a_yaml_string_is_of_characters_that_are_seen(text: str) -> None:
    """Nothing in it turns the direction of text, or is invisible."""
    assert all(unicodedata.category(c)[0] != "C" for c in yaml_string(text))
