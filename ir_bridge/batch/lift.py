"""A schedule of a batch matmul as a program: an SPMD loop over cores around each core's loops, phases one after another.

The function takes the tensors as the caller has them: ``a`` [BatchA, M, K] ([BatchA, K, M] where stored transposed), ``b``,
``bias`` [N] or [B, 1, N] where there is one, and writes ``c`` [B, M, N].
"""

from __future__ import annotations

from dataclasses import dataclass

from cost.batch import tiling
from cost.batch.chip import Chip
from cost.batch.problem import BatchProblem
from cost.batch.schedule import Schedule
from cost.dtypes import DType
from egraph_rules.batch.language import RELAID
from ir_bridge.batch import special
from ir_bridge.batch.blocks import blocks_core, stream_core
from ir_bridge.batch.builder import Builder, Index
from ir_bridge.batch.iterate import Core, iter_core, merge_core
from ir_bridge.batch.operands import Tensors, operands
from ir_bridge.ir.nodes import Direction, Function, LoopKind, Param, Program, Return, Var
from ir_bridge.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Cores:
    """Which cores' work a program holds: ranges of cube cores and of vector cores."""

    cube: tuple[int, int]
    vector_range: tuple[int, int]

    def vector(self, chip: Chip) -> special.VectorCores:
        """The vector cores, with the chip they belong to."""
        return special.VectorCores(chip, self.vector_range)


def lift_batch(s: Schedule, chip: Chip, cores: Cores | None = None) -> Program:
    """The multi-core program of a schedule; with ``cores`` the part of it that those cores run."""
    p = s.problem
    on = cores or Cores((0, chip.cores), (0, chip.vector_cores))
    params = parameters(p)
    b = Builder()
    views = {v.name: folded(b, v) for v in params}
    done = b.let("result", "tensor.fold", _phases(b, s, chip, views, on), [p.B, p.M, p.N])
    body = (*b.out, Return((done,)))
    directions = [Direction.IN] * (len(params) - 1) + [Direction.OUT]
    function = Function(
        "batch_matmul",
        tuple(Param(v, d) for v, d in zip(params, directions, strict=True)),
        body,
        (params[-1].type,),
        kind="InCore",
    )
    return Program("BatchMatmul", (function,))


def parameters(p: BatchProblem) -> list[Var]:
    """The tensors of a problem as parameters, C last."""

    def tensor(name: str, shape: tuple[int, ...], dtype: DType) -> Var:
        return Var(name, TensorType(shape, dtype))

    a = (p.batch_a, p.K, p.M) if p.transpose_a else (p.batch_a, p.M, p.K)
    b = (p.batch_b, p.N, p.K) if p.transpose_b else (p.batch_b, p.K, p.N)
    found = [tensor("a", a, p.operand), tensor("b", b, p.operand)]
    if p.bias is not None:
        found.append(tensor("bias", (p.N,) if p.bias == "shared" else (p.B, 1, p.N), p.result))
    return [*found, tensor("c", (p.B, p.M, p.N), p.result)]


def folded(b: Builder, v: Var) -> Var:
    """A tensor as the matrix [everything but the last axis, last axis]."""
    assert isinstance(v.type, TensorType)
    *lead, last = v.type.shape
    rows = 1
    for d in lead:
        assert isinstance(d, int)
        rows *= d
    return b.let(f"{v.name}_rows", "tensor.fold", v, [rows, last])


def _phases(b: Builder, s: Schedule, chip: Chip, views: dict[str, Var], on: Cores) -> Var:
    """All phases of a schedule on folded tensors; C's last state."""
    p = s.problem
    left, right = views["a"], views["b"]
    if s.kind == "Outer":
        left = b.let("a_columns", "tensor.fold", left, [p.batch_a * p.M, 1])
        right = b.let("b_rows", "tensor.fold", right, [p.batch_b, p.N])
    t = operands(p, left, right, views.get("bias"))
    state = views["c"]
    if p.K == 0 or s.kind == "Fill":
        return special.fill(b, t, on.vector(chip), state)
    if s.kind == "Outer":
        return special.outer(b, t, on.vector(chip), state)
    if s.kind == "Reduced":
        assert s.inner is not None
        return (
            _relaid(b, s, chip, t, state, on)
            if s.columns["role"] == RELAID
            else _phases(b, s.inner, chip, _refolded(b, s, views), on)
        )
    if s.kind == "StreamK":
        return _stream(b, s, chip, t, state, on)
    core = {"MergeBatch": merge_core, "IterBatch": iter_core}.get(s.kind, blocks_core)
    return on_cores(b, on, core(t, chip, s), state)


def on_cores(b: Builder, on: Cores, core: Core, state: Var) -> Var:
    """The SPMD loop over cube cores."""

    def body(inner: Builder, i: Index, carried: tuple[Var, ...]) -> tuple[Var, ...]:
        return (core(inner, i, carried[0]),)

    (done,) = b.loop(LoopKind.SPMD, "core", (*on.cube, 1), [state], body)
    return done


def _refolded(b: Builder, s: Schedule, views: dict[str, Var]) -> dict[str, Var]:
    """The tensors of the reduced problem: folded matrices are the same for both; only a bias of one batch is another."""
    assert s.inner is not None
    if "bias" in views and s.problem.bias == "batched" and s.inner.problem.bias == "shared":
        return views | {"bias": b.let("bias_one", "tensor.fold", views["bias"], [1, s.problem.N])}
    return views


def _stream(b: Builder, s: Schedule, chip: Chip, t: Tensors, state: Var, on: Cores) -> Var:
    """Segments on their cores, then the reduction; or C cleared, then segments added to it."""
    p, parts = s.problem, s.columns["grid_k"]
    if s.columns["atomic"]:
        cleared = special.fill(b, t, on.vector(chip), state)
        return on_cores(b, on, stream_core(t, chip, s, True), cleared)
    workspace = b.let("workspace", "tensor.create", [parts * p.B * p.M, p.N], dtype=p.sums)
    filled = on_cores(b, on, stream_core(t, chip, s, False), workspace)
    return special.reduce(b, t, on.vector(chip), filled, parts, state)


def _relaid(b: Builder, s: Schedule, chip: Chip, t: Tensors, state: Var, on: Cores) -> Var:
    """B laid out as [K, B·N] (it lies so already where it is stored transposed), one product of sums, C scattered."""
    p, inner = s.problem, s.inner
    assert inner is not None
    right = t.b.tensor
    if not p.transpose_b:
        fresh = b.let("b_laid_out", "tensor.create", [p.K, p.B * p.N], dtype=p.operand)
        right = special.relay(b, p, right, on.vector(chip), fresh)
    sums = b.let("sums", "tensor.create", [p.M, p.B * p.N], dtype=p.sums)
    done = _phases(b, inner, chip, {"a": t.a.tensor, "b": right, "c": sums}, on)
    return special.scatter(b, t, on.vector(chip), done, state)


def workspace_of(s: Schedule, chip: Chip) -> int:
    """Bytes of global memory that a schedule needs besides its tensors."""
    p = s.problem
    if s.kind == "StreamK" and not s.columns["atomic"]:
        return tiling.workspace_bytes(chip)
    if s.kind == "Reduced" and s.inner is not None:
        own = 0
        if s.columns["role"] == RELAID:
            own = p.M * p.B * p.N * p.sums.bytes + (0 if p.transpose_b else p.K * p.B * p.N * p.bytes)
        return own + workspace_of(s.inner, chip)
    return 0
