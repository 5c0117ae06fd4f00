"""``suffice catalog``: which models and devices suffice knows without having them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from suffice.cli import options
from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.catalogue.entries import Device
    from suffice.catalogue.models import ModelEntry
    from suffice.model.spec import ModelSpec

Query = Annotated[str, typer.Argument(help="Words that the name, family or kind must hold. Default: everything.")]

_F16_BYTES = 2


def build_catalog_app() -> typer.Typer:
    """The command and its subcommands."""
    app = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]}
    )
    app.callback()(catalog)
    app.command("models")(models)
    app.command("devices")(devices)
    return app


def catalog() -> None:
    """What suffice knows without having it: shapes of models, and rated figures of devices, each with its source."""


def models(query: Query = "", json_output: options.Json = False) -> None:
    """Models by name, with their size, and whether slices of them can be measured here without a download.

    Example: suffice catalog models qwen3
    """
    from suffice.catalogue.models import search_models
    from suffice.cli.output import print_json, print_text
    from suffice.report.catalog import models_text

    found = [_model(entry) for entry in search_models(query)]
    if not found:
        raise UsageError(f"no model of the catalogue matches {query!r}; 'suffice catalog models' lists them all")
    if json_output:
        print_json({"models": found})
    else:
        print_text(models_text(found))


def devices(query: Query = "", json_output: options.Json = False) -> None:
    """Devices by name, with their rated memory bandwidth and compute.

    Example: suffice catalog devices h100
    """
    from suffice.catalogue.devices import all_devices
    from suffice.cli.output import print_json, print_text
    from suffice.report.catalog import devices_text

    words = query.lower().split()
    found = [_device(device) for device in all_devices() if all(word in _text(device) for word in words)]
    if not found:
        raise UsageError(f"no device of the catalogue matches {query!r}; 'suffice catalog devices' lists them all")
    if json_output:
        print_json({"devices": found})
    else:
        print_text(devices_text(found))


def _model(entry: ModelEntry) -> dict[str, Any]:
    spec = entry.spec
    experts = spec.experts
    return {
        "id": entry.id,
        "family": entry.family,
        "architecture": spec.architecture,
        "parameters": entry.computed_parameters,
        "published_parameters": entry.published_parameters,
        "active_parameters": entry.active_parameters,
        "layers": spec.n_layer,
        "context_length": spec.context_length,
        "experts": None if experts is None else {"count": experts.n_expert, "used": experts.n_used},
        "kv_bytes_per_token": _F16_BYTES * (entry.kv_elements_per_token + entry.kv_elements_per_token_windowed),
        "refused_because": _refusal(spec),
        "source": entry.source,
        "note": entry.note or None,
    }


def _refusal(spec: ModelSpec) -> str | None:
    """Why no slices of it can be measured: it cannot be written, or the engine does not run a part of it."""
    from suffice.model.blueprint import blueprint_header, blueprint_refusal
    from suffice.model.metadata import metadata_of
    from suffice.model.slice_rules import refusal

    return blueprint_refusal(spec) or refusal(metadata_of(blueprint_header(spec)), spec.n_layer)


def _device(device: Device) -> dict[str, Any]:
    bandwidth, flops = device.bandwidth_bytes_per_s, device.dense_bf16_flop_per_s
    rated = bandwidth or flops
    return {
        "id": device.id,
        "name": device.name,
        "kind": device.kind,
        "memory_bytes": device.memory_bytes,
        "bandwidth_bytes_per_s": None if bandwidth is None else bandwidth.value,
        "bandwidth_basis": None if bandwidth is None else bandwidth.kind,
        "dense_bf16_flop_per_s": None if flops is None else flops.value,
        "source": None if rated is None else rated.source,
        "seen": None if rated is None else rated.seen,
    }


def _text(device: Device) -> str:
    return f"{device.id} {device.name} {device.kind}".lower()
