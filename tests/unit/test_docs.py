"""What the documents say is what the program does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from helpers.command_docs import documented, help_text
from suffice.cli.app import SUMMARIES, build_app
from suffice.loaders.demand import parse_demand

ROOT = Path(__file__).parents[2]
COMMANDS = tuple(documented())


def test_every_command_has_its_help_in_the_docs() -> None:
    """A command that nobody documents is not found; of groups the subcommands count, or the group itself."""
    assert set(SUMMARIES) <= {name.split()[0] for name in COMMANDS}
    assert len(SUMMARIES) > 5


def test_the_list_of_commands_says_what_each_of_them_says() -> None:
    """The list is written down, so that it imports none of them; and it does not."""
    group = typer.main.get_command(build_app())
    for name, command in group.commands.items():  # type: ignore[attr-defined]  # Typer's own type hides that it is a group
        assert (command.help or "").splitlines()[0] == SUMMARIES[name]
        assert command.name == name

    script = (
        "import sys; from suffice.cli.app import build_app; sys.argv = ['suffice', '--help']\n"
        "try: build_app()()\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith('suffice.cli.') and name != 'suffice.cli.app'])"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout
    assert out.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_in_the_docs_is_what_the_program_prints(command: str) -> None:
    """docs/commands.md is current; run scripts/docs after a change of an option."""
    assert documented()[command] == help_text(command)


def test_every_toml_block_of_the_demand_page_is_a_valid_demand() -> None:
    """The examples that readers paste are accepted."""
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "demand.md").read_text(encoding="utf-8"), re.DOTALL)

    assert blocks
    assert all(parse_demand(block).margin for block in blocks)


def test_both_readmes_show_the_same_commands_and_figures() -> None:
    """README.zh.md follows README.md: the same commands and the same measured table."""
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh.md"))

    def tables(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith(("| SmolLM", "| random"))]

    def invocations(text: str) -> list[str]:
        return sorted(set(re.findall(r"suffice (?:check|guard|ceiling|bandwidth|compare)[^#\n`|]*", text)))

    assert tables(english) == tables(chinese)
    assert tables(english)
    assert [i.strip() for i in invocations(english)] == [i.strip() for i in invocations(chinese)]
