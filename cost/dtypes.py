"""Element types of the cube and vector units: name, width, kind (source: facts/pypto_syntax.md, "Types")."""

from __future__ import annotations

from dataclasses import dataclass

from cost.errors import TilesatError, suggestion


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    ``name`` is the lower-case name of the API ("bf16"), ``spelling`` PyPTO's ("BF16"); ``bits`` the
    width of one element; ``kind`` one of "float", "int", "uint", "bool", "index".
    """

    name: str
    spelling: str
    bits: int
    kind: str

    @property
    def bytes(self) -> int:
        """Bytes of one element; a sub-byte type counts as one (it never reaches a cube buffer)."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    def footprint(self, elements: int) -> int:
        """Bytes that ``elements`` packed elements take (sub-byte types pack two to a byte)."""
        return (elements * self.bits + 7) // 8

    def __str__(self) -> str:
        return self.name


_TABLE = {
    "float": {"FP4": 4, "HF4": 4, "FP8E4M3FN": 8, "FP8E5M2": 8, "FP8E8M0": 8, "HF8": 8, "FP16": 16, "BF16": 16, "FP32": 32},
    "int": {"INT4": 4, "INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64},
    "uint": {"UINT4": 4, "UINT8": 8, "UINT16": 16, "UINT32": 32, "UINT64": 64},
    "bool": {"BOOL": 8},
    "index": {"INDEX": 64},
}

DTYPES: dict[str, DType] = {
    spelling.lower(): DType(spelling.lower(), spelling, bits, kind)
    for kind, row in _TABLE.items()
    for spelling, bits in row.items()
}

FP32 = DTYPES["fp32"]
FP16 = DTYPES["fp16"]
BF16 = DTYPES["bf16"]
INT8 = DTYPES["int8"]
INT32 = DTYPES["int32"]
INT64 = DTYPES["int64"]
BOOL = DTYPES["bool"]
INDEX = DTYPES["index"]


def dtype(name: str | DType) -> DType:
    """The element type called ``name`` ("bf16", "BF16"); raises :class:`TilesatError` listing the known ones."""
    if isinstance(name, DType):
        return name
    found = DTYPES.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        raise TilesatError(f"unknown element type {name!r}.{suggestion(str(name).lower(), DTYPES)} Known: {', '.join(DTYPES)}")
    return found


def accumulator(operand: DType) -> DType:
    """The accumulator a cube product of ``operand`` elements is summed in: fp32 for floats, int32 for integers."""
    return FP32 if operand.is_float else INT32
