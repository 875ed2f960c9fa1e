"""The e-graph language of placements: values that conversion can bring into a space in more than one way.

``At(v, space)`` is value v lying in a space: one e-class that holds every legal way to get it there. What is wanted where, and
what the values are, is facts; what a way costs is no business of the rules.
"""

from __future__ import annotations

from egraph_rules.rule import Sort_, Table, table

STAGES = ("place",)

PLACE = Sort_("Placement")
SORTS = (PLACE,)

#: A cast FIXPIPE makes as it writes an accumulator out: element types and rounding mode.
FIXPIPE_CASTS = (("fp32", "bf16", "rint"), ("fp32", "fp16", "rint"))

fetched = table("fetched", "v", about="v is a window of global memory")
product_cast = table("product_cast", "v source:String dtype:String mode:String", about="v is a cast of a product in L0C")
wanted = table("wanted", "v space:String", about="some consumer takes v from that space")
same_size = table("same_size", "v", about="v has one physical size wherever it is wanted: no consumer boxes it")
fixpipe_casts = table("fixpipe_casts", "source:String dtype:String mode:String", about="FIXPIPE casts so on its way out of L0C")

At = table("At", "v space:String", PLACE.name, "v, in that space")
Load = table("Load", "v space:String", PLACE.name, "a load of its own from global memory")
Move = table("Move", "v vec:Placement", PLACE.name, "from Vec to Mat, once")
VectorCast = table("VectorCast", "v", PLACE.name, "the product crosses to Vec and is cast there")
FixpipeCast = table("FixpipeCast", "v", PLACE.name, "FIXPIPE casts the product into Mat")

TABLES: tuple[Table, ...] = tuple(x for x in dict(globals()).values() if isinstance(x, Table))


def axioms() -> dict[str, list[tuple[str, ...]]]:
    """Facts of every program."""
    return {fixpipe_casts.name: list(FIXPIPE_CASTS)}
