"""``verify``: is a program well formed, and does it fit a target?

Checks: SSA, scoping and structure (``verifier_scope``); types, operand spaces, transfers and fractal boxes (``verifier_types``);
windows of tensors (``verifier_windows``); the bytes live in every buffer at every point (``verifier_memory``).
"""

from __future__ import annotations

import os

from cost.hardware import Target, get_target
from ir_bridge.ir.nodes import Program
from ir_bridge.ir.verifier_findings import KINDS, Finding, Report, VerifyError
from ir_bridge.ir.verifier_memory import describe_overflow, overflows
from ir_bridge.ir.verifier_scope import check_scopes
from ir_bridge.ir.verifier_types import check_types
from ir_bridge.ir.verifier_windows import check_windows

__all__ = ["KINDS", "Finding", "VerifyError", "verify"]


def verify(
    program: Program, target: str | os.PathLike[str] | Target = "ascend910b", *, raise_: bool = False
) -> tuple[Finding, ...]:
    """Everything that is wrong with ``program`` on ``target``, in program order; an empty tuple when nothing is.

    With ``raise_`` any finding raises :class:`VerifyError` instead.
    """
    hardware = get_target(target)
    found: list[Finding] = []
    names: set[str] = set()
    for f in program.functions:
        report = Report(f.name)
        if f.name in names:
            report.add("structure", f.name, f"two functions are called {f.name!r}", f.loc)
        names.add(f.name)
        check_scopes(program, f, report)
        check_types(f, hardware, report)
        check_windows(f, report)
        for o in overflows(f, hardware):
            report.add("capacity", o.buffer, describe_overflow(o), o.loc)
        found.extend(report.findings)
    if found and raise_:
        raise VerifyError(tuple(found))
    return tuple(found)
