"""The user's own corpora: a folder of PyPTO programs, a CSV of shapes.

A file or row that makes no sense becomes an entry that says so: the rest of the corpus is of use without it.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import os
from pathlib import Path

from cost.dtypes import dtype
from cost.errors import TilesatError
from cost.hardware import Target, get_target
from cost.physical import align_up
from tilesat.corpus import programs, shapes
from tilesat.corpus.entries import Corpus, CorpusError, Entry

#: Columns of a CSV of shapes: these must be there, those may.
NEEDED, MORE = ("M", "N", "K"), ("dtype", "name", "source", "split_k_total")
#: No extent of a product is larger.
LARGEST = 1 << 31
#: No table of shapes is longer, in bytes.
MAX_BYTES = 1 << 22


def from_folder(path: str | os.PathLike[str]) -> Corpus:
    """Every ``*.py`` file below a folder, in the order of their names."""
    where = Path(path)
    files = sorted(p for p in where.rglob("*.py") if not p.is_dir() and "__pycache__" not in p.parts)
    if not files:
        raise CorpusError(f"{where}: no .py file in this folder; a corpus folder holds PyPTO programs")
    return Corpus(where.name or str(where), tuple(_file(p, where) for p in files))


def _file(path: Path, folder: Path) -> Entry:
    name = path.relative_to(folder).with_suffix("").as_posix()
    try:
        return Entry(name, str(path), path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as e:
        return Entry(name, str(path), error=f"{path} cannot be read: {_why(e)}")


def _why(error: OSError | UnicodeDecodeError) -> str:
    return "it is no UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror or str(error)


def from_csv(path: str | os.PathLike[str], target: str | os.PathLike[str] | Target = "ascend910b") -> Corpus:
    """Shapes from a CSV file with columns M, N, K and optionally dtype (bf16), name, source, split_k_total.

    Extents are padded up to their physical boxes; a product whose operands do not fit Mat together is cut to one core of
    ``target`` (:func:`tilesat.corpus.cut_to_core`).
    """
    where, chip = Path(path), get_target(target)
    lines = [(number, line) for number, line in enumerate(io.StringIO(_text(where), newline=None), 1) if line.strip()]
    try:
        header = _fields(lines[0][1]) if lines else []
    except CorpusError as e:
        raise CorpusError(f"{where}: {e}; give a CSV of shapes") from e
    _check_header(where, header)
    entries: dict[str, Entry] = {}
    for number, line in lines[1:]:
        made = _row(where, number, header, line, chip)
        name, again = made.name, 1
        while name in entries:
            again += 1
            name = f"{made.name} ({again})"
        entries[name] = dataclasses.replace(made, name=name)
    if not entries:
        raise CorpusError(f"{where}: has a header but no row")
    return Corpus(where.stem, tuple(entries.values()))


def _text(where: Path) -> str:
    """The text of a CSV file, with what is no UTF-8 in it as lone surrogates; CorpusError says why it cannot be had."""
    try:
        with where.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as e:
        raise CorpusError(f"{where}: cannot be read: {e.strerror or e}") from e
    if len(data) > MAX_BYTES:
        raise CorpusError(f"{where}: is longer than {MAX_BYTES} bytes; give a smaller table of shapes")
    return data.decode("utf-8-sig", errors="surrogateescape")


def _fields(line: str) -> list[str]:
    """The fields of one line, for a row ends where its line does: a quote that is not closed spoils no other row."""
    strange = next((c for c in line if 0xDC80 <= ord(c) <= 0xDCFF), None)
    if strange is not None:
        raise CorpusError(f"is no UTF-8 text (byte 0x{ord(strange) - 0xDC00:02x})")
    try:
        (fields,) = csv.reader([line.rstrip("\r\n")], skipinitialspace=True, strict=True)
    except csv.Error as e:
        raise CorpusError(f"cannot be read: {e}") from e
    return [f.strip() for f in fields]


def _check_header(where: Path, header: list[str]) -> None:
    missing = [c for c in NEEDED if c not in header]
    strange = [c for c in header if c not in (*NEEDED, *MORE)]
    if missing or strange:
        what = f"has no column {', '.join(missing)}" if missing else f"has columns that mean nothing: {', '.join(strange)}"
        raise CorpusError(f"{where}: {what}; columns are {', '.join(NEEDED)} and optionally {', '.join(MORE)}")


def _row(where: Path, line: int, header: list[str], text: str, target: Target) -> Entry:
    """One row as an entry; what is wrong with it becomes the entry's error."""
    place = f"{where.name} line {line}"
    name = ""
    try:
        fields = _fields(text)
        row = dict(zip(header, fields, strict=False))
        name = row.get("name", "")
        if len(fields) != len(header):
            raise CorpusError(f"has {len(fields)} fields, not {len(header)} as the header")
        M, N, K = (_extent(c, row[c]) for c in NEEDED)
        operand, source = row.get("dtype") or "bf16", row.get("source") or place
        total = row.get("split_k_total")
        return _shape(M, N, K, operand, _extent("split_k_total", total) if total else 0, source, name, target)
    except TilesatError as e:
        return Entry(name or place, place, error=f"{place}: {e}")


def _extent(column: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(LARGEST)) or not 1 <= int(text) < LARGEST:
        shown = text if len(text) <= 40 else text[:37] + "…"
        raise CorpusError(f"{column} = {shown!r} is no extent: give a whole number from 1 to {LARGEST - 1}")
    return int(text)


def _shape(M: int, N: int, K: int, operand: str, total: int, source: str, name: str, target: Target) -> Entry:
    element = dtype(operand)
    if element.bits < 8:
        raise CorpusError(f"{element} operands are narrower than a byte, which the cube path does not support")
    box_m, box_n, box_k = shapes.boxes(element)
    m, n, k = align_up(M, box_m), align_up(N, box_n), align_up(K, box_k)
    if total:
        if total % k:
            raise CorpusError(f"split_k_total = {total} is no multiple of K = {k}")
        return Entry(name or f"tile-{m}x{n}x{k}-{element}-of-{total}", source, str(programs.split_k(m, n, k, total, element)))
    if not shapes.fits_mat(m, n, k, element, target):
        m, n, k = shapes.cut_to_core(M, N, K, element, target)
    return shapes.shape(m, n, k, element, source, name)
