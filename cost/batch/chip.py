"""Chip descriptions: what the cores of one chip share, and the floors that the batch matmul analysis measured on it.

A description is data (``cost/batch/*.json``; users bring a JSON or TOML file, a mapping, or a :class:`Chip`), validated when it
is read. Specification 3, "符号与芯片参数约定": another chip keeps the logic and changes this table.
"""

from __future__ import annotations

import difflib
import functools
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from cost.dtypes import DType, dtype
from cost.errors import TargetError
from cost.hardware import Target, get_target, read_description

#: Operand types that the batch planner knows.
OPERANDS = ("bf16", "fp16", "fp32", "int8")
_HERE = Path(__file__).parent
#: Buffers by the names of a chip's and of a target's description.
_SAME_BUFFER = {
    "l1_bytes": "mat",
    "l0a_bytes": "l0a",
    "l0b_bytes": "l0b",
    "l0c_bytes": "l0c",
    "bias_bytes": "bias",
    "vec_bytes": "vec",
}
#: What each buffer must hold for any plan to exist: two boxes of 32 × 32 bytes' worth of the widest kind, and their sums.
_LEAST = {"l1_bytes": 16384, "l0a_bytes": 4096, "l0b_bytes": 4096, "l0c_bytes": 8192, "bias_bytes": 256, "vec_bytes": 16384}
#: The largest figures a description may give: side conditions multiply them by extents, and must not leave 64 bits.
_MOST_GM, _MOST_WHOLE, _MOST_NUMBER = 2**60, 2**40, 10**6


@dataclass(frozen=True, slots=True)
class Chip:
    """One chip. Sizes in bytes, of one core unless said otherwise; hashable; variants by :func:`dataclasses.replace`.

    ``cube_flop_per_cycle`` pairs an operand type with the floating-point operations (two a multiply-add) of one core and cycle.
    Fields marked *nominal* are not calibrated.
    """

    name: str
    core: str  #: target whose L0 rules and roofline constants one core follows
    cores: int  #: cube cores (AIC), the analysis' C
    vector_cores: int  #: vector cores (AIV)
    l1_bytes: int
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    bias_bytes: int
    vec_bytes: int  #: vector buffer (UB)
    l2_bytes: int  #: of the chip
    gm_bytes: int  #: of the chip, nominal
    l2_tb_s: float  #: L2 bandwidth of the chip, 10¹² bytes a second
    gm_tb_s: float  #: global-memory bandwidth of the chip, reads and writes together
    clock_ghz: float  #: nominal
    gm_bytes_per_cycle: float  #: what one core can draw from global memory, nominal
    l2_bytes_per_cycle: float  #: what one core can draw from L2, nominal
    vector_bytes_per_cycle: float  #: what one vector core works through, nominal
    mte2_head_cycles: float  #: cycles one transfer costs beyond its bytes, nominal: 16 KiB transfers reach 0.8 of the bandwidth
    sync_cycles: float  #: cycles of a barrier between phases on different cores, nominal
    cube_flop_per_cycle: tuple[tuple[str, float], ...]  #: nominal
    balance_flop_per_element: float  #: balance point R, FLOP per 2-byte element
    min_tile_bytes: int  #: floor of one transfer
    min_bytes_per_core: int  #: floor of what one core moves in all
    min_active_fraction: float  #: floor of busy cores in the last wave, as a fraction of all
    k_run_bytes: int  #: floor of a K panel's contiguous run (the analysis' k_thr)
    run_bytes: int  #: floor of a contiguous run (the analysis' dValue)
    stream_k_theta: int  #: K ≥ grid_K² · θ
    stream_k_min_segment: int  #: K / grid_K ≥ this
    workspace_tile_bytes: int  #: partial-sum buffer of one core
    workspace_fixed_bytes: int  #: communication area beside the partial sums, of the chip
    aliases: tuple[str, ...] = ()
    provenance: str = ""
    calibration: str = ""

    @property
    def target(self) -> Target:
        """The target description of one core, with no more memory than the chip's description gives it."""
        return _core(self)

    @property
    def min_active_cores(self) -> int:
        """minCoreNum: cores that must be busy in an uneven last wave (⌈0.8 · 32⌉ = 26)."""
        return math.ceil(Fraction(str(self.min_active_fraction)) * self.cores)

    @property
    def window(self) -> int:
        """Rows of blocks in a swizzle window: the largest divisor of ``cores`` not above its square root."""
        return max(d for d in range(1, math.isqrt(self.cores) + 1) if self.cores % d == 0)

    def flop_per_cycle(self, operand: DType) -> float:
        """Operations one cube core does in a cycle on ``operand`` elements."""
        for name, value in self.cube_flop_per_cycle:
            if name == operand.name:
                return value
        raise TargetError(f"chip {self.name}: cube_flop_per_cycle says nothing of {operand.name}; add it to the description")

    def balance_milli(self, operand: DType) -> int:
        """Balance point R of ``operand`` elements, in thousandths: R · 2 / bytes, so that a byte always buys the same FLOP."""
        return int(Fraction(str(self.balance_flop_per_element)) * 2000 / operand.bytes)

    def microseconds(self, cycles: float) -> float:
        """``cycles`` of one core's clock, in microseconds."""
        return cycles / (self.clock_ghz * 1e3)


