"""Conversions of operations on memory: allocation, element access, windows, views and assembling."""

from __future__ import annotations

from ir_bridge.convert.demands import Box, boxed
from ir_bridge.convert.emitter import Emitter, constant
from ir_bridge.convert.ops_elementwise import static, tile_type
from ir_bridge.convert.placement import MOVE
from ir_bridge.convert.registry import Site, conversion
from ir_bridge.ir.nodes import Call, Const, Expr, Var
from ir_bridge.ir.ops import make, type_of
from ir_bridge.ir.ops_registry import dims, dtype_of
from ir_bridge.ir.types import Dim, Space, TensorType, TileType

# -- allocation --------------------------------------------------------------------------------------------------------


@conversion("tensor.create")
def _create(b: Emitter, s: Site) -> Expr:
    """Local storage; the seed of an accumulator is created in L0C, boxed like its operands, compact and narrowed where boxed."""
    shape = dims("tensor.create", "shape", s.args[0])
    dtype = dtype_of("tensor.create", "dtype", s.call.kwarg("dtype"))
    rows = b.demands.accumulator_rows(s.target) if s.target is not None else None
    if rows is None or len(shape) != 2:
        return b.emit("tile.create", static(b, s.call.op, shape), dtype=dtype, target_memory=Space.VEC, name=s.name)
    physical = boxed(shape, Box(0, rows))
    sizes = static(b, s.call.op, physical)
    if physical == shape:
        return b.emit("tile.create", sizes, dtype=dtype, target_memory=Space.ACC, name=s.name)
    storage = b.emit("tile.create", sizes, dtype=dtype, target_memory=Space.ACC, compact=True, name=f"{s.name}_storage")
    return b.emit("tile.set_validshape", storage, *shape, name=s.name)


@conversion("tensor.create_l1")
def _create_l1(b: Emitter, s: Site) -> Expr:
    sizes = static(b, s.call.op, dims("tensor.create_l1", "shape", s.args[0]))
    extra = {"transpose": True} if constant(s.call.kwarg("transpose")) else {}
    dtype = dtype_of("tensor.create_l1", "dtype", s.call.kwarg("dtype"))
    return b.emit("tile.create", sizes, dtype=dtype, target_memory=Space.MAT, name=s.name, **extra)


@conversion("tensor.full")
def _full(b: Emitter, s: Site) -> Expr:
    kwargs = dict(s.call.kwargs)
    return b.emit("tile.full", s.args[0], dtype=kwargs["dtype"], value=b.scalar(kwargs["value"]), name=s.name)


# -- elements ----------------------------------------------------------------------------------------------------------


@conversion("tensor.read", memory=(0,), stays=True)
def _read(b: Emitter, s: Site) -> Expr:
    where, subject = b.scalar(s.args[1]), s.args[0]
    if isinstance(subject, Var) and isinstance(subject.type, TileType):
        if subject.type.space is Space.ACC:  # the scalar unit reads the vector buffer
            subject = b.to_vec(subject, dims_of(s.call.args[0]))
        return make("tile.read", subject, where)
    return _kept(s, s.args[0], where)


@conversion("tensor.write", memory=(0,), stays=True)
def _write(b: Emitter, s: Site) -> None:
    target, where, value = s.args[0], b.scalar(s.args[1]), b.scalar(s.args[2])
    t = type_of(target)
    if isinstance(t, TileType):
        if t.space is Space.ACC:
            name = getattr(s.call.args[0], "name", "the value")
            raise b.refusal(f"pl.write into {name}, a product in L0C", f"write into a copy: pl.add({name}, 0.0)")
        b.effect("tile.write", target, where, value)
    else:
        b.effect("tensor.write", target, where, value)


@conversion("tensor.dim", memory=(0,), stays=True)
def _dim(b: Emitter, s: Site) -> Expr:
    """The size of a tile is that of its logical tensor: boxing and valid regions don't change it."""
    subject = s.call.args[0]
    if not isinstance(type_of(s.args[0]), TileType):
        return _kept(s, s.args[0], s.args[1])
    shape = (
        subject.type.shape if isinstance(subject, Var) and isinstance(subject.type, TensorType) else tile_type(s.args[0]).shape
    )
    axis = constant(s.args[1])
    if not isinstance(axis, int):
        raise b.refusal("pl.tensor.dim of an axis that is no number", "write the axis as a number")
    extent = shape[axis]
    return Const(extent) if isinstance(extent, int) else extent


def dims_of(e: Expr) -> tuple[Dim, ...]:
    """The logical shape of a tensor value."""
    t = type_of(e)
    assert isinstance(t, (TensorType, TileType))
    return t.shape


def _kept(s: Site, *args: Expr) -> Expr:
    """The call on global memory, with its operands as they now stand."""
    return Call(s.call.op, args, s.call.kwargs, s.call.attrs)


# -- windows and views -------------------------------------------------------------------------------------------------


def _spaces(b: Emitter, s: Site) -> tuple[Space, ...]:
    spaces = b.demands.spaces(s.target) if s.target is not None else (Space.VEC,)
    return tuple([sp for sp in spaces if sp is not Space.ACC]) or (Space.VEC,)


