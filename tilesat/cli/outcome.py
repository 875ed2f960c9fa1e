"""How a command ends: exit codes, and errors as one readable block on stderr.

0 done, 1 findings or mismatch, 2 bad input. Further: 130 interrupted, 141 nobody reads the output any more (as a shell reports
it), 70 a defect of tilesat itself.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from typing import ParamSpec

import typer

from cost.errors import TilesatError

DONE, FOUND, BAD_INPUT = 0, 1, 2
DEFECT, INTERRUPTED, BROKEN_PIPE = 70, 130, 141

P = ParamSpec("P")


class UsageError(TilesatError):
    """An option or argument whose value makes no sense; the message says which and what is wanted."""


def command(run: Callable[P, int]) -> Callable[P, None]:
    """Make ``run``, which returns an exit code, a command: whatever it raises becomes a message and a code."""

    @functools.wraps(run)
    def guarded(*args: P.args, **options: P.kwargs) -> None:
        raise typer.Exit(outcome(lambda: run(*args, **options)))

    return guarded


def outcome(run: Callable[[], int]) -> int:
    """The exit code of ``run``, its errors told on stderr."""
    try:
        code = run()
        sys.stdout.flush()
    except TilesatError as error:
        return complain(str(error))
    except BrokenPipeError:
        _mute()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return complain("interrupted", INTERRUPTED)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return complain(f"{where}{error.strerror or error}")
    except MemoryError:
        return complain("out of memory; give a smaller program or lower --limit-nodes")
    except Exception as error:
        if os.environ.get("TILESAT_TRACEBACK"):
            raise
        what = f"this is a defect of tilesat, not of your input: {type(error).__name__}: {error}"
        return complain(f"{what}\nset TILESAT_TRACEBACK=1 to see where, and please report it", DEFECT)
    return code


def complain(message: str, code: int = BAD_INPUT) -> int:
    """Tell an error as one block on stderr and return the exit code."""
    lines = message.splitlines() or ["unknown error"]
    with contextlib.suppress(OSError):
        print("error: " + "\n       ".join(lines), file=sys.stderr, flush=True)
    return code


def _mute() -> None:
    """Send what is still in stdout's buffer nowhere: its reader is gone, and Python would complain once more at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
