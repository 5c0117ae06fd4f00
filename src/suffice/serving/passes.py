"""What one step costs when prompts and generating sequences share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suffice.serving.step_times import StepTimes


@dataclass(slots=True)
class Part:
    """Tokens of one sequence in a step: ``tokens`` of them from ``depth`` on, of the sequence in ``slot``."""

    slot: int
    tokens: int
    depth: int


def shared_passes_s(times: StepTimes, pass_tokens: int, batch: int, total_depth: int, prompts: list[Part]) -> float:
    """Seconds of a step whose tokens are cut into passes in their order: first one of each generating sequence, then prompts.

    A pass reads the weights once for all its tokens and costs what a chunk of so many prompt tokens does, at the mean depth of
    the prompts in it; the caches of the generating sequences come on top.

    Args:
        times: of the machine.
        pass_tokens: most tokens of a pass, at least ``batch``.
        batch: generating sequences.
        total_depth: tokens in their caches together.
        prompts: what is read of prompts, in order.
    """
    alone = times.steps_s(batch, total_depth, 1) if batch else 0.0
    seconds = alone - times.empty_s(batch) if batch else 0.0
    size, read, weighted = batch, 0, 0.0
    for part in prompts:
        left, depth = part.tokens, part.depth
        while left:
            taken = min(left, pass_tokens - size)
            size, read, weighted = size + taken, read + taken, weighted + taken * depth
            left, depth = left - taken, depth + taken
            if size == pass_tokens:
                seconds += times.prefill_s(size, weighted / read if read else 0.0)
                size, read, weighted = 0, 0, 0.0
    if size:
        seconds += times.prefill_s(size, weighted / read if read else 0.0)
    return max(seconds, alone)


# Generating sequences in neighbouring slots: the last slot, how many there are, and the sum of their bases (depth less steps).
Neighbours = tuple[int, int, int]


def separate_passes_s(
    times: StepTimes, pass_tokens: int, runs: list[Neighbours], steps: int, prompts: list[Part]
) -> float:
    """Seconds of a step over caches that are apart: llama.cpp's equal split with sequential sequences.

    A pass takes the same number of tokens of each sequence in a run of neighbouring slots. So a prompt beside generating
    slots costs two passes (of the first one it has one token, if its slot comes next), and generating slots with an idle one
    between them cost one pass for each run.

    Args:
        times: of the machine.
        pass_tokens: most tokens of a pass.
        runs: generating slots, in order.
        steps: of the engine until now; the depths of a run are its bases and so many.
        prompts: what is read of prompts, in the order of the slots.
    """
    if len(prompts) == 1:  # most steps with a prompt; the general way takes twice as long
        (part,) = prompts
        return _passes_of_one_prompt_s(times, pass_tokens, runs, steps, part)
    seconds = 0.0
    pending = [Part(part.slot, part.tokens, part.depth) for part in prompts]
    for last, size, base_sum in runs:
        depth = base_sum + size * steps
        for part in pending:
            if part.slot == last + 1 and part.tokens:
                size, depth, last = size + 1, depth + part.depth, part.slot  # noqa: PLW2901  # the run grows
                part.tokens, part.depth = part.tokens - 1, part.depth + 1
        seconds += times.steps_s(size, depth, 1)
    return seconds + _prompt_passes_s(times, pass_tokens, [part for part in pending if part.tokens])


def _passes_of_one_prompt_s(
    times: StepTimes, pass_tokens: int, runs: list[Neighbours], steps: int, prompt: Part
) -> float:
    """The passes of generating runs and of one prompt, whose first token joins the run that ends beside it."""
    seconds, tokens, depth = 0.0, prompt.tokens, prompt.depth
    beside = prompt.slot - 1
    for last, size, base_sum in runs:
        if last == beside:
            seconds += times.steps_s(size + 1, base_sum + size * steps + depth, 1)
            tokens, depth = tokens - 1, depth + 1
        else:
            seconds += times.steps_s(size, base_sum + size * steps, 1)
    return seconds + read_s(times, pass_tokens, tokens, depth)


def read_s(times: StepTimes, pass_tokens: int, tokens: int, depth: int) -> float:
    """Seconds of the passes over ``tokens`` of one prompt from ``depth`` on, with nothing else in them."""
    if 1 < tokens <= pass_tokens:
        return times.prefill_s(tokens, depth)
    seconds, end = 0.0, depth + tokens
    while depth < end:
        length = min(pass_tokens, end - depth)
        seconds += times.prefill_s(length, depth) if length > 1 else times.steps_s(1, depth, 1)
        depth += length
    return seconds


def _pass_s(times: StepTimes, sequences: int, length: int, total_depth: int) -> float:
    """One pass over ``length`` tokens of each sequence; over one token each it is a decode step."""
    if length == 1:
        return times.steps_s(sequences, total_depth, 1)
    return times.prefill_s(sequences * length, total_depth / sequences)


def _prompt_passes_s(times: StepTimes, pass_tokens: int, pending: list[Part]) -> float:
    """Passes over prompts alone; the parts are consumed."""
    if len(pending) == 1:
        return read_s(times, pass_tokens, pending[0].tokens, pending[0].depth)
    seconds = 0.0
    while pending:
        run = pending[:1]
        for part in pending[1:]:
            if part.slot == run[-1].slot + 1:
                run.append(part)
        length = min(*(part.tokens for part in run), max(1, pass_tokens // len(run)))
        depth = sum(part.depth for part in run)
        seconds += _pass_s(times, len(run), length, depth)
        for part in run:
            part.tokens, part.depth = part.tokens - length, part.depth + length
        pending = [part for part in pending if part.tokens]
    return seconds
