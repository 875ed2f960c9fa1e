"""The e-graph language: problems, schedules, placements, and the facts of the source program.

Three kinds of terms (the picture is a database optimizer's: what is computed, apart from how and where).

* A **problem** is a product's extents, element sizes, boxes and limits. Its schedules are one e-class per scope,
  ``Schedule(p, scope)``, holding a ``Cube(p, m, n, k, regime)`` for every legal candidate. Equal products share them.
* A **placement** is a value in a space, ``In(v, space)``, or an effect that has happened, ``Done(store)``. Each is an
  e-class too, and rules add ways to realise it: a K-loop, a grid, a fold, a move, or the statement as it stands.
* The **source program** is facts: who uses what, in which slot, what follows what. An e-graph cannot count uses itself.

Values are named by their SSA number in the source, so a value is already hash-consed; equal loads meet in one node.
"""

from __future__ import annotations

from egraph_rules.rule import Columns, Sort_, Table, Term, table

#: Rule stages, in the order they run, each to its fixpoint. Placements come first: they are few, so that a run ended by a limit
#: knows where results may go, and takes the best of the schedules it had found.
STAGES = ("placements", "extents", "windows", "schedules", "buffers")

SCHEDULE, PLACE = Sort_("ScheduleClass"), Sort_("Place")
SORTS = (SCHEDULE, PLACE)

#: The fractal edge: M, N and K are cut in multiples of it.
FRACTAL = 16

# -- scopes and regimes --------------------------------------------------------------------------------------------

#: How much of the output one window covers: all of it; full rows (n = N, m < M); or a piece of both axes (n < N).
WHOLE, ROWS, GRID = 0, 1, 2

#: Regimes of a cube schedule, before double buffering: what moves, what is held, in which loop order.
STREAMED, OUTPUT_HOLDING_A, OUTPUT_HOLDING_B, A_STATIONARY, B_STATIONARY = range(5)
#: Added to a regime when two accumulators take turns.
DOUBLE_C = 8

# -- problems ------------------------------------------------------------------------------------------------------

problem = table(
    "problem",
    "p M N K max_m max_n max_k bytes_a bytes_b bytes_c box_m box_n align_n align_k row_align l0a l0b l0c "
    "bias_cap bias_rebuilt bias_held bw_a bw_b panels blocks single",
    about="a product's true extents; the largest tile extents; element bytes; physical boxes; what n and k are multiples of; "
    "capacities in bytes; the widest bias window in elements, whether it is rebuilt per window, whether it lies in the bias "
    "table already; L0A/L0B load rates in bytes per 1000 cycles; how many copies the author's pipeline keeps of "
    "panels outside our loops: of K, of a grid's boundary, of a single block",
)
allows = table("allows", "p regime:String", about="the target's lowering can emit this design axis for the problem")
pinned = table("pinned", "p", about="an operand may be held in one buffer across the grid")
extent = table("extent", "e", about="tile extents of the target: multiples of the fractal")
axis_m = table(
    "axis_m",
    "p m deep_a line_c",
    about="m may be a tile's rows; the deepest panel of A with m rows in L0A; the bytes of L0C a column of m rows takes",
)
axis_n = table(
    "axis_n",
    "p n deep_b columns",
    about="n < N may be a tile's columns; the deepest panel of B with n columns in L0B; the columns it takes in L0C",
)
axis_k = table("axis_k", "p k", about="k may be the depth of a panel")
streamed_depth = table("streamed_depth", "p deepest", about="the deepest panels that stream beside some window")
panel = table("panel", "p deepest k", about="a panel k deep fits where one of the deepest does")
window = table(
    "window",
    "p m n scope deep_a deep_b streams",
    about="one m × n accumulator fits L0C; the deepest panels of A and B beside it; the deepest of both that stream, two of each",
)
holds_a = table("holds_a", "regime", about="regimes whose outer loop holds A's panel")
holds_b = table("holds_b", "regime", about="regimes whose outer loop holds B's panel")

Schedule = table("Schedule", "p scope", SCHEDULE.name, "all schedules of a problem in one scope")
Cube = table("Cube", "p m n k regime", SCHEDULE.name, "one candidate", placed=True)

# -- the source program --------------------------------------------------------------------------------------------

