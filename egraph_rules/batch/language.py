"""The e-graph language of batch matmul: problems, the chip, and the ways a problem's result can be made.

``Result(p)`` is C of problem p: one e-class that holds every legal way to make it. A rewrite that reduces a problem to another
(folding the batch into rows, broadcasting a side) asserts the new problem beside it and unions the wrapped result of the new one
into the class of the old one. Parameters that follow from a choice are not in the e-graph (:mod:`cost.batch.tiling`).
"""

from __future__ import annotations

from egraph_rules.rule import Columns, Sort_, Table, Term, table

#: Rule stages, in the order they run: reduce problems, enter branches, find extents, choose schedules.
STAGES = ("batch_reduce", "batch_enter", "batch_extents", "batch_choose")

RESULT = Sort_("BatchResult")
SORTS = (RESULT,)

#: What a problem is: as given; folded to one product; folded with row blocks that end at batch boundaries; B's batches laid
#: side by side; A repeated for every batch. A reduced problem's number is the given one's plus its role.
GIVEN, FOLDED, ALIGNED, RELAID, BROADCAST = range(5)
ROLES = ("given", "folded", "aligned", "relaid", "broadcast")
#: Problem numbers from one given problem to the next.
STRIDE = len(ROLES)

#: Codes of ``bias``.
NO_BIAS, SHARED_BIAS, BATCHED_BIAS = range(3)

batch = table(
    "batch",
    "p role B M N K batch_a batch_b equal bytes bias trans_a trans_b box_m box_n box_k",
    about="C[B, M, N] = A @ B: batches as stored; equal = 1 where no side is broadcast (or A is by addressing); element bytes; "
    "how operands lie; the box each extent is rounded up to",
)
chip = table(
    "chip",
    "C aiv l1 l0a l0b l0c l2 ub bias_table balance min_tile min_core min_active k_run run theta min_segment workspace_tile b0",
    about="cores, capacities in bytes, the balance point in thousandths of FLOP per element, and the measured floors",
)
reading = table("reading", "name:String", about="whose gates hold: the analysis' or the operator's")
asynchronous = table("asynchronous", "p", about="the order in which partial sums are added may vary, and C holds them exactly")
any_order = table("any_order", "p", about="the caller does not ask for deterministic results")

count = table("count", "x", about="numbers of pieces that are tried")
double = table("double", "x", about="powers of two that are tried")
tile = table("tile", "x", about="tile extents that are tried")
accumulators = table("accumulators", "x", about="accumulators in L0C: one, or two in turn")

merge_home = table("merge_home", "p", about="the entry conditions of MergeBatch hold")
merge_size = table("merge_size", "p b", about="b batches can be merged")
iter_home = table("iter_home", "p", about="the entry conditions of IterBatch hold, up to those of its cases")
block_home = table("block_home", "p least", about="ASW_Basic may be entered, with at least so many blocks")
row_cut = table("row_cut", "p m", about="m rows may be a block's")
column_cut = table("column_cut", "p n", about="n columns may be a block's")
block = table("block", "p m n accumulators", about="an m × n block fits L0, with so many accumulators")
l2_cut = table("l2_cut", "p m n", about="C may be cut into m × n parts that L2 holds")
stream_home = table("stream_home", "p", about="the entry conditions of StreamK hold, up to those of grid_K")
stream_grid = table("stream_grid", "p rows columns", about="rows × columns blocks of a batch, that cores are left for")

Result = table("Result", "p", RESULT.name, "C of the problem")
MergeBatch = table("MergeBatch", "p b k_l1", RESULT.name, "b batches at a time, diagonal blocks kept")
IterBatch = table("IterBatch", "p case step batches accumulators", RESULT.name, "batch by batch; step = pieces of what is cut")
Blocks = table("Blocks", "p m n accumulators held cut_m cut_n", RESULT.name, "m × n blocks dealt to the cores in swizzled order")
HoldA = table("HoldA", "p m n accumulators", RESULT.name, "m × n blocks under an A that every core keeps in L1")
StreamK = table("StreamK", "p rows columns grid_k atomic", RESULT.name, "K cut between cores, partial sums reduced")
Fill = table("Fill", "p", RESULT.name, "K = 0: bias or zero, on the vector cores")
Outer = table("Outer", "p", RESULT.name, "K = 1: column times row, on the vector cores")
Reduced = table("Reduced", "p role result:BatchResult", RESULT.name, "the result of a reduced problem, seen as this one's")

TABLES: tuple[Table, ...] = tuple(x for x in dict(globals()).values() if isinstance(x, Table))


Q, CHIP = Columns(batch), Columns(chip)
#: Names of the problem's columns, which rules bind by :func:`the_batch`.
BATCH_COLUMNS = frozenset(c for c, _ in batch.columns)


def the_batch(**fixed: int) -> Term:
    """The pattern that binds every column of the problem at hand; ``fixed`` columns must have the given number."""
    return batch(*(fixed.get(c, getattr(Q, c)) for c, _ in batch.columns))


def the_chip() -> Term:
    """The pattern that binds every column of the chip."""
    return chip(*(getattr(CHIP, c) for c, _ in chip.columns))


def read_as(name: str) -> Term:
    """The pattern that demands a reading: ``analysis`` or ``operator``."""
    return reading(name)


def axioms() -> dict[str, list[tuple[int, ...]]]:
    """Facts of every problem: the numbers that are tried where the specification leaves a choice."""
    counts = list(range(1, 65))
    while counts[-1] < 1 << 16:
        counts.append(counts[-1] * 9 // 8)
    tiles = [*range(16, 257, 16), *range(288, 513, 32), 640, 768, 1024, 2048, 4096]
    return {
        "count": [(x,) for x in counts],
        "double": [(1 << i,) for i in range(17)],
        "tile": [(x,) for x in tiles],
        "accumulators": [(1,), (2,)],
    }
