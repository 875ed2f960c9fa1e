"""Programs in, files out. A file that is written appears whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cost.errors import TilesatError

if TYPE_CHECKING:
    from ir_bridge.ir.nodes import Program


class WriteError(TilesatError):
    """A file that cannot be written; the message names it and says why."""


def read_program(path: str) -> Program:
    """The program in a file, or on stdin for "-". Raises ParseError."""
    import tilesat
    from ir_bridge.ir.parser import MAX_BYTES

    if path != "-":
        return tilesat.load(path)
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise tilesat.ParseError("the text is not UTF-8", text=f"byte 0x{data[error.start]:02x}", file="<stdin>") from None
    return tilesat.parse(text, "<stdin>")


def write_whole(path: str, data: str | bytes) -> None:
    """Put ``data`` into the file at ``path`` in one step: into a file beside it first, which then takes its place.

    A link is followed, permissions of an existing file are kept; a device or pipe is written to directly. Raises WriteError.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    where = Path(os.path.realpath(path))
    try:
        mode = _mode_of(where)
        if mode is not None and not stat.S_ISREG(mode):
            where.write_bytes(content)
        else:
            _replace(where, content, mode)
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from None


def _mode_of(where: Path) -> int | None:
    try:
        return where.stat().st_mode
    except FileNotFoundError:
        return None


def _replace(where: Path, content: bytes, mode: int | None) -> None:
    handle, partial = tempfile.mkstemp(prefix=f".{where.name[:60]}.", suffix=".partial", dir=where.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(partial, stat.S_IMODE(mode) if mode is not None else 0o666 & ~_umask())
        os.replace(partial, where)
    except BaseException:
        os.unlink(partial)
        raise


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
