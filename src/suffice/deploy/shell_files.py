"""Shell scripts: the command, the check that it serves what was chosen, and its warm-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.deploy.quote import comment_text, shell
from suffice.deploy.server_args import Home, Hosted, load_mode, server_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suffice.deploy.choice import DeploymentChoice, Place
    from suffice.deploy.server_args import Argument

_SHELL_HEAD = "#!/usr/bin/env bash"


def shell_head(lines: Iterable[str]) -> list[str]:
    """The first lines of a script: what it is, and that it stops at the first error."""
    return [_SHELL_HEAD, *(f"# {comment_text(line)}".rstrip() for line in lines), "set -euo pipefail", ""]


def shell_words(arguments: Iterable[Argument]) -> list[str]:
    """Lines of a bash array, each argument with its comment: a command continued by backslashes could hold none."""
    return [f"  {' '.join(map(shell, one.words))} # {comment_text(one.comment)}" for one in arguments]


def server_script(choice: DeploymentChoice, place: Place, head: list[str]) -> str:
    """The llama-server command of one engine as a script that becomes the server."""
    hosted = Hosted(home=Home.MACHINE, model_path=choice.model_path.value, port=place.port)
    lines = shell_head(["The llama-server command that was chosen.", *head])
    lines += ["arguments=(", *shell_words(server_arguments(choice, place, hosted)), ")", ""]
    lines += [f"server={shell(choice.server.value)} # {comment_text(choice.server.comment)}", ""]
    if "mlock" in load_mode(choice, Home.MACHINE).value:
        lines += _UNLOCKED
    if place.node is None:
        lines.append('exec "$server" "${arguments[@]}"')
    else:
        lines += [
            f"# measured: {_placement(choice)}",
            f'exec numactl {_bound_cpus(place)} --membind={place.node} "$server" "${{arguments[@]}}"',
        ]
    return "\n".join(lines) + "\n"


_UNLOCKED: Final = [
    "# computed: the model is locked in memory, which the usual limit of some MiB forbids; llama-server then goes on without",
    "if ! ulimit -l unlimited 2>/dev/null; then",
    '  echo "the model will not be locked in memory: raise the hard limit of memlock for this user, or use the systemd unit" >&2',
    "fi",
    "",
]


def _placement(choice: DeploymentChoice) -> str:
    if len(choice.places) > 1:
        return "an engine on each node; the record does not say which nodes, 0 and up are taken"
    return "CPUs and memory of the node that the run was kept on"


def _bound_cpus(place: Place) -> str:
    return f"--cpunodebind={place.node}" if place.cpus is None else f"--physcpubind={place.cpus}"


def check_script(choice: DeploymentChoice, head: list[str]) -> str:
    """Waits until the server is up, holds its slots and context against what was chosen, and warms it up."""
    slots, context = choice.settings.slots.value, choice.settings.context.value
    lines = shell_head(
        [
            "Health check and warm-up: run it after each start, before users are let in.",
            "Exit code 0: it serves as chosen and is warm; 1: it does not.",
            *head,
        ]
    )
    lines += [
        f"base=${{1:-http://127.0.0.1:{choice.port.value}}} # {choice.port.comment}",
        f"wait_s={choice.start_s.value} # {comment_text(choice.start_s.comment)}",
        f"slots={slots} # {comment_text(choice.settings.slots.comment)}",
        f"context={context} # {comment_text(choice.settings.context.comment)}",
        f"words={choice.warm_up_tokens} # {_warm_up_words(choice)}",
        f"model={shell(choice.alias)}",
        "",
        _CHECK_BODY,
    ]
    return "\n".join(lines)


def _warm_up_words(choice: DeploymentChoice) -> str:
    if choice.demand.prompt_tokens is None:
        return "default: the demand states no prompts; no more than a slot holds"
    return "stated: median prompt, a word is a token or more; at most 4096, and no more than a slot holds"


_CHECK_BODY = """\
fail() {
  echo "not ready: $1" >&2
  exit 1
}

# /health answers 503 while the model is loaded, and 200 from then on.
deadline=$((SECONDS + wait_s))
until curl --silent --fail --max-time 5 --output /dev/null "$base/health"; do
  if ((SECONDS >= deadline)); then
    fail "no answer at $base/health within $wait_s s"
  fi
  sleep 1
done

# What is served is what was chosen: slots, and the context of each.
properties=$(curl --silent --fail --max-time 10 "$base/props") || fail "no answer at $base/props"
number_of() {
  printf '%s' "$properties" | tr -d ' \\n' | grep --only-matching "\\"$1\\":[0-9]*" | head -n 1 | cut -d : -f 2
}
served=$(number_of total_slots) || fail "the server does not tell its slots"
if [[ "$served" != "$slots" ]]; then
  fail "it has $served slots, $slots were chosen"
fi
room=$(number_of n_ctx) || fail "the server does not tell its context"
if ((room < context)); then
  fail "a slot holds $room tokens, $context were chosen"
fi

# One request for each slot, all at once, each with a prompt of its own: pages are read, buffers allocated, clocks raised.
ask() {
  local text="warm up $1:"
  for ((word = 0; word < words - 16; word++)); do
    text+=" word"
  done
  curl --silent --fail --max-time 3600 --output /dev/null --header 'Content-Type: application/json' \\
    --data "{\\"model\\": \\"$model\\", \\"prompt\\": \\"$text\\", \\"max_tokens\\": 8, \\"temperature\\": 0}" "$base/v1/completions"
}
requests=()
for ((slot = 1; slot <= slots; slot++)); do
  ask "$slot" &
  requests+=("$!")
done
for request in "${requests[@]}"; do
  wait "$request" || fail "a warm-up request failed"
done
echo "ready: $slots slots of $room tokens at $base"
"""
