"""The shape of a model on Hugging Face's hub: its ``config.json`` is fetched, and nothing else."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx

from suffice.errors import ModelFileError, UsageError
from suffice.loaders.hf_config import spec_of_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.model.spec import ModelSpec

_REPO_ID: Final = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
_FILE_NAME: Final = "config.json"
_INSTALL: Final = "pip install 'suffice[hub]'"


def is_repo_id(text: str) -> bool:
    """Whether this could name a repository: ``Qwen/Qwen3-8B``."""
    return _REPO_ID.fullmatch(text) is not None and ".." not in text


def spec_from_hub(repo_id: str, *, fetch_config: Callable[[str], Path] | None = None) -> ModelSpec:
    """The shape of the model in a repository of the hub, such as ``Qwen/Qwen3-8B``.

    ``fetch_config`` takes the name of a repository to the path of its ``config.json``; by default ``huggingface_hub`` does, with
    its cache and the login that the user gave it.

    Raises:
        UsageError: no name of a repository, or ``huggingface_hub`` is not installed; the message has the command that installs it.
        ModelFileError: no connection, no such repository, no permission, or no config of a model that suffice can describe.
    """
    if not is_repo_id(repo_id):
        raise UsageError(f"{repo_id[:120]!r} is no name of a repository; write it as on the hub: Qwen/Qwen3-8B")
    path = (fetch_config or _download)(repo_id)
    return spec_of_file(path, name=repo_id.rpartition("/")[2], source=f"{_FILE_NAME} of {repo_id}")


def _download(repo_id: str) -> Path:
    """Only classes and status are told of an error: its text can hold addresses with a token."""
    try:
        hub, errors = import_module("huggingface_hub"), import_module("huggingface_hub.errors")
    except ImportError:
        raise UsageError(f"reading from the hub needs huggingface_hub; install it with: {_INSTALL}") from None
    try:
        return Path(str(hub.hf_hub_download(repo_id, _FILE_NAME)))
    except errors.GatedRepoError:
        reason = "is gated; accept its conditions on its page and log in with: hf auth login"
    except errors.RepositoryNotFoundError:
        reason = "does not exist or is private; check the name, or log in with: hf auth login"
    except errors.LocalEntryNotFoundError:
        reason = "cannot be reached and is not in the cache; check the network, or give the path of its config.json"
    except errors.EntryNotFoundError:
        reason = f"has no {_FILE_NAME}; give the path or URL of a GGUF file of the model"
    except errors.HfHubHTTPError as error:
        status = getattr(getattr(error, "response", None), "status_code", "unknown")
        reason = f"cannot be read (status {status}); try again later, or give the path of its config.json"
    except (OSError, ValueError, httpx.HTTPError) as error:
        reason = f"cannot be read ({type(error).__name__}); check the network, or give the path of its config.json"
    raise ModelFileError(f"the repository {repo_id} {reason}")