def _per_space(b: Emitter, s: Site, made: dict[Space, Var]) -> Expr:
    """One value that has become a tile in each of several spaces: the first stands for it, the others are found by space."""
    first = next(iter(made.values()))
    if s.target is not None and len(made) > 1:
        for space, tile in made.items():
            b.copies[s.target, space] = tile
    return first


@conversion("tensor.slice", view=True)
def _slice(b: Emitter, s: Site) -> Expr:
    """A window of global memory is loaded where its consumers want it; a window of a tile is a view of it."""
    source, shape_arg, offset_arg = s.args[0], s.args[1], s.args[2]
    shape, offset = dims(s.call.op, "shape", shape_arg), dims(s.call.op, "offset", offset_arg)
    valid = dims(s.call.op, "valid_shape", s.args[3]) if len(s.args) > 3 else shape
    if isinstance(type_of(source), TileType):
        return _per_space(b, s, {sp: _tile_window(b, s, sp, t) for sp, t in _sources(b, s).items()})
    made: dict[Space, Var] = {}
    spaces = _spaces(b, s)
    moved = s.target is not None and b.placed.get(s.target) == MOVE
    if moved:
        spaces = (Space.VEC,)
    for space in spaces:
        box = b.demands.box(s.target, space) if s.target is not None else None
        name = s.name if space is Space.VEC or not made else f"{s.name}_{space.value.lower()}"
        made[space] = b.load(source, offset, shape, valid, space, box, name)
    if moved:
        made[Space.MAT] = b.move(made[Space.VEC], Space.MAT)
    return _per_space(b, s, made)


def _tile_window(b: Emitter, s: Site, space: Space, tile: Var) -> Var:
    """A window of a tile: a view, except of an accumulator, which is read out of L0C."""
    if tile_type(tile).space is not Space.ACC:
        return b.emit("tile.slice", tile, *s.args[1:], name=s.name)
    row, col = dims(s.call.op, "offset", s.args[2])
    found = b.emit("tile.extract", tile, row, col, s.args[1], target_memory=space, name=s.name)
    return (
        found
        if len(s.args) < 4
        else b.emit("tile.set_validshape", found, *dims(s.call.op, "valid_shape", s.args[3]), name=s.name)
    )


def _sources(b: Emitter, s: Site) -> dict[Space, Var]:
    """The source of a view, in each space that the view is wanted in and the source can be had in without a move."""
    subject = s.call.args[0]
    found: dict[Space, Var] = {}
    for space in _spaces(b, s):
        box = b.demands.box(s.target, space) if s.target is not None else None
        tile = b.tile(subject, space, box, tuple(Space) if b.computed(subject) else None)
        found[space] = tile
        if b.computed(subject):
            break
    return found


def _view(op: str, tile_op: str, *, boxes: bool = False) -> None:
    @conversion(op, view=True, boxes_through=boxes)
    def rule(b: Emitter, s: Site) -> Expr:
        kwargs = dict(s.call.kwargs)
        subject = s.call.args[0]
        shape = subject.type.shape if isinstance(subject, Var) and isinstance(subject.type, TensorType) else None
        made: dict[Space, Var] = {}
        for space, tile in _sources(b, s).items():
            if op != "tensor.set_validshape" and tile_type(tile).space is Space.ACC and shape is not None:
                tile = b.to_vec(tile, shape)
            made[space] = b.emit(tile_op, tile, *s.args[1:], name=s.name, **kwargs)
        return _per_space(b, s, made)


_view("tensor.reshape", "tile.reshape")
_view("tensor.view", "tile.reshape")
_view("tensor.reinterpret_view", "tile.reinterpret_view")
_view("tensor.set_validshape", "tile.set_validshape", boxes=True)


# -- assembling --------------------------------------------------------------------------------------------------------


@conversion("tensor.assemble", memory=(0,), any_size=(1,))
def _assemble(b: Emitter, s: Site) -> Expr:
    """Into global memory a bulk store; into local storage an assemble."""
    target, source, offset = s.args[0], s.args[1], b.scalar(s.args[2])
    if isinstance(type_of(target), TileType):
        if s.call.kwarg("atomic") is not None:
            raise b.refusal("an atomic assemble into a value on chip", "assemble into a pl.Out or pl.InOut parameter")
        return b.emit("tile.assemble", target, _as_element(b, s, source, tile_type(target).dtype.name), offset, name=s.name)
    memory = type_of(target)
    assert isinstance(memory, TensorType)
    atomic = s.call.kwarg("atomic")
    tile = _as_element(b, s, source, memory.dtype.name)
    extra = {} if atomic is None else {"atomic": atomic}
    call = make("tile.store", tile, offset, target, **extra)
    if s.target is None:
        b.effect("tile.store", tile, offset, target, **extra)
        return target
    return b.assign(s.target, call)


def _as_element(b: Emitter, s: Site, source: Expr, name: str) -> Expr:
    """A source of the target's element type: only FIXPIPE, out of L0C, narrows as it writes."""
    from cost.dtypes import dtype

    t = tile_type(source)
    if t.dtype.name == name or t.space is Space.ACC:
        return source
    return b.emit("tile.cast", source, target_type=dtype(name), mode="rint", name=f"{s.name}_cast")
