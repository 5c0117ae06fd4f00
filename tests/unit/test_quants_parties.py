"""Who is compared, from what the user wrote."""

from __future__ import annotations

import pytest

from suffice.errors import UsageError
from suffice.quants.parties import MOST_CANDIDATES, parties


def test_files_recipes_and_servers_are_told_apart() -> None:
    """A file by its stem, a recipe by its name, a server by host and port or by the model behind #."""
    found = parties("a/model-f16.gguf", ["b.gguf", "http://gpu:8000/v1", "https://h/v1#qwen2.5:7b"], ["q8_0"])

    assert [party.name for party in found] == ["model-f16", "b", "gpu:8000", "qwen2.5:7b", "q8_0"]
    assert [party.recipe for party in found if party.recipe] == ["q8_0"]
    assert (found[3].url, found[3].model) == ("https://h/v1", "qwen2.5:7b")


def test_a_model_may_be_compared_with_itself() -> None:
    """Names that come again get a number, also where that name is taken."""
    found = parties("m.gguf", ["m.gguf", "x/m.gguf", "m (2).gguf"])

    assert len({party.name for party in found}) == 4
    assert found[0].name == "m"


def test_a_password_is_in_no_name() -> None:
    """What stands before the @ of an address is no part of a name."""
    (_, server) = parties("m.gguf", ["http://user:secret@host:1/v1"])

    assert "secret" not in server.name


@pytest.mark.parametrize(
    ("reference", "candidates", "recipes", "words"),
    [
        ("m.gguf", [], [], "--make"),
        ("http://h/v1", [], ["q8_0"], "needs its GGUF file"),
        ("m.gguf", ["c.gguf"] * (MOST_CANDIDATES + 1), [], "at most"),
        ("http://[::1", ["c.gguf"], [], "not usable"),
        ("m.gguf", ["ftp://h/v1"], [], "begins with http:// or https://"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    reference: str, candidates: list[str], recipes: list[str], words: str
) -> None:
    """Nothing to compare with, too much, quantizing a server, and addresses that are none: a sentence each."""
    with pytest.raises(UsageError, match=words):
        parties(reference, candidates, recipes)
