"""What the verifier reports: findings with a place, and the error they can be raised as."""

from __future__ import annotations

from dataclasses import dataclass

from cost.errors import TilesatError
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import NOWHERE, Const, Expr, Loc, Var

#: Every kind of finding, and what it says.
KINDS = {
    "ssa": "a value is used where it is not defined, or defined twice",
    "structure": "a yield, return or branch that does not fit the block it ends",
    "call": "a call of a sibling function that does not fit it",
    "type": "a value's type is not what its operation gives, or operands do not agree",
    "space": "an operand or a transfer is in a memory space where it cannot be",
    "bounds": "a window by which a tile is loaded or stored reaches beyond its tensor",
    "box": "a tile is not a whole number of fractal boxes",
    "capacity": "more bytes are live in a buffer than it has",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: its ``code`` (a key of :data:`KINDS`), what, and where.

    ``subject`` is what it is about, in terms that outlive a rewrite: the buffer that overflows, the operation, the space.
    """

    code: str
    message: str
    function: str
    loc: Loc = NOWHERE
    severity: str = "error"
    subject: str = ""

    @property
    def where(self) -> str:
        """The function and the place in the source text."""
        return f"{self.function}, {self.loc}"

    @property
    def key(self) -> tuple[str, str, str]:
        """What two findings of a program and its rewritten form have in common: code, function, subject."""
        return (self.code, self.function, self.subject)

    def __str__(self) -> str:
        return f"[{self.code}] {self.message} [{self.where}]"


class VerifyError(TilesatError):
    """A program that does not verify; ``findings`` holds everything that was found."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        shown = [str(f) for f in findings[:20]]
        if len(findings) > 20:
            shown.append(f"... and {len(findings) - 20} more")
        super().__init__("the program does not verify:\n  " + "\n  ".join(shown))
        self.findings = findings


class Report:
    """Collects the findings of one function."""

    def __init__(self, function: str) -> None:
        self.function = base_name(function)
        self.findings: list[Finding] = []

    def add(self, code: str, subject: str, message: str, loc: Loc) -> None:
        self.findings.append(Finding(code, message, self.function, loc, subject=subject))


def shown(e: Expr) -> str:
    """An operand as messages name it."""
    if isinstance(e, Var):
        return f"'{base_name(e.name)}'"
    return repr(e.value) if isinstance(e, Const) else "an expression"