@functools.lru_cache(maxsize=64)
def _core(chip: Chip) -> Target:
    core = get_target(chip.core)
    sizes = {theirs: min(getattr(chip, ours), core.capacity(theirs)) for ours, theirs in _SAME_BUFFER.items()}
    return replace(core, **sizes)


def chips() -> tuple[Chip, ...]:
    """The built-in chips, by name."""
    return _builtin()


@functools.cache
def _builtin() -> tuple[Chip, ...]:
    return tuple(load_chip(p) for p in sorted(_HERE.glob("*.json")))


def get_chip(chip: str | os.PathLike[str] | Mapping[str, Any] | Chip) -> Chip:
    """The chip meant by a name, an alias, the path of a description, a mapping of its fields, or a :class:`Chip`.

    Raises :class:`TargetError` for an unknown name (with the known ones) and for a description that does not hold together.
    """
    if isinstance(chip, Chip):
        return chip
    if isinstance(chip, Mapping):
        return chip_from(chip)
    if not isinstance(chip, (str, os.PathLike)):
        raise TargetError(f"a chip is a name, a path, a mapping or a Chip, not {type(chip).__name__}")
    return _found(chip, ())


def _found(chip: str | os.PathLike[str], above: tuple[str, ...]) -> Chip:
    """The chip of a name or of a file; see :func:`_load`."""
    if isinstance(chip, str):
        by_name = {n: c for c in _builtin() for n in (c.name, *c.aliases)}
        found = by_name.get(chip.strip().lower())
        if found is not None:
            return found
        if not (chip.lower().endswith((".json", ".toml")) or os.sep in chip):
            near = difflib.get_close_matches(chip.strip().lower(), by_name, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            known = ", ".join(c.name for c in _builtin())
            raise TargetError(f"unknown chip {chip!r}.{hint} Known: {known}; or the path of a .json or .toml description.")
    return _load(Path(chip), above)


def load_chip(path: str | os.PathLike[str]) -> Chip:
    """Read and validate a description (``.toml``, else JSON); :class:`TargetError` names the file and the field."""
    return _load(Path(path), ())


def _load(path: Path, above: tuple[str, ...]) -> Chip:
    """The chip of a description; ``above`` are the files whose base it is."""
    real = os.path.realpath(path)
    if real in above:
        raise TargetError(f"{path}: its base leads back to itself; name a built-in chip: {', '.join(c.name for c in _builtin())}")
    return _chip_from(read_description(path, "chip"), str(path), (*above, real))


def chip_from(data: object, where: str = "<chip>") -> Chip:
    """A :class:`Chip` from the plain data of a description; ``base`` names a chip whose fields hold where it is silent."""
    return _chip_from(data, where, ())


def _chip_from(data: object, where: str, above: tuple[str, ...]) -> Chip:
    if not isinstance(data, Mapping):
        raise TargetError(f"{where}: a chip description must be a table of fields, not {type(data).__name__}")
    data = dict(data)
    if "base" in data:
        data = describe(_found(str(data.pop("base")), above)) | {"aliases": []} | data
    kinds = {f.name: str(f.type) for f in fields(Chip)}
    for key in data:
        if key not in kinds:
            near = difflib.get_close_matches(str(key), kinds, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(kinds)}"
            raise TargetError(f"{where}: {key} is no field of a chip description{hint}")
    values = {name: _field(data, name, kind, where) for name, kind in kinds.items()}
    chip = Chip(**values)
    _check(chip, where)
    return chip


def describe(chip: Chip) -> dict[str, Any]:
    """``chip`` as the plain data of a description: ``chip_from(describe(c)) == c``."""
    data = {f.name: getattr(chip, f.name) for f in fields(Chip)}
    return data | {"cube_flop_per_cycle": dict(chip.cube_flop_per_cycle), "aliases": list(chip.aliases)}


def _field(data: Mapping[str, Any], name: str, kind: str, where: str) -> Any:
    """One field of a description, checked against its annotation."""
    if name == "aliases":
        words = data.get(name, [])
        if not isinstance(words, (list, tuple)) or not all(isinstance(w, str) for w in words):
            raise TargetError(f"{where}: aliases must be a list of texts, not {words!r}")
        return tuple(words)
    if name == "cube_flop_per_cycle":
        table = data.get(name)
        if not isinstance(table, Mapping) or not table:
            raise TargetError(f"{where}: cube_flop_per_cycle must be a table of element types, not {table!r}")
        return tuple((dtype(str(k)).name, _number(v, f"{name}.{k}", False, where)) for k, v in table.items())
    if kind == "str":
        text = data.get(name, "" if name in ("provenance", "calibration") else None)
        if not isinstance(text, str):
            raise TargetError(f"{where}: {name} must be a text, not {text!r}")
        return text
    if name not in data:
        raise TargetError(f"{where}: {name} is missing")
    return _number(data[name], name, kind == "int", where)


def _number(value: Any, name: str, whole: bool, where: str) -> float:
    kind = "a whole number" if whole else "a number"
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise TargetError(f"{where}: {name} must be {kind}, not {value!r}")
    if (
        not (isinstance(value, int) or math.isfinite(value))
        or value < 0
        or (value == 0 and not name.endswith(("head_cycles", "sync_cycles")))
    ):
        raise TargetError(f"{where}: {name} must be positive, not {value!r}")
    most = _MOST_GM if name == "gm_bytes" else _MOST_WHOLE if whole else _MOST_NUMBER
    if value > most:
        raise TargetError(f"{where}: {name} is {value!r}, more than the {most} that can be planned with")
    return value


def _check(chip: Chip, where: str) -> None:
    """The description must agree with its core's, and its fractions with themselves."""
    target = chip.target
    for ours, theirs in (
        ("l1_bytes", "mat"),
        ("l0a_bytes", "l0a"),
        ("l0b_bytes", "l0b"),
        ("l0c_bytes", "l0c"),
        ("bias_bytes", "bias"),
    ):
        here, there = getattr(chip, ours), target.capacity(theirs)
        if here > there and ours != "vec_bytes":  # of the vector buffer a target counts the usable part
            raise TargetError(f"{where}: {ours} is {here}, but a core of {target.name} has {there}; name another `core`")
    for name, least in _LEAST.items():
        if getattr(chip, name) < least:
            raise TargetError(f"{where}: {name} is {getattr(chip, name)}, too little for the smallest tiles; at least {least}")
    if chip.min_active_fraction > 1:
        raise TargetError(
            f"{where}: min_active_fraction is {chip.min_active_fraction}, a fraction of the cores must be at most 1"
        )
