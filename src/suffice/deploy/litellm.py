"""A configuration of LiteLLM's proxy: this machine, who answers beside it, and what happens when one of them fails.

Keys are names of variables only (``os.environ/NAME``), which LiteLLM reads when it starts (docs.litellm.ai, proxy configs, read 2026-11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.deploy.yaml_text import Noted, yaml_document

if TYPE_CHECKING:
    from suffice.deploy.choice import DeploymentChoice, OtherServer, Place

OWN_KEY: Final = "LLAMA_SERVER_API_KEY"
MASTER_KEY: Final = "LITELLM_MASTER_KEY"
_INTERACTIVE: Final = "interactive"
_COOLDOWN_S: Final = 30
_ALLOWED_FAILS: Final = 3


def litellm_config(choice: DeploymentChoice, other: OtherServer, head: list[str]) -> str:
    """Requests by the model's name come here, those by its name with "-interactive" go to the other side, and each stands in for the other."""
    here, there = choice.alias, f"{choice.alias}-{_INTERACTIVE}"
    told = [
        f"Start: litellm --config litellm.yaml --host 127.0.0.1 --port 4000; {OWN_KEY}, {other.key_variable} and {MASTER_KEY} in its environment.",
        f"{OWN_KEY} is any text where llama-server has no key.",
        f"Clients ask for {there} where somebody waits, and for {here} where nobody does.",
        *_share(choice, there),
        *head,
    ]
    document = {
        "model_list": [*(_own(choice, place) for place in choice.places), _other(choice, other, there)],
        "router_settings": {
            "routing_strategy": Noted("least-busy", "default: of several engines the one with the fewest requests"),
            "num_retries": Noted(1, "default: once again, then the other side"),
            "fallbacks": Noted([{here: [there]}, {there: [here]}], "default: each side stands in when the other fails"),
            "allowed_fails": Noted(_ALLOWED_FAILS, "default: in a minute, until a server is left alone"),
            "cooldown_time": Noted(_COOLDOWN_S, "default: seconds for which it is left alone"),
        },
        "litellm_settings": {
            "drop_params": Noted(True, "default: what one side does not know is left out"),
            "telemetry": False,
        },
        "general_settings": {"master_key": f"os.environ/{MASTER_KEY}"},
    }
    return yaml_document(told, document)


def _share(choice: DeploymentChoice, there: str) -> list[str]:
    share = choice.demand.interactive_share
    return (
        []
        if share is None
        else [f"stated: {share:.0%} of the requests must keep the limits; those are the ones for {there}."]
    )


def _own(choice: DeploymentChoice, place: Place) -> dict[str, object]:
    slots = choice.settings.slots
    return {
        "model_name": choice.alias,
        "litellm_params": {
            "model": f"openai/{choice.alias}",
            "api_base": Noted(f"http://127.0.0.1:{place.port}/v1", choice.port.comment),
            "api_key": f"os.environ/{OWN_KEY}",
            "max_parallel_requests": Noted(slots.value, f"as many as there are slots; {slots.comment}"),
        },
    }


def _base(target: str) -> Noted:
    """Where an OpenAI API is: at /v1, unless the address names a path."""
    host, slash, path = target.partition("://")[2].partition("/")
    if host and path:
        return Noted(target, "stated: --hybrid")
    return Noted(
        f"{target.removesuffix(slash)}/v1", "stated: --hybrid, at /v1, where vLLM and llama-server have their API"
    )


def _other(choice: DeploymentChoice, other: OtherServer, name: str) -> dict[str, object]:
    parameters: dict[str, object] = {"model": Noted(other.target, "stated: --hybrid")}
    if other.is_address:
        served = other.served_name or choice.alias
        parameters = {"model": f"openai/{served}", "api_base": _base(other.target)}
    parameters["api_key"] = f"os.environ/{other.key_variable}"
    if choice.gpu is not None and choice.gpu.slots is not None and other.is_address:
        slots = choice.gpu.slots
        parameters["max_parallel_requests"] = Noted(slots.value, f"as many as vLLM takes; {slots.comment}")
    return {"model_name": name, "litellm_params": parameters}
