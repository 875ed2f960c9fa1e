"""Hardware descriptions: what one core of a target holds, what it may do, what its roofline constants are.

A description is data (``cost/data/*.json``; users bring a TOML or JSON file, or a :class:`Target`), validated when it is read.
The fields are explained, with units and provenance, in ``docs/hardware.md``.
"""

from __future__ import annotations

import difflib
import functools
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cost.dtypes import DTYPES, DType
from cost.errors import TargetError

#: Buffers of one core, by the names of a description's ``bytes`` table.
BUFFERS = ("l0a", "l0b", "l0c", "mat", "bias", "vec")
DATA = Path(__file__).with_name("data")

#: No description is longer, in bytes.
MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Roofline:
    """Calibrated constants of the roofline model (specification 1, "Cost model & design space")."""

    bw_l0a: float  #: bytes per cycle, Mat to L0A
    bw_l0b: float  #: bytes per cycle, Mat to L0B
    bw_drain: float  #: bytes per cycle, out of L0C
    drain_fixed: float  #: cycles per output tile
    drain_row: float  #: cycles per row of an output tile, the floor
    drain_penalty: float  #: cycles per row and extra odd pass
    drain_c0_bytes: int  #: bytes of one accumulator fractal row
    mad_head: float  #: cycles per cube instruction
    mad_k_fractal_bytes: int  #: bytes of K that one fractal step takes
    mad_fp32_passes: float  #: factor on the fractal count for 4-byte operands


@dataclass(frozen=True, slots=True)
class Machine:
    """Nominal figures, *not calibrated*: for the simulator, for transfers of placements, for cycles as seconds; in no wall."""

    clock_ghz: float
    cube_cores: int
    gm_bytes_per_cycle: float  #: bytes per cycle and core, global memory to the core and back
    gm_latency_cycles: float  #: cycles before the first byte of a global-memory transfer
    mte3_bytes_per_cycle: float  #: bytes per cycle, Vec to global memory
    vec_bytes_per_cycle: float  #: bytes per cycle that the vector unit works through
    acc_vec_crossing_bytes_per_cycle: float  #: bytes per cycle between the cube's and the vector unit's buffers
    l2_bytes_per_cycle: float | None = None  #: bytes per cycle and core from L2, where it is known


@dataclass(frozen=True, slots=True)
class Target:
    """One core of an Ascend chip. Hashable; make variants with :func:`dataclasses.replace`.

    Capacities are bytes per buffer of one core. ``l0c_row_align_by_dtype`` pairs an accumulator type with the rows an
    L0C allocation is rounded up to ("default" for the others). ``allocation_align`` pairs a buffer with the bytes that the
    size of an allocation is rounded up to.
    """

    name: str
    l0a: int
    l0b: int
    l0c: int
    mat: int
    bias: int
    vec: int
    roofline: Roofline
    machine: Machine
    aliases: tuple[str, ...] = ()
    l0c_row_align_by_dtype: tuple[tuple[str, int], ...] = (("default", 16),)
    allocation_align: tuple[tuple[str, int], ...] = tuple((b, 1) for b in BUFFERS)
    mat_scratch_needs_low_precision: bool = False
    mat_to_bias: tuple[tuple[str, str], ...] = ()
    acc_to_gm_types: tuple[str, ...] = ()
    fractal: int = 16  #: granularity of tile extents, in elements
    min_tile: int = 16  #: smallest tile extent, in elements
    calibration: str = ""
    provenance: str = ""
    notes: str = ""

    def __post_init__(self) -> None:
        for name in ("fractal", "min_tile"):
            if getattr(self, name) != 16:
                value = getattr(self, name)
                raise TargetError(f"target {self.name}: {name} = {value}, but tiles are cut in fractals of 16 elements")

    def capacity(self, buffer: str) -> int:
        """Bytes of ``buffer`` (one of :data:`BUFFERS`)."""
        if buffer not in BUFFERS:
            raise TargetError(f"unknown buffer {buffer!r}; known: {', '.join(BUFFERS)}")
        size: int = getattr(self, buffer)
        return size

    def l0c_row_align(self, accumulator: str | DType) -> int:
        """Rows that an L0C allocation of ``accumulator`` elements is rounded up to (int32 on ascend910b: 32)."""
        name = accumulator.name if isinstance(accumulator, DType) else accumulator
        default = 16
        for key, rows in self.l0c_row_align_by_dtype:
            if key == name:
                return rows
            if key == "default":
                default = rows
        return default

    def allocation_alignment(self, buffer: str) -> int:
        """Bytes that an allocation in ``buffer`` is rounded up to."""
        for key, align in self.allocation_align:
            if key == buffer:
                return align
        return 1

    def supports_mat_to_bias(self, src: str | DType, dst: str | DType) -> bool:
        """May a move from Mat to the bias table turn ``src`` elements into ``dst`` elements?"""
        return (str(src), str(dst)) in self.mat_to_bias

    def __str__(self) -> str:
        return self.name


