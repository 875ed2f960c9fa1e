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
    files = sorted(p for p in where.rglob("*.py") if p.is_file() and "__pycache__" not in p.parts)
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
    try:
        reader = csv.DictReader(io.StringIO(_text(where), newline=""), skipinitialspace=True)
        header = [(c or "").strip() for c in reader.fieldnames or ()]
        _check_header(where, header)
        reader.fieldnames = header
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as e:
        raise CorpusError(f"{where}: cannot be read as a CSV of shapes: {e}") from e
    entries: dict[str, Entry] = {}
    for number, row in rows:
        made = _row(where, number, row, chip)
        name, again = made.name, 1
        while name in entries:
            again += 1
            name = f"{made.name} ({again})"
        entries[name] = dataclasses.replace(made, name=name)
    if not entries:
        raise CorpusError(f"{where}: has a header but no row")
    return Corpus(where.stem, tuple(entries.values()))


def _text(where: Path) -> str:
    """The text of a CSV file; CorpusError says why it cannot be had."""
    try:
        with where.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as e:
        raise CorpusError(f"{where}: cannot be read: {e.strerror or e}") from e
    if len(data) > MAX_BYTES:
        raise CorpusError(f"{where}: is longer than {MAX_BYTES} bytes; give a smaller table of shapes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise CorpusError(f"{where}: is no UTF-8 text (byte 0x{data[e.start]:02x}); give a CSV of shapes") from e


def _check_header(where: Path, header: list[str]) -> None:
    missing = [c for c in NEEDED if c not in header]
    strange = [c for c in header if c not in (*NEEDED, *MORE)]
    if missing or strange:
        what = f"has no column {', '.join(missing)}" if missing else f"has columns that mean nothing: {', '.join(strange)}"
        raise CorpusError(f"{where}: {what}; columns are {', '.join(NEEDED)} and optionally {', '.join(MORE)}")


def _row(where: Path, line: int, row: dict[str | None, str | None], target: Target) -> Entry:
    """One row as an entry; what is wrong with it becomes the entry's error."""
    place = f"{where.name} line {line}"
    name = (row.get("name") or "").strip()
    try:
        if None in row or None in row.values():
            raise CorpusError("has not as many fields as the header")
        M, N, K = (_extent(c, row.get(c)) for c in NEEDED)
        operand = (row.get("dtype") or "bf16").strip()
        source = (row.get("source") or "").strip() or place
        total = (row.get("split_k_total") or "").strip()
        return _shape(M, N, K, operand, _extent("split_k_total", total) if total else 0, source, name, target)
    except TilesatError as e:
        return Entry(name or place, place, error=f"{place}: {e}")


def _extent(column: str, value: str | None) -> int:
    text = (value or "").strip()
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) < LARGEST:
        raise CorpusError(f"{column} = {text!r} is no extent: give a whole number from 1 to {LARGEST - 1}")
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
