"""The command line. Thin: parse, call, print, exit code; one file per command."""

from __future__ import annotations

import os
import sys

from suffice.errors import SufficeError

INTERRUPTED_EXIT_CODE = 130  # 128 + SIGINT, as shells expect


def main() -> None:
    """Entry point of ``suffice``. Errors raised on purpose become one sentence on stderr and their exit code."""
    from suffice.cli.app import build_app  # after this, everything is the command line's

    try:
        build_app()()
    except SufficeError as error:
        sys.stderr.write(f"suffice: {error}\n")  # the command line prints
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("suffice: interrupted; what was measured so far is kept where the record is written\n")
        sys.exit(INTERRUPTED_EXIT_CODE)
    except BrokenPipeError:
        # The reader of our output (head, less) went away; Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:  # the last line of defence: one sentence, and never a code that means a verdict
        if os.environ.get("SUFFICE_DEBUG"):
            raise
        sys.stderr.write(
            f"suffice: a defect in suffice: {type(error).__name__}: {error}; "
            "please report it, with the traceback that SUFFICE_DEBUG=1 shows\n"
        )
        sys.exit(SufficeError.exit_code)
