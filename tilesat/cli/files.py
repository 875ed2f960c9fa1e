"""Programs in, files out. A file that is written appears whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
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
    with _complaining_of(path):
        where, mode = _place_of(path)
        if mode is not None and not stat.S_ISREG(mode):
            where.write_bytes(content)
        else:
            _replace(where, content, mode)


def _place_of(path: str) -> tuple[Path, int | None]:
    """Where to write and what is there (its mode, None where nothing is).

    The file that a link leads to; a device or a pipe as it is called, for /dev/stdout may lead to what has no name.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return Path(os.path.realpath(path)), None
    return Path(os.path.realpath(path) if stat.S_ISREG(mode) else path), mode


def _replace(where: Path, content: bytes, mode: int | None) -> None:
    partial = _beside(where)
    try:
        partial.write_bytes(content)
        _take_place(partial, where, mode)
    finally:
        partial.unlink(missing_ok=True)


def _beside(where: Path) -> Path:
    """A new empty file in the folder of ``where``, with its ending."""
    handle, partial = tempfile.mkstemp(prefix=f".{where.name[:60]}.partial.", suffix=where.suffix[:20], dir=where.parent)
    os.close(handle)
    return Path(partial)


def _take_place(partial: Path, where: Path, mode: int | None) -> None:
    """Put ``partial``, once it is on the disk, in place of ``where``."""
    with partial.open("rb") as written:
        os.fsync(written.fileno())
    os.chmod(partial, stat.S_IMODE(mode) if mode is not None else 0o666 & ~_umask())
    os.replace(partial, where)


def not_over(file: str | None, out: str | None, option: str) -> None:
    """Refuse to put something that is no program in place of the program. Raises WriteError."""
    if file is None or out is None or file == "-":
        return
    if os.path.exists(out) and os.path.exists(file) and os.path.samefile(out, file):
        raise WriteError(f"{option}: {out} is the program itself, which would be lost; give another file")


def write_together(makers: Mapping[str, Callable[[Path], None]]) -> None:
    """Several files, all or none: each maker writes to a file beside its place, and when all have, they take their places.

    Raises WriteError, and whatever a maker raises.
    """
    staged: list[tuple[str, Path, Path, int | None]] = []
    try:
        for path, make in makers.items():
            with _complaining_of(path):
                where, mode = _place_of(path)
                if mode is not None and stat.S_ISDIR(mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                partial = _beside(where if mode is None or stat.S_ISREG(mode) else Path(tempfile.gettempdir(), where.name))
                staged.append((path, partial, where, mode))
                make(partial)
        for path, partial, where, mode in staged:
            with _complaining_of(path):
                if mode is not None and not stat.S_ISREG(mode):
                    where.write_bytes(partial.read_bytes())  # a device or a pipe
                else:
                    _take_place(partial, where, mode)
    finally:
        for _, partial, _, _ in staged:
            partial.unlink(missing_ok=True)


@contextlib.contextmanager
def _complaining_of(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from None


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
