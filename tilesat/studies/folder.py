"""A results folder: the manifest of one study, its rows as they come, its tables when it is done.

Rows are lines of ``results.jsonl``, each written at once and only ever appended. So whatever ends a run, all rows but the one
being written are there, and the next run goes on after them.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from tilesat.studies.errors import StudyError
from tilesat.studies.work import Row

MANIFEST, RESULTS = "manifest.json", "results.jsonl"
#: How names of files end that are not whole yet; a run that is killed can leave one.
PARTIAL = ".partial"


class Folder:
    """An open results folder, as a context manager; only one run at a time can have it open."""

    def __init__(self, path: str | os.PathLike[str], manifest: dict[str, Any]) -> None:
        """Make the folder, or go on with it. Raises :class:`StudyError` for a folder that holds anything but this study, that
        another run has open, or that cannot be written."""
        self.path = Path(path)
        self.results = self.path / RESULTS
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._check(manifest)
            if not (self.path / MANIFEST).exists():
                self.write(MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
            self._file = os.open(self.results, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as e:
            raise StudyError(f"{self.path}: cannot keep results here: {e.strerror or e}; give another folder") from e
        try:
            self._lock()
            self._tidy()
            self.rows = self._read()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._file)

    def _check(self, manifest: dict[str, Any]) -> None:
        """Refuse a folder that holds something else."""
        where = self.path / MANIFEST
        if not where.exists():
            others = sorted(p.name for p in self.path.iterdir() if not p.match(f".{MANIFEST}.*{PARTIAL}"))
            if others:
                what = f"{', '.join(others[:3])}{', …' if len(others) > 3 else ''}"
                raise StudyError(f"{self.path} is no results folder (it holds {what}); give a new or an empty one")
            return
        try:
            found = json.loads(where.read_text(encoding="utf-8"))["study"]
        except (ValueError, KeyError, TypeError) as e:
            raise StudyError(f"{where} is no manifest of a study ({e}); give another folder") from e
        differs = _differences(found, manifest["study"])
        if differs:
            raise StudyError(
                f"{self.path} holds another study: {'; '.join(differs[:4])}. Give another folder, or ask for the same"
            )

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # pragma: no cover - not on this system
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StudyError(f"{self.path}: another run is writing here; wait for it or give another folder") from None
        except OSError:  # a file system without locks
            return

    def _tidy(self) -> None:
        """Remove what a run that was killed had not finished writing."""
        for left in self.path.glob(f".*{PARTIAL}"):
            with contextlib.suppress(OSError):
                left.unlink()

    def _read(self) -> dict[str, Row]:
        """The rows that are there, by item; half a last line is cut off."""
        data = self.results.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._file, whole)
        found: dict[str, Row] = {}
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                row = json.loads(line)
                found[row["item"]] = row  # a later row is of an item that was run again
            except (ValueError, KeyError, TypeError) as e:
                repair = "take the line out to have its item run again"
                raise StudyError(f"{self.results} line {number} is no row of a study ({e}); {repair}") from e
        return found

    def append(self, row: Row) -> None:
        """Add a row. Raises :class:`StudyError` where it cannot be written; the rows before it stay whole."""
        line = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode()
        before = os.fstat(self._file).st_size
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as e:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, before)
            kept = f"the {len(self.rows)} results so far are kept"
            raise StudyError(f"{self.results}: {e.strerror or e}; {kept}. Make room and run the same again to go on") from e
        self.rows[row["item"]] = row

    def write(self, name: str, content: str) -> None:
        """Write a file of the folder, whole or not at all. Raises OSError."""
        handle, partial = tempfile.mkstemp(prefix=f".{name}.", suffix=PARTIAL, dir=self.path)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as out:
                out.write(content)
            os.chmod(partial, 0o644)
            os.replace(partial, self.path / name)
        except BaseException:
            os.unlink(partial)
            raise

    def publish(self, files: dict[str, str]) -> None:
        """Write the tables and reports; raises :class:`StudyError` where one cannot be (the rows are kept)."""
        for name, content in files.items():
            try:
                self.write(name, content)
            except OSError as e:
                kept = "all results are kept; make room and run the same again"
                raise StudyError(f"{self.path / name}: {e.strerror or e}; {kept}") from e


def _differences(a: Any, b: Any, path: str = "") -> list[str]:
    """Where two pieces of plain data differ, in words."""
    if isinstance(a, dict) and isinstance(b, dict):
        found = []
        for key in dict.fromkeys((*a, *b)):
            found += _differences(a.get(key), b.get(key), f"{path}.{key}" if path else str(key))
        return found
    return [] if a == b else [f"{path} is {_short(a)}, not {_short(b)}"]


def _short(x: Any) -> str:
    text = json.dumps(x, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"
