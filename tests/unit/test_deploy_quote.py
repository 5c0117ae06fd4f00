"""Texts from outside in shells, units, YAML, compose files and manifests."""

from __future__ import annotations

import shlex

import pytest

from helpers.deployments import HOSTILE_PATHS, HOSTILE_TEXT
from suffice.deploy.quote import (
    check_text,
    comment_text,
    compose_text,
    kubernetes_argument,
    shell,
    slug,
    unit_argument,
    unit_text,
    yaml_string,
)
from suffice.deploy.yaml_text import Block, Noted, yaml_document
from suffice.errors import UsageError

yaml = pytest.importorskip("yaml")


@pytest.mark.parametrize("text", HOSTILE_PATHS)
def test_a_shell_reads_back_what_was_written(text: str) -> None:
    """One word, the same word."""
    assert shlex.split(shell(text)) == [text]


@pytest.mark.parametrize(
    "text", [*HOSTILE_PATHS, HOSTILE_TEXT, "a\u00a0b", "\ufeffx", "\u202eabc", "\x7f\x85\u2028", "null", "1e3", ""]
)
def test_yaml_reads_back_what_was_written(text: str) -> None:
    """A string stays a string, whatever is in it."""
    assert yaml.safe_load(yaml_string(text)) == text


def test_a_unit_has_its_specifiers_and_variables_doubled() -> None:
    """``%n`` and ``$HOME`` are text in a path, and quotes and backslashes are C's."""
    assert unit_argument('/a b/%n/$HOME/"x"\\y') == '"/a b/%%n/$$HOME/\\"x\\"\\\\y"'
    assert unit_text("50%\nExecStart=/bin/rm\\") == "50%% ExecStart=/bin/rm"


def test_dollars_are_text_in_compose_files_and_containers() -> None:
    """Both read ``$$`` as one dollar."""
    assert compose_text("${A}") == "$${A}"
    assert kubernetes_argument("$(A)") == "$$(A)"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Llama 3.1 (8B)_Q4", "llama-3-1-8b-q4"),
        ("../../etc/passwd", "etc-passwd"),
        ("-m", "m"),
        ("7b", "llm-7b"),
        ("模型", "llm"),
        ("Größe", "groe"),
        ("x" * 100, "x" * 40),
    ],
)
def test_a_slug_is_a_name_for_all(text: str, name: str) -> None:
    """Lower case, letters first, at most 40 characters: what Kubernetes, systemd and compose all take."""
    found = slug(text)

    assert found == name
    assert found[0].isalpha()
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@pytest.mark.parametrize("text", ["a\nb", "a\x00b", "a\x1b[31mb", "a\u202eb", "a\u2028b", "\ud800", "", "  "])
def test_what_nobody_sees_is_refused(text: str) -> None:
    """Line breaks, control characters, marks that turn text around, half a surrogate pair, nothing at all."""
    with pytest.raises(UsageError, match="--model-path"):
        check_text(text, "--model-path")


def test_a_comment_ends_where_its_line_does() -> None:
    """No line break in it, and no backslash at its end that would join the next line to it."""
    found = comment_text(HOSTILE_TEXT)

    assert "\n" not in found
    assert not found.endswith("\\")


def test_yaml_with_comments_is_read_as_the_values_alone() -> None:
    """Comments stand beside scalars and above lists and mappings, and no parser sees them."""
    text = yaml_document(
        ["a head", "of two\nlines"],
        {
            "one": Noted(1, "measured: # of it"),
            "list": Noted(["a", Noted("b", "why"), {"c": 1, "d": [Noted(True, "x")]}], "above"),
            "items": [Noted({"first": Noted({"deep": "x"}, "why"), "second": 2.5}, "of an item")],
            "none": [],
            "0digit": {"empty": {}},
            "script": Block("set -e\n\nif a: b\n  c\n"),
        },
    )

    assert yaml.safe_load(text) == {
        "one": 1,
        "list": ["a", "b", {"c": 1, "d": [True]}],
        "items": [{"first": {"deep": "x"}, "second": 2.5}],
        "none": [],
        "0digit": {"empty": {}},
        "script": "set -e\n\nif a: b\n  c\n",
    }
    assert "one: 1  # measured: # of it" in text
    assert text.startswith("# a head\n# of two lines\n")