# -- looking targets up ----------------------------------------------------------------------------------------------


def targets() -> tuple[Target, ...]:
    """The built-in targets, in the order of their names."""
    return _builtin()


def get_target(target: str | os.PathLike[str] | Target) -> Target:
    """The target meant by a name, an alias (in any case), a path to a description, or a :class:`Target`, which is returned as is.

    Raises :class:`TargetError` for an unknown name, with the known ones and the nearest.
    """
    if isinstance(target, Target):
        return target
    if isinstance(target, str):
        found = _by_name().get(target.strip().lower())
        if found is not None:
            return found
        if not (target.lower().endswith((".json", ".toml")) or os.sep in target):
            raise TargetError(_unknown(target))
    elif not isinstance(target, os.PathLike):
        raise TargetError(f"a target is a name, a path or a Target, not {type(target).__name__}")
    return load_target(target)


@functools.cache
def _builtin() -> tuple[Target, ...]:
    return tuple(load_target(p) for p in sorted(DATA.glob("*.json")))


@functools.cache
def _by_name() -> dict[str, Target]:
    return {name.lower(): t for t in _builtin() for name in (t.name, *t.aliases)}


def _unknown(name: str) -> str:
    known = "; ".join(f"{t.name} ({', '.join(t.aliases)})" if t.aliases else t.name for t in _builtin())
    near = difflib.get_close_matches(name.strip().lower(), _by_name(), n=1)
    hint = f" Did you mean {_by_name()[near[0]].name!r}?" if near else ""
    return f"unknown target {name!r}.{hint} Known: {known}; or the path of a .json or .toml description."


# -- reading descriptions --------------------------------------------------------------------------------------------


def load_target(path: str | os.PathLike[str]) -> Target:
    """Read and validate a description (``.toml``, else JSON); :class:`TargetError` names the file and the field."""
    where = Path(path)
    return target_from(read_description(where, "target"), str(where))


def read_description(where: Path, what: str) -> Any:
    """The plain data of a description of a ``what`` ("target", "chip") in a TOML or JSON file. Raises :class:`TargetError`."""
    try:
        with where.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as e:
        raise TargetError(f"cannot read the {what} description {where}: {e.strerror or e}") from e
    if len(raw) > MAX_BYTES:
        raise TargetError(f"{where} is longer than {MAX_BYTES} bytes, which no {what} description is")
    try:
        text = raw.decode("utf-8")
        if where.suffix.lower() == ".toml":
            import tomllib

            return tomllib.loads(text)
        return json.loads(text)
    except (ValueError, RecursionError) as e:  # JSON, TOML and UTF-8 errors are all ValueErrors
        raise TargetError(f"the {what} description {where} is not valid {where.suffix[1:].upper() or 'JSON'}: {e}") from e


