"""`--numa-node` and `--per-node` on the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from helpers.gguf_writer import ToyLlama
from suffice.cli.asked import RunOptions, default_slots
from suffice.cli.check import check
from suffice.cli.measure import measure
from suffice.errors import UsageError
from suffice.loaders.model_file import open_model_file
from suffice.measure.numa import NumaNode
from suffice.model.demand import single_stream_need

if TYPE_CHECKING:
    from pathlib import Path

APP = typer.Typer()
APP.command()(measure)
APP.command()(check)
NODES = (NumaNode(number=0, cpus=(0, 1)), NumaNode(number=1, cpus=(2, 3)))


@pytest.mark.parametrize(
    "arguments", [["measure", "no-such-model.gguf"], ["check", "--model", "no-such-model.gguf", "--need", "8"]]
)
def test_a_node_that_is_not_there_is_refused_before_anything_else(arguments: list[str]) -> None:
    """No machine has that node; the model, which is missing as well, is not looked for."""
    result = CliRunner().invoke(APP, [*arguments, "--numa-node", "99999"])

    assert isinstance(result.exception, UsageError)
    assert "--numa-node 99999" in str(result.exception)


def test_both_flags_are_one_too_many() -> None:
    """A node, or all of them."""
    result = CliRunner().invoke(APP, ["measure", "no-such-model.gguf", "--numa-node", "0", "--per-node"])

    assert isinstance(result.exception, UsageError)
    assert "give one of the two" in str(result.exception)


def test_engines_on_several_nodes_copy_their_weights(tmp_path: Path) -> None:
    """A mapped file would lie on one node for all; on one node the mapping stays."""
    model = open_model_file(ToyLlama().write(tmp_path / "toy.gguf"))
    several = RunOptions(nodes=NODES, slots=2).request(model, None)
    single = RunOptions(nodes=NODES[:1]).request(model, None)

    assert (several.nodes, several.instances, several.use_mmap) == (NODES, 2, False)
    assert (single.nodes, single.instances, single.use_mmap) == (NODES[:1], 1, True)
    assert (RunOptions().request(model, None).nodes, RunOptions().request(model, None).instances) == ((), 1)


@pytest.mark.parametrize(("users", "engines", "slots"), [(6, 1, 6), (6, 2, 3), (7, 2, 4), (1, 2, 2), (500, 2, 32)])
def test_engines_side_by_side_share_the_users(users: int, engines: int, slots: int) -> None:
    """Evenly, rounded up, and two slots at least where there are several."""
    demand = replace(single_stream_need(8), concurrent_users=users, margin=1.0)

    assert default_slots(demand, engines=engines) == slots
