"""``suffice catalog``: which devices, machines to rent, models and API prices suffice knows, and from where."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from suffice.cli import options
from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from suffice.catalogue.entries import Instance
    from suffice.catalogue.models import ModelEntry
    from suffice.catalogue.names import Kind
    from suffice.loaders.catalogue import LoadedCatalogue
    from suffice.loaders.price_refresh import RefreshOutcome
    from suffice.model.spec import ModelSpec

Query = Annotated[str, typer.Argument(help="Words that the name, family or kind must hold. Default: everything.")]
Words = Annotated[
    list[str] | None, typer.Argument(help="Words that the name, kind or CPU must hold. Default: everything.")
]
Sources = Annotated[bool, typer.Option("--sources", help="Also show where each entry is from.")]
Limit = Annotated[int, typer.Option("--limit", min=0, help="Rows to show; 0 for all. --json always has all.")]

_F16_BYTES = 2
_MOST_WITH_SIZES = 8
_MOST_ROWS = 100
_COMMON_RECIPES = ("q2_k", "q3_k_m", "iq4_xs", "q4_0", "q4_k_m", "q5_k_m", "q6_k", "q8_0", "f16")


def build_catalog_app() -> typer.Typer:
    """The command and its subcommands."""
    app = options.group()
    app.callback()(catalog)
    app.command("models")(models)
    app.command("devices")(devices)
    app.command("instances")(instances)
    app.command("apis")(apis)
    app.command("refresh")(refresh)
    return app


def catalog() -> None:
    """What suffice knows without having it: models, devices, machines to rent, API prices; each number with its source."""


def models(query: Query = "", json_output: options.Json = False) -> None:
    """Models by name, with their size, and whether slices of them can be measured here without a download.

    When few match, also the size of a file of each under the common quantizations.

    Example: suffice catalog models qwen3
    """
    from suffice.catalogue.models import search_models
    from suffice.cli.output import print_json, print_text
    from suffice.report.catalog import models_text

    entries = search_models(query)
    if not entries:
        raise UsageError(f"no model of the catalogue matches {query!r}; 'suffice catalog models' lists them all")
    found = [_model(entry, sizes=len(entries) <= _MOST_WITH_SIZES) for entry in entries]
    if json_output:
        print_json({"models": found})
    else:
        print_text(models_text(found))


def devices(
    words: Words = None,
    own: options.OwnCatalogue = None,
    sources: Sources = False,
    json_output: options.Json = False,
) -> None:
    """Devices by name, with their rated memory bandwidth and compute, and the types in which they multiply.

    Example: suffice catalog devices h100 --sources
    """
    from suffice.catalogue.names import Kind
    from suffice.cli.output import print_json, print_text
    from suffice.report.entries import devices_text, notes_text, sources_text
    from suffice.report.entry_documents import device_document

    loaded = _load(own)
    notes = _corrections(Kind.DEVICE, words)
    found = [
        device
        for device in loaded.catalogue.devices
        if _has(words, device.id, device.name, device.kind, device.vendor, *device.aliases)
    ]
    _raise_if_none(found, "devices", words, notes)
    documents = [device_document(device) for device in found]
    if json_output:
        print_json({"devices": documents, "notes": notes})
        return
    parts = [devices_text(documents), sources_text(documents) if sources else None, notes_text(notes)]
    print_text("\n\n".join(part for part in parts if part))


def instances(
    words: Words = None,
    vendor: Annotated[
        str | None, typer.Option("--vendor", help="aws, azure, gcp, alicloud, tencent, huawei, ...")
    ] = None,
    max_price: Annotated[
        float | None, typer.Option("--max-price", help="At most so much per hour, in --currency.")
    ] = None,
    currency: Annotated[
        str, typer.Option("--currency", help="Currency of --max-price; prices in others are left out, not converted.")
    ] = "USD",
    min_memory: Annotated[
        str | None,
        typer.Option(
            "--min-memory", metavar="SIZE", help="At least so much memory, such as 32GiB; unknown is left out."
        ),
    ] = None,
    limit: Limit = _MOST_ROWS,
    own: options.OwnCatalogue = None,
    sources: Sources = False,
    json_output: options.Json = False,
) -> None:
    """Machines to rent: CPU, memory, what others measured on them, and the price with its region and date.

    Example: suffice catalog instances c7i --vendor aws --max-price 1.5
    """
    from suffice.catalogue.names import Kind
    from suffice.cli.output import print_json, print_text
    from suffice.report.entries import instances_text, notes_text, sources_text
    from suffice.report.entry_documents import instance_document

    loaded = _load(own)
    today = _today()
    tests = _instance_tests(_provider(vendor, loaded), max_price, currency, min_memory)
    notes = _corrections(Kind.INSTANCE, words)
    named = [
        machine
        for machine in loaded.catalogue.instances
        if _has(words, machine.key, machine.cpu_model, machine.other_cpu_model, machine.accelerator)
    ]
    _raise_if_none(named, "instances", words, notes)
    found = [machine for machine in named if all(test(machine) for test in tests)]
    if not found:
        raise UsageError(
            f"none of the {len(named)} machines that match fits --vendor, --max-price and --min-memory; where memory or price "
            "is not known they do not fit"
        )
    documents = [instance_document(machine, today) for machine in found]
    notes += _unknowns(named, max_price, currency, min_memory)
    if json_output:
        print_json({"instances": documents, "notes": notes, "price_files": _price_files(loaded)})
        return
    shown = documents[:limit] if limit else documents
    parts = [instances_text(shown, left=len(documents) - len(shown)), sources_text(shown) if sources else None]
    parts += [notes_text(notes), _files_text(loaded)]
    print_text("\n\n".join(part for part in parts if part))


def apis(
    words: Words = None,
    limit: Limit = _MOST_ROWS,
    own: options.OwnCatalogue = None,
    sources: Sources = False,
    json_output: options.Json = False,
) -> None:
    """Prices of serverless APIs per million tokens, with currency, tier and date.

    Example: suffice catalog apis qwen
    """
    from suffice.catalogue.names import Kind
    from suffice.cli.output import print_json, print_text
    from suffice.report.entries import apis_text, notes_text, sources_text
    from suffice.report.entry_documents import api_document

    loaded = _load(own)
    today = _today()
    notes = _corrections(Kind.API, words)
    found = [api for api in loaded.catalogue.apis if _has(words, api.platform, api.model, api.tier, api.currency)]
    _raise_if_none(found, "apis", words, notes)
    documents = [api_document(api, today) for api in found]
    if json_output:
        print_json({"apis": documents, "notes": notes, "price_files": _price_files(loaded)})
        return
    shown = documents[:limit] if limit else documents
    parts = [apis_text(shown, left=len(documents) - len(shown)), sources_text(shown) if sources else None]
    parts += [notes_text(notes), _files_text(loaded)]
    print_text("\n\n".join(part for part in parts if part))


def refresh(json_output: options.Json = False) -> None:
    """Fetch current prices from the maintained open files (karpenter's for clouds, LiteLLM's for APIs) into the cache folder.

    Newer prices are used from then on, and every listing says from which file a price comes. A file that cannot be
    fetched or is not to be trusted changes nothing; the command then ends with exit code 2.

    Example: suffice catalog refresh
    """
    from suffice.catalogue.catalogue import shipped
    from suffice.catalogue.price_files import PRICE_FILES
    from suffice.cli.output import Progress, print_json, print_text
    from suffice.loaders.price_refresh import refresh_prices
    from suffice.loaders.price_store import prices_folder
    from suffice.loaders.web import HttpWeb
    from suffice.report.entries import refreshed_text
    from suffice.report.entry_documents import refresh_document

    with Progress() as progress:
        outcome = refresh_prices(
            PRICE_FILES, web=HttpWeb(), folder=prices_folder(), today=_today(), base=shipped(), progress=progress
        )
    if json_output:
        print_json(refresh_document(outcome))
    elif outcome.refreshed:
        print_text(refreshed_text(outcome))
    _raise_if_failed(outcome)


def _raise_if_failed(outcome: RefreshOutcome) -> None:
    from suffice.report.entries import failed_text

    if outcome.failed:
        raise UsageError(failed_text(outcome))


def _load(own: Path | None) -> LoadedCatalogue:
    """The catalogue; what cannot be used of refreshed prices is said on stderr."""
    from suffice.cli.output import warn
    from suffice.loaders.catalogue import load_catalogue

    loaded = load_catalogue(own)
    warn(loaded.warnings)
    return loaded


def _today() -> date:
    """The local day: prices age by it."""
    from datetime import datetime

    return datetime.now().astimezone().date()


def _has(words: list[str] | None, *texts: str | None) -> bool:
    from suffice.catalogue.names import matches

    return not words or matches(" ".join(words).split(), texts)


def _corrections(kind: Kind, words: list[str] | None) -> list[str]:
    """What is to be said to somebody who asks by a name that misleads."""
    from suffice.catalogue.names import correction_of

    whole = " ".join(words or [])
    asked = [whole] if correction_of(kind, whole) else list(dict.fromkeys(words or []))
    found = [(text, correction_of(kind, text)) for text in asked]
    return [f"{text}: {correction.answer}" for text, correction in found if correction is not None]


def _raise_if_none(found: Sequence[object], what: str, words: list[str] | None, notes: list[str]) -> None:
    if found:
        return
    asked = repr(" ".join(words or []))
    hint = "; ".join(notes) if notes else f"'suffice catalog {what}' lists them all"
    raise UsageError(f"nothing among the {what} of the catalogue matches {asked}; {hint}")


def _provider(vendor: str | None, loaded: LoadedCatalogue) -> str | None:
    """The key of a provider; the user's own entries may have others than those that ship."""
    from suffice.catalogue.instances import provider_named

    if vendor is None or any(machine.provider == vendor for machine in loaded.catalogue.instances):
        return vendor
    return provider_named(vendor)


