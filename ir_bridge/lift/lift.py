"""From a program and a plan to the tiled program: one walk that replaces what the plan speaks of and keeps the rest as it is."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import NamedTuple

from cost.dtypes import dtype
from egraph_rules.plan import Form, Plan, ProductPlan
from ir_bridge.ir.names import base_name
from ir_bridge.ir.nodes import (
    CORE_KINDS,
    ZERO,
    Assign,
    Block,
    Expr,
    For,
    Function,
    If,
    Loc,
    Program,
    Scope,
    Stmt,
    Var,
    blocks_of,
)
from ir_bridge.ir.types import Space, TileType, View
from ir_bridge.lift.chain import lift_chain
from ir_bridge.lift.emit import Emitter, LiftError, call_of, tile, var
from ir_bridge.lift.grid import DOUBLE_BUFFER_C, NO_OVERLAP, ScratchPlacer, StorePlacer, grid
from ir_bridge.lift.k_loop import Window, reduce_k
from ir_bridge.lift.product import Product, product_of
from ir_bridge.lift.rename import renamed, renamed_stmt, with_blocks
from ir_bridge.split_k_chain import chain_parts


def lift(program: Program, plan: Plan) -> Program:
    """``program`` with every product, chain and pipeline of ``plan`` in the form decided for it.

    Only functions of :data:`~ir_bridge.ir.nodes.CORE_KINDS` change. Statements, functions and the program itself come back as the
    same objects where nothing in them changes.
    """
    lifter = _Lifter(plan)
    functions = tuple([lifter.function(f) if f.kind in CORE_KINDS else f for f in program.functions])
    if all(map(operator.is_, functions, program.functions)):
        return program
    return replace(program, functions=functions)


class _Deferred(NamedTuple):
    """A product whose grid is emitted where its store stands."""

    product: Product
    plan: ProductPlan
    loc: Loc


class _Lifter:
    def __init__(self, plan: Plan) -> None:
        self.products = plan.products
        self.chains = plan.chains
        self.pipelines = frozenset(plan.pipelines)
        self.renames: dict[Var, Expr] = {}
        self.folded: set[Var] = set()  # results of casts that became part of an assemble
        self.at_store: dict[Var, _Deferred] = {}

    def function(self, f: Function) -> Function:
        body = self.block(f.body)
        return f if body is f.body else replace(f, body=body)

    def block(self, statements: Block) -> Block:
        """A statement list, lifted; the same tuple when nothing in it changes."""
        out: list[Stmt] = []
        skip = False
        for i, s in enumerate(statements):
            if skip:
                skip = False
            elif isinstance(s, Assign):
                self.assign(s, out)
            elif isinstance(s, For) and len(s.results) == 1 and s.results[0] in self.chains:
                self.chain(s, statements[i + 1 : i + 2], out)
                skip = True
            else:
                out.append(self.compound(s))
        if len(out) == len(statements) and all(map(operator.is_, out, statements)):
            return statements
        return tuple(out)

    def compound(self, s: Stmt) -> Stmt:
        """A loop, a branch, a scope, or a statement without a value."""
        if self.renames:
            s = renamed_stmt(s, self.renames)
        if not isinstance(s, (For, If, Scope)):
            return s
        old = blocks_of(s)
        new = tuple([self.block(b) for b in old])
        if not all(map(operator.is_, new, old)):
            s = with_blocks(s, new)
        if self.pipelines and isinstance(s, For) and not self.pipelines.isdisjoint(s.results):
            s = replace(s, attrs=(*s.attrs, NO_OVERLAP, DOUBLE_BUFFER_C))
        return s

    def assign(self, s: Assign, out: list[Stmt]) -> None:
        if len(s.targets) == 1:
            target = s.targets[0]
            plan = self.products.get(target)
            if plan is not None:
                self.product(s, plan, out)
                return
            deferred = self.at_store.get(target) if self.at_store else None
            if deferred is not None:
                self.grid_store(s, deferred, out)
                return
            if target in self.folded:
                return
        out.append(self.renamed_assign(s))

    def renamed_assign(self, s: Assign) -> Assign:
        value = renamed(s.value, self.renames) if self.renames else s.value
        return s if value is s.value else Assign(s.targets, value, s.loc)

    def chain(self, loop: For, after: Block, out: list[Stmt]) -> None:
        """A split-K chain: its create was emitted last, its store comes next; the windows take the place of all three."""
        create = out.pop() if out else None
        parts = chain_parts(create, loop, after[0]) if create is not None and after else None
        if parts is None:
            raise LiftError(f"the loop at {loop.loc} is planned as a split-K chain, but is not one")
        parts = replace(parts, store=self.renamed_assign(parts.store))
        last = parts.store.targets[0]
        done = lift_chain(self.chains[loop.results[0]], parts, Emitter(loop.loc, out), self.renames)
        if done is not last:
            self.renames[last] = done

    # -- products ------------------------------------------------------------------------------------------------------

    def product(self, s: Assign, plan: ProductPlan, out: list[Stmt]) -> None:
        """Emit a product in its form; a direct-store grid waits for its store."""
        s = self.renamed_assign(s)
        form, e = plan.form, Emitter(s.loc, out)
        if form is Form.GRID_STORE:
            assert plan.store is not None
            self.at_store[plan.store] = _Deferred(product_of(s, out, rebuild_bias=True), plan, s.loc)
            return
        result = s.targets[0]
        if form is Form.GRID_SCRATCH:
            self.grid_scratch(e, result, product_of(s, out, rebuild_bias=True), plan)
            return
        if form is Form.K_LOOP:
            assert plan.tile is not None
            p = product_of(s, out, rebuild_bias=False)
            done = reduce_k(e, p, Window(0, 0, p.M, p.N), plan.tile.k, p.name, result)
            if done is not result:
                self.renames[result] = done
        else:
            out.append(s)
            done = result
        if plan.cast is not None:
            self.fold_whole(e, done, plan)

    def grid_store(self, s: Assign, deferred: _Deferred, out: list[Stmt]) -> None:
        """The grid of a stored product, where its store stood, with the values current there."""
        p, plan, loc = deferred
        call = call_of(self.renamed_assign(s))
        assert plan.tile is not None
        done = grid(Emitter(loc, out), p, plan.tile, StorePlacer(call), var(call.args[2]), s.targets[0])
        if done is not s.targets[0]:
            self.renames[s.targets[0]] = done

    def grid_scratch(self, e: Emitter, result: Var, p: Product, plan: ProductPlan) -> None:
        """The grid of a product that stays on chip: its readers read the Mat scratch instead."""
        assert plan.tile is not None
        placer = ScratchPlacer(f"{p.name}_mat")
        scratch = self.scratch(e, placer.name, result, plan)
        self.replace_value(plan, result, grid(e, p, plan.tile, placer, scratch))

    def fold_whole(self, e: Emitter, done: Var, plan: ProductPlan) -> None:
        """A cast folded into one whole-window assemble (specification 1, "Fits-L0c 链式 cast-fold")."""
        placer = ScratchPlacer(f"{base_name(done.name)}_mat")
        scratch = self.scratch(e, placer.name, done, plan)
        self.replace_value(plan, done, placer.place(e, f"{placer.name}_t0", scratch, done, ZERO, ZERO))

    def scratch(self, e: Emitter, name: str, result: Var, plan: ProductPlan) -> Var:
        """The Mat tile that the whole result goes to, as narrow as the result is."""
        type_ = tile(result)
        element = type_.dtype if plan.scratch is None else dtype(plan.scratch)
        like = TileType(type_.shape, element, Space.MAT, View(valid_shape=type_.view.valid_shape))
        return e.create(name, like, Space.MAT)

    def replace_value(self, plan: ProductPlan, result: Var, by: Var) -> None:
        if plan.cast is None:
            self.renames[result] = by
        else:
            self.folded.add(plan.cast)
            self.renames[plan.cast] = by
