"""``suffice web``: the what-if page on this machine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli import options
from suffice.errors import SufficeError, UsageError

if TYPE_CHECKING:
    import socket

_LEAST_TOKEN_CHARACTERS = 16
_MOST_PORT = 65_535
_INSTALL = "pip install 'suffice[web]'"


def web(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN...", help="Run records of this machine, or of others that are at hand."),
    ] = None,
    demand_file: Annotated[
        Path | None,
        typer.Option(
            "--demand",
            metavar="FILE",
            help="A demand.toml to begin with, and the only file that the page can save to. It need not be there yet.",
        ),
    ] = None,
    model: options.ModelOption = None,
    catalog: options.OwnCatalogue = None,
    port: Annotated[int, typer.Option("--port", min=0, max=_MOST_PORT, help="0: one that is free.")] = 0,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on. Beyond this machine (loopback) a token is needed.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            envvar="SUFFICE_WEB_TOKEN",
            help="What a browser has to show once, 16 characters at least. The environment hides it from other users' process lists.",
        ),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    json_output: options.Json = False,
) -> None:
    """Change demand, margin, model, quantization and prices in a form; verdict, charts and plan follow. Ctrl-C ends it.

    Records, catalogue and model file are read once, when it starts. Nothing leaves this machine.

    Example: suffice web run.json --demand demand.toml --open

    Example: SUFFICE_WEB_TOKEN=... suffice web --host 0.0.0.0 --port 8321
    """
    _check_token(host, token)
    _check_extra()
    with _listen(host, port) as listening:
        from suffice.cli.output import print_json, print_text
        from suffice.web.guard import Door
        from suffice.web.server import build_app, serve
        from suffice.web.start import Start, started

        site = started(Start(runs=tuple(runs or ()), demand=demand_file, model=model, catalog=catalog))
        door = Door(host=host, port=listening.getsockname()[1], token=token)
        with suppress(SufficeError):  # the page says it beside the form
            site.bench.answer(site.start)
        if json_output:
            print_json({"url": door.url, "host": host, "port": door.port, "needs_token": token is not None})
        else:
            print_text(f"{door.url}\nCtrl-C ends it." + (" The page asks for the token." if token else ""))
        if open_browser:
            import webbrowser

            webbrowser.open(door.url)
        serve(build_app(site, door), listening, on_end=site.bench.close)


def _check_token(host: str, token: str | None) -> None:
    from suffice.web.hosts import is_loopback

    if token is not None and len(token) < _LEAST_TOKEN_CHARACTERS:
        raise UsageError(
            f"the token has fewer than {_LEAST_TOKEN_CHARACTERS} characters; make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    if token is None and not is_loopback(host):
        raise UsageError(
            f"--host {host} is reached from other machines: give a token with it (SUFFICE_WEB_TOKEN or --token), or leave --host out"
        )


def _check_extra() -> None:
    """One sentence instead of a traceback where the extra is not installed.

    Raises:
        UsageError: it is not.
    """
    from importlib.util import find_spec

    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise UsageError(f"the page needs {' and '.join(missing)}: {_INSTALL}")


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens already: whoever reads the address that is printed finds somebody there.

    Raises:
        UsageError: nothing can listen there.
    """
    import socket

    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(
            f"nothing can listen on {host} port {port}: {reason}; give another --host or --port"
        ) from error