def _instance_tests(
    provider: str | None, max_price: float | None, currency: str, min_memory: str | None
) -> list[Callable[[Instance], bool]]:
    """What a machine must pass. An unknown price or memory passes no test of it."""
    from suffice.slices.place import parse_size_bytes

    tests: list[Callable[[Instance], bool]] = []
    if provider is not None:
        tests.append(lambda machine: machine.provider == provider)
    if max_price is not None:
        most = options.positive(max_price, "--max-price")
        tests.append(
            lambda machine: (
                machine.price is not None
                and machine.price.currency == currency.upper()
                and machine.price.per_hour <= most
            )
        )
    if min_memory is not None:
        try:
            least = parse_size_bytes(min_memory)
        except ValueError as error:
            raise UsageError(f"--min-memory: {error}") from None
        tests.append(lambda machine: (machine.memory_bytes or machine.memory_floor_bytes or 0) >= least)
    return tests


def _unknowns(named: Sequence[Instance], max_price: float | None, currency: str, min_memory: str | None) -> list[str]:
    """How many machines were left out because nobody knows, not because they do not fit."""
    notes = []
    if max_price is not None:
        count = sum(machine.price is None or machine.price.currency != currency.upper() for machine in named)
        notes.append(f"--max-price: {count} machines without a price in {currency.upper()} are left out")
    if min_memory is not None:
        count = sum(machine.memory_bytes is None and machine.memory_floor_bytes is None for machine in named)
        notes.append(f"--min-memory: {count} machines of unknown memory are left out")
    return notes


