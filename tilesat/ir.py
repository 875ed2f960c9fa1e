"""The structured loop IR: nodes, types, the builder, parsing and printing.

Everything here is light; nothing heavy is imported. ``docs/ir.md`` shows its use.
"""

from __future__ import annotations

from cost.dtypes import DTYPES as DTYPES
from cost.dtypes import DType as DType
from cost.dtypes import dtype as dtype
from ir_bridge.ir.build_blocks import BranchBuilder as BranchBuilder
from ir_bridge.ir.build_blocks import BuildError as BuildError
from ir_bridge.ir.build_blocks import LoopBuilder as LoopBuilder
from ir_bridge.ir.builder import FunctionBuilder as FunctionBuilder
from ir_bridge.ir.builder import ProgramBuilder as ProgramBuilder
from ir_bridge.ir.builder import expr as expr
from ir_bridge.ir.builder import symbol as symbol
from ir_bridge.ir.equality import same as same
from ir_bridge.ir.equality import same_function as same_function
from ir_bridge.ir.nodes import Assign as Assign
from ir_bridge.ir.nodes import Binary as Binary
from ir_bridge.ir.nodes import Call as Call
from ir_bridge.ir.nodes import Const as Const
from ir_bridge.ir.nodes import DictExpr as DictExpr
from ir_bridge.ir.nodes import Direction as Direction
from ir_bridge.ir.nodes import For as For
from ir_bridge.ir.nodes import Function as Function
from ir_bridge.ir.nodes import If as If
from ir_bridge.ir.nodes import Index as Index
from ir_bridge.ir.nodes import ListExpr as ListExpr
from ir_bridge.ir.nodes import Loc as Loc
from ir_bridge.ir.nodes import LoopKind as LoopKind
from ir_bridge.ir.nodes import Param as Param
from ir_bridge.ir.nodes import Pass as Pass
from ir_bridge.ir.nodes import Program as Program
from ir_bridge.ir.nodes import Return as Return
from ir_bridge.ir.nodes import Scope as Scope
from ir_bridge.ir.nodes import Symbol as Symbol
from ir_bridge.ir.nodes import Unary as Unary
from ir_bridge.ir.nodes import Var as Var
from ir_bridge.ir.nodes import Yield as Yield
from ir_bridge.ir.nodes import blocks_of as blocks_of
from ir_bridge.ir.nodes import defined as defined
from ir_bridge.ir.nodes import expressions_of as expressions_of
from ir_bridge.ir.nodes import vars_in as vars_in
from ir_bridge.ir.nodes import walk as walk
from ir_bridge.ir.ops import OpDef as OpDef
from ir_bridge.ir.ops import OpError as OpError
from ir_bridge.ir.ops import all_ops as all_ops
from ir_bridge.ir.ops import lookup as lookup
from ir_bridge.ir.ops import make as make
from ir_bridge.ir.ops import result_types as result_types
from ir_bridge.ir.ops import type_of as type_of
from ir_bridge.ir.parser import ParseError as ParseError
from ir_bridge.ir.parser import load as load
from ir_bridge.ir.parser import parse as parse
from ir_bridge.ir.printer import PrintError as PrintError
from ir_bridge.ir.printer import print_expr as print_expr
from ir_bridge.ir.printer import print_function as print_function
from ir_bridge.ir.printer import print_program as print_program
from ir_bridge.ir.types import OtherType as OtherType
from ir_bridge.ir.types import ScalarType as ScalarType
from ir_bridge.ir.types import Space as Space
from ir_bridge.ir.types import TensorType as TensorType
from ir_bridge.ir.types import TileType as TileType
from ir_bridge.ir.types import View as View
