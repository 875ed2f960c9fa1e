"""Where an operand must be, and where a load can put it: both derived from the op table, never written a second time.

    demanded        a load lands in      the last hop
    Vec             Vec                  none
    Mat             Mat                  none
    Left, Right,    Mat                  placed after tiling
    Bias, scales
    Acc             nowhere: an accumulator is created in L0C

(Specification 2, "the space a bridge load lands in".) An :class:`OperandSpace` can't be made from a memory space: the only way to
one is :func:`operand_space`, which reads the declarations of the operations that will consume the operand.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass

from cost.errors import TilesatError
from ir_bridge.ir.ops import lookup
from ir_bridge.ir.types import Space

#: Where MTE2 puts what is demanded in each space; a space that is missing can't be loaded.
LANDING = {
    Space.VEC: Space.VEC,
    Space.MAT: Space.MAT,
    Space.LEFT: Space.MAT,
    Space.RIGHT: Space.MAT,
    Space.BIAS: Space.MAT,
    Space.LEFT_SCALE: Space.MAT,
    Space.RIGHT_SCALE: Space.MAT,
}

_DERIVED = object()


class RegistryError(TilesatError):
    """A conversion that names an operation the op table does not have, or whose operand has no space declared."""


@dataclass(frozen=True, slots=True)
class OperandSpace:
    """The space an operand must end in (``space``), and those it may stand in until then (``allowed``)."""

    space: Space
    allowed: tuple[Space, ...]
    proof: InitVar[object]

    def __post_init__(self, proof: object) -> None:
        if proof is not _DERIVED:
            raise RegistryError("an OperandSpace is derived from the op table: use operand_space([...], index)")

    @property
    def landing(self) -> Space | None:
        """Where a load for this operand lands; None for an accumulator."""
        return LANDING.get(self.space)


def operand_space(operations: tuple[str, ...], index: int) -> OperandSpace:
    """What every one of ``operations`` demands of operand ``index``.

    Raises :class:`RegistryError` when an operation is unknown, declares no space for the operand, or two of them disagree.
    """
    found: tuple[Space, ...] | None = None
    for name in operations:
        op = lookup(name)
        if op is None:
            raise RegistryError(f"a conversion feeds {name!r}, which the op table does not have")
        spaces = op.spaces_of(index)
        if not spaces:
            raise RegistryError(f"{name} declares no memory space for operand {index}; declare it in the op table")
        if found is not None and spaces != found:
            raise RegistryError(f"{' and '.join(operations)} demand different spaces of operand {index}: {found} and {spaces}")
        found = spaces
    if found is None:
        raise RegistryError("a conversion must name the operations that consume its operand")
    return OperandSpace(found[0], found, _DERIVED)
