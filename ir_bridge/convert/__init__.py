"""Tensor programs to tile programs: specification 2, ConvertTensorToTileOps.

``convert(program, target)`` turns InCore, AIC and AIV functions on tensors into tile programs and updates their callers, in three
phases: the functions themselves (:mod:`.incore`), the wrappers that forward new outputs, and the callers that allocate them
(:mod:`.calls`). How each operation converts is registered in the ``ops_*`` files (:mod:`.registry`).
"""

from __future__ import annotations

from ir_bridge.convert.driver import convert, needs_conversion
from ir_bridge.convert.errors import ConvertError

__all__ = ["ConvertError", "convert", "needs_conversion"]