def target_from(data: object, where: str = "<data>") -> Target:
    """A :class:`Target` from a description as plain data (the structure of ``cost/data/*.json``), validated.

    A ``base`` field names a built-in target whose fields hold where the description says nothing. Raises :class:`TargetError`.
    """
    r = _Reader(where)
    top = r.table(data, "")
    if "base" in top:
        name = r.text(top, "base")
        base = _by_name().get(name.strip().lower())
        if base is None:
            raise r.fail("base", f"must be a built-in target: {_unknown(name)}")
        top = _overlay(describe(base) | {"aliases": []}, top)
    r.known(top, "", _TOP)
    sizes = r.numbers(top, "bytes", BUFFERS, whole=True)
    aligns = r.numbers(top, "allocation_align_bytes", BUFFERS, whole=True, optional=BUFFERS)
    rows = r.numbers(top, "l0c_row_align", ("default", *DTYPES), whole=True, optional=("default", *DTYPES))
    machine_fields = tuple(f.name for f in fields(Machine))
    machine = r.numbers(top, "machine", machine_fields, whole=("cube_cores",), optional=("l2_bytes_per_cycle",))
    constants = tuple(f.name for f in fields(Roofline))
    roofline = r.numbers(top, "roofline", constants, whole=("drain_c0_bytes", "mad_k_fractal_bytes"), zero=_MAY_BE_ZERO)
    return Target(
        name=r.text(top, "name"),
        aliases=tuple(r.words(top, "aliases")),
        **{b: int(sizes[b]) for b in BUFFERS},
        roofline=Roofline(**roofline),  # type: ignore[arg-type]
        machine=Machine(**machine),  # type: ignore[arg-type]
        l0c_row_align_by_dtype=tuple((k, int(v)) for k, v in rows.items()) or (("default", 16),),
        allocation_align=tuple((b, int(aligns.get(b, 1))) for b in BUFFERS),
        mat_scratch_needs_low_precision=r.flag(top, "mat_scratch_needs_low_precision"),
        mat_to_bias=tuple(r.pairs(top, "mat_to_bias")),
        acc_to_gm_types=tuple(r.words(top, "acc_to_gm_types", among=DTYPES)),
        fractal=int(r.number(top, "fractal", whole=True, default=16)),
        min_tile=int(r.number(top, "min_tile", whole=True, default=16)),
        calibration=r.text(top, "calibration", default=""),
        provenance=r.text(top, "provenance", default=""),
        notes=r.text(top, "notes", default=""),
    )


def describe(target: Target) -> dict[str, Any]:
    """``target`` as the plain data of a description file: ``target_from(describe(t)) == t``."""
    tables = {
        "roofline": {f.name: getattr(target.roofline, f.name) for f in fields(Roofline)},
        "machine": {f.name: v for f in fields(Machine) if (v := getattr(target.machine, f.name)) is not None},
    }
    return {
        "name": target.name,
        "aliases": list(target.aliases),
        "provenance": target.provenance,
        "calibration": target.calibration,
        "notes": target.notes,
        "fractal": target.fractal,
        "min_tile": target.min_tile,
        "bytes": {b: target.capacity(b) for b in BUFFERS},
        "allocation_align_bytes": dict(target.allocation_align),
        "l0c_row_align": dict(target.l0c_row_align_by_dtype),
        "mat_scratch_needs_low_precision": target.mat_scratch_needs_low_precision,
        "mat_to_bias": [list(p) for p in target.mat_to_bias],
        "acc_to_gm_types": list(target.acc_to_gm_types),
    } | tables


_TOP = (
    *("name", "base", "aliases", "provenance", "calibration", "notes", "fractal", "min_tile", "bytes", "allocation_align_bytes"),
    *("l0c_row_align", "mat_scratch_needs_low_precision", "mat_to_bias", "acc_to_gm_types", "roofline", "machine"),
)
_MAY_BE_ZERO = ("drain_fixed", "drain_row", "drain_penalty", "mad_head")


