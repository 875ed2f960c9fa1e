"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file beside ``path`` to write to, which takes its place when all went well and is gone when not."""
    where = Path(path)
    partial = where.with_name(f".{where.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, where)
    finally:
        partial.unlink(missing_ok=True)