target = table("target", "l0c mat needs_low_precision", about="capacities in bytes; 1 where Mat scratch must be bf16 or fp16")
scratch_type = table("scratch_type", "dtype:String bytes low", about="element types a Mat scratch may have")
planner = table("planner", "name:String", about="who places buffers: pypto, dsa_rp or ptoas")
product = table("product", "v p left right op:String dtype:String", about="v = op(left, right), accumulated in dtype")
given = table("given", "v space:String", about="v lies in that space in the source")
load = table("load", "v key space:String", about="v is a load; its key is the first value loaded alike")
stageable = table("stageable", "v", about="v lies in Vec, and its tile is whole boxes of Mat")
cast = table("cast", "c v source:String dtype:String mode:String", about="c = cast(v)")
cast_once = table("cast_once", "v c", about="the cast c is the only use of v")
matrix_operand_only = table("matrix_operand_only", "v", about="v is used, and every use is a matrix operand of a matmul")
stored_once = table("stored_once", "v s", about="v's only use is the plain 2-D store s of the same statement list")
store_follows = table("store_follows", "v s", about="s is the first statement after v that is not a load")
bias_in = table("bias_in", "v space:String", about="the product v adds a bias that lies in that space")
bias_rebuildable = table("bias_rebuildable", "v", about="v's bias is a load that can be repeated window by window")
cuttable = table("cuttable", "v scope", about="the product v may be computed window by window in this scope")
as_scratch = table("as_scratch", "p q", about="q is p where its output is a scratch, so that a single block has panels too")
output_only = table("output_only", "p q", about="q is such a p, without operand-stationary schedules")
scratch_problem = table("scratch_problem", "v p", about="the problem whose schedules a Mat-scratch grid of v may take")
chain = table("chain", "s v p", about="a canonical split-K chain v that the store s drains")
drained = table("drained", "loop trips slot_bytes drain:String", about="a user-written pipeline of one matmul and one drain")
drained_total = table("drained_total", "loop bytes", about="L0C bytes the loop's function needs with a second slot everywhere")

# -- placements ----------------------------------------------------------------------------------------------------

In = table("In", "v space:String", PLACE.name, "v, in that space")
Left = table("Left", "v", PLACE.name, "v, where a left operand can be extracted from")
Done = table("Done", "s", PLACE.name, "the store s has happened")
Loop = table("Loop", "loop", PLACE.name, "a user-written loop has run")

AsItStands = table("AsItStands", "v", PLACE.name, "the statement, unchanged")
Given = table("Given", "v", PLACE.name, "where the source has it")
LoadTo = table("LoadTo", "key space:String", PLACE.name, "one load from global memory")
FromMat = table("FromMat", "v mat:Place", PLACE.name, "extracted from Mat as it lies")
FromVec = table("FromVec", "v vec:Place", PLACE.name, "moved from Vec to Mat once, before the loop")
KLoop = table("KLoop", "v schedule:ScheduleClass left:Place right:Place", PLACE.name, "panels of K summed in one accumulator")
GridStore = table(
    "GridStore", "v schedule:ScheduleClass left:Place right:Place", PLACE.name, "windows, each stored to the output"
)
GridScratch = table(
    "GridScratch",
    "v schedule:ScheduleClass left:Place right:Place dtype:String cast",
    PLACE.name,
    "windows assembled into Mat scratch; cast is the folded cast or -1",
)
Fold = table("Fold", "c accumulator:Place dtype:String", PLACE.name, "one whole-window FIXPIPE assemble that casts")
VectorCast = table("VectorCast", "c source:Place", PLACE.name, "a Vector cast, with its crossings")
StoreFrom = table("StoreFrom", "s accumulator:Place", PLACE.name, "one store of the whole accumulator")
ChainGrid = table("ChainGrid", "v schedule:ScheduleClass", PLACE.name, "windows around the source K-loop, each stored")
TwoAccumulators = table("TwoAccumulators", "loop", PLACE.name, "the loop, with accumulators taking turns")

TABLES: tuple[Table, ...] = tuple(x for x in dict(globals()).values() if isinstance(x, Table))

# -- the problem's columns as variables, for rules to name -----------------------------------------------------------


P = Columns(problem)


def the_problem() -> Term:
    """The pattern that binds every column of the problem at hand."""
    return P.row()


def axioms(largest_extent: int) -> dict[str, list[tuple[int, ...]]]:
    """Facts of every program: the tile extents there are, and which operand each regime holds."""
    return {
        extent.name: [(e,) for e in range(FRACTAL, largest_extent + 1, FRACTAL)],
        holds_a.name: [(OUTPUT_HOLDING_A,), (A_STATIONARY,)],
        holds_b.name: [(OUTPUT_HOLDING_B,), (B_STATIONARY,)],
    }