def _overlay(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``under`` with the fields of ``over`` on top, tables merged field by field."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = below | dict(value) if isinstance(below, dict) and isinstance(value, Mapping) else value
    return merged


class _Reader:
    """Reads fields of a description; every complaint names the file and the field."""

    def __init__(self, where: str) -> None:
        self.where = where

    def fail(self, field: str, problem: str) -> TargetError:
        return TargetError(f"{self.where}: {field or 'the description'} {problem}")

    def table(self, value: object, field: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(field, f"must be a table of fields, not {type(value).__name__}")
        return value

    def known(self, table: Mapping[str, Any], prefix: str, names: Iterable[str]) -> None:
        names = tuple(names)
        for key in table:
            if key not in names:
                near = difflib.get_close_matches(str(key), names, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(names)}"
                raise self.fail(f"{prefix}{key}", f"is no field of a target description{hint}")

    def value(self, table: Mapping[str, Any], name: str) -> Any:
        if name not in table:
            raise self.fail(name, "is missing")
        return table[name]

    def text(self, table: Mapping[str, Any], name: str, default: str | None = None) -> str:
        value = self.value(table, name) if default is None else table.get(name, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise self.fail(name, f"must be a text, not {value!r}")
        return value

    def flag(self, table: Mapping[str, Any], name: str) -> bool:
        value = table.get(name, False)
        if not isinstance(value, bool):
            raise self.fail(name, f"must be true or false, not {value!r}")
        return value

    def number(
        self, table: Mapping[str, Any], name: str, *, field: str = "", whole: bool, zero: bool = False, default: int | None = None
    ) -> float:
        """A positive number (``zero``: or 0); with ``whole`` an integer."""
        field = field or name
        if name not in table and default is None:
            raise self.fail(field, "is missing")
        value = table.get(name, default)
        kind = "a whole number" if whole else "a number"
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            raise self.fail(field, f"must be {kind}, not {value!r}")
        if isinstance(value, int) and abs(value) > 1 << 53:
            raise self.fail(field, "is larger than 2 to the 53")
        if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
            raise self.fail(field, f"must be {'at least 0' if zero else 'positive'}, not {value!r}")
        return value

    def numbers(
        self,
        top: Mapping[str, Any],
        name: str,
        names: tuple[str, ...],
        *,
        whole: bool | tuple[str, ...] = False,
        optional: tuple[str, ...] = (),
        zero: tuple[str, ...] = (),
    ) -> dict[str, float]:
        """The table ``name`` of numbers called ``names``, in the order of ``names``."""
        if name not in top and set(optional) >= set(names):
            return {}
        table = self.table(self.value(top, name), name)
        self.known(table, f"{name}.", names)
        return {
            key: self.number(
                table,
                key,
                field=f"{name}.{key}",
                whole=whole if isinstance(whole, bool) else key in whole,
                zero=key in zero,
            )
            for key in names
            if key in table or key not in optional
        }

    def words(self, top: Mapping[str, Any], name: str, among: Iterable[str] | None = None) -> list[str]:
        value = top.get(name, [])
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.fail(name, f"must be a list of texts, not {value!r}")
        for v in value:
            if among is not None and v not in among:
                raise self.fail(name, f"holds {v!r}, which is no element type")
        return value

    def pairs(self, top: Mapping[str, Any], name: str) -> list[tuple[str, str]]:
        value = top.get(name, [])
        if not isinstance(value, list):
            raise self.fail(name, f"must be a list of [from, to] element types, not {value!r}")
        found = []
        for v in value:
            if not isinstance(v, list) or len(v) != 2 or not all(isinstance(t, str) and t in DTYPES for t in v):
                raise self.fail(name, f"must hold pairs of element types, not {v!r}")
            found.append((v[0], v[1]))
        return found