def _price_files(loaded: LoadedCatalogue) -> list[dict[str, str]]:
    return [
        {"name": item.name, "path": str(item.path), "date": item.date, "fetched": item.fetched} for item in loaded.saved
    ]


def _files_text(loaded: LoadedCatalogue) -> str:
    from suffice.report.entries import price_files_text

    return price_files_text(loaded.saved, _today())


def _model(entry: ModelEntry, *, sizes: bool) -> dict[str, Any]:
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
        "file_bytes": _file_bytes(spec) if sizes else None,
        "source": entry.source,
        "note": entry.note or None,
    }


def _refusal(spec: ModelSpec) -> str | None:
    """Why no slices of it can be measured: it cannot be written, or the engine does not run a part of it."""
    from suffice.model.blueprint import blueprint_header, blueprint_refusal
    from suffice.model.metadata import metadata_of
    from suffice.model.slice_rules import refusal

    return blueprint_refusal(spec) or refusal(metadata_of(blueprint_header(spec)), spec.n_layer)


def _file_bytes(spec: ModelSpec) -> dict[str, int] | None:
    """Size of a GGUF file under each common recipe; None where the tensors of the model are not known."""
    from suffice.model.blueprint import blueprint_header, blueprint_refusal
    from suffice.model.recipe import quantized_header

    if blueprint_refusal(spec):
        return None
    header = blueprint_header(spec)
    return {recipe: quantized_header(header, recipe).tensor_bytes for recipe in _COMMON_RECIPES}
