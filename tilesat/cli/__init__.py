"""The command line: ``tilesat COMMAND …``. One file a command (or group of commands); ``docs/cli.md`` shows them all.

Modules here import nothing heavy before a command runs, so that ``tilesat --help`` answers at once.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """The console script ``tilesat``: runs one command and exits with its code (see :mod:`tilesat.cli.outcome`)."""
    _open_streams()
    try:
        from tilesat.cli.app import application

        application(sys.argv[1:])()
    except KeyboardInterrupt:  # before or after the command itself, which tells it alike
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)


def _open_streams() -> None:
    """Streams that the caller closed lead nowhere; characters that an encoding lacks become escapes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
