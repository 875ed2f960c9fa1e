"""Two spaces: a value that cube and vector work both want is loaded twice, or loaded once and moved.

    At(v, Mat) = Load(v, Mat) = Move(At(v, Vec))

Cast for either: a product that is cast, and wanted so by cube and vector work, is cast on the vector unit and moved back, or
cast by FIXPIPE on its way into Mat beside the vector cast.

    At(cast(c), Mat) = Move(At(cast(c), Vec)) = FixpipeCast(c)
"""

from __future__ import annotations

from collections.abc import Iterator

from egraph_rules.placement.language import (
    At,
    FixpipeCast,
    Load,
    Move,
    VectorCast,
    fetched,
    fixpipe_casts,
    product_cast,
    same_size,
    wanted,
)
from egraph_rules.rule import Rule, Text, family, rule, union, variables

_V, _SOURCE, _DTYPE, _MODE = variables("v source dtype mode")


@family("two_spaces")
def TWO_SPACES() -> Iterator[Rule]:
    """A value wanted in Mat and in Vec is loaded into each, or loaded into Vec and moved to Mat."""
    for space in ("Vec", "Mat"):
        yield rule(
            f"load_into_{space.lower()}",
            f"At(v, {space}) = Load(v, {space})",
            stage="place",
            reads=[fetched(_V), wanted(_V, space)],
            then=[union(At(_V, space), Load(_V, space))],
        )
    yield rule(
        "move_to_mat",
        "At(v, Mat) = Move(At(v, Vec))",
        stage="place",
        reads=[wanted(_V, Text("Mat")), wanted(_V, Text("Vec")), same_size(_V)],
        then=[union(At(_V, Text("Mat")), Move(_V, At(_V, Text("Vec"))))],
    )


@family("cast_either")
def CAST_EITHER() -> Iterator[Rule]:
    """A cast product wanted in Mat and in Vec is cast on the vector unit, and by FIXPIPE into Mat where it can."""
    yield rule(
        "cast_in_vec",
        "At(cast(c), Vec) = VectorCast(c)",
        stage="place",
        reads=[product_cast(_V, None, None, None), wanted(_V, "Vec")],
        then=[union(At(_V, "Vec"), VectorCast(_V))],
    )
    yield rule(
        "cast_by_fixpipe",
        "At(cast(c), Mat) = FixpipeCast(c)",
        stage="place",
        reads=[product_cast(_V, _SOURCE, _DTYPE, _MODE), fixpipe_casts(_SOURCE, _DTYPE, _MODE), wanted(_V, "Mat"), same_size(_V)],
        then=[union(At(_V, "Mat"), FixpipeCast(_V))],
    )


FAMILIES = (TWO_SPACES, CAST_EITHER)
