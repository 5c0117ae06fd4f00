"""The command of a vLLM server on a GPU (docs.vllm.ai, `vllm serve`, read 2026-11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.deploy.quote import comment_text, shell
from suffice.deploy.server_args import Argument
from suffice.deploy.shell_files import shell_head, shell_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.deploy.choice import DeploymentChoice, GpuServer


def vllm_script(choice: DeploymentChoice, gpu: GpuServer, head: list[str]) -> str:
    """A script that becomes the server."""
    lines = shell_head([f"The vLLM command for {gpu.machine}.", *([gpu.standing] if gpu.standing else []), *head])
    lines += [f"model={shell(gpu.model.value)} # {comment_text(gpu.model.comment)}"]
    lines += ["arguments=(", *shell_words(vllm_arguments(choice, gpu)), ")", ""]
    lines.append('exec vllm serve "$model" "${arguments[@]}"')
    return "\n".join(lines) + "\n"


def vllm_arguments(choice: DeploymentChoice, gpu: GpuServer) -> tuple[Argument, ...]:
    """All but the model."""
    return tuple(_arguments(choice, gpu))


def _arguments(choice: DeploymentChoice, gpu: GpuServer) -> Iterator[Argument]:
    yield Argument(
        flag="--served-model-name", value=choice.alias, comment="computed: the name that the other server has"
    )
    yield Argument(
        flag="--host", value="127.0.0.1", comment="default: loopback only; put a proxy with TLS and keys before it"
    )
    yield Argument(flag="--port", value="8000", comment="default: vLLM's own")
    context = choice.settings.context
    yield Argument(flag="--max-model-len", value=str(context.value), comment=context.comment)
    if gpu.slots is not None:
        yield Argument(flag="--max-num-seqs", value=str(gpu.slots.value), comment=gpu.slots.comment)
    parallel = gpu.accelerators
    even = "" if parallel.value == 1 else "; it has to divide the model's attention heads"
    yield Argument(flag="--tensor-parallel-size", value=str(parallel.value), comment=f"{parallel.comment}{even}")
    yield Argument(flag="--gpu-memory-utilization", value="0.9", comment="default: nobody measured more on this GPU")
