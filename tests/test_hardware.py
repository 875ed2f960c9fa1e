"""Hardware descriptions: what is built in, how targets are found, what a bad description says."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cost.dtypes import DTYPES
from cost.errors import TargetError
from cost.hardware import describe, get_target, load_target, target_from, targets
from cost.physical import accumulator_bytes, align_up, allocated_bytes, box, l0c_rows


def test_built_in_targets_hold_the_documented_figures():
    b, a5 = targets()
    assert (b.name, a5.name) == ("ascend910b", "ascend950")
    assert (b.l0a, b.l0b, b.l0c, b.mat, b.bias, b.vec) == (65536, 65536, 131072, 524288, 1024, 188416)
    assert (a5.l0a, a5.l0b, a5.l0c, a5.mat, a5.bias, a5.vec) == (65536, 65536, 262144, 524288, 4096, 245760)
    assert (b.roofline.bw_l0a, b.roofline.bw_l0b, b.roofline.mad_head) == (129.7, 85.4, 21)
    assert (a5.roofline.drain_fixed, a5.roofline.mad_fp32_passes) == (343.4, 8)
    assert b.supports_mat_to_bias("fp16", "fp32")
    assert not b.supports_mat_to_bias("bf16", "fp32")
    assert a5.supports_mat_to_bias(DTYPES["bf16"], DTYPES["fp32"])
    assert b.mat_scratch_needs_low_precision
    assert not a5.mat_scratch_needs_low_precision


@pytest.mark.parametrize("name", ["910B", "910b", "a2a3", "A2A3", "ascend910b", " Ascend910B "])
def test_aliases_in_any_case(name):
    assert get_target(name).name == "ascend910b"


def test_a_target_is_its_own_name():
    target = dataclasses.replace(get_target("950"), name="mine", l0c=1 << 20)
    assert get_target(target) is target
    assert {target: 1}[target] == 1


def test_unknown_target_lists_the_known_and_the_nearest():
    with pytest.raises(TargetError, match=r"unknown target 'ascend950x'.*mean 'ascend950'.*ascend910b \(910B, a2a3\)"):
        get_target("ascend950x")


@pytest.mark.parametrize("name", ["ascend910b", "ascend950"])
def test_describe_and_read_back(name, tmp_path):
    target = get_target(name)
    path = tmp_path / "copy.json"
    path.write_text(json.dumps(describe(target)))
    assert load_target(path) == target
    assert get_target(str(path)) == target


def test_a_toml_description_on_a_base(tmp_path):
    path = tmp_path / "wide.toml"
    path.write_text('name = "wide"\nbase = "a5"\n[bytes]\nl0c = 524288\n[roofline]\nmad_head = 0\n')
    target = get_target(path)
    assert (target.name, target.aliases, target.l0c, target.l0a) == ("wide", (), 524288, 65536)
    assert (target.roofline.mad_head, target.roofline.bw_l0a) == (0, 206.3)


def without(*keys):
    data = describe(get_target("910b"))
    table = data
    for key in keys[:-1]:
        table = table[key]
    del table[keys[-1]]
    return data


def having(value, *keys):
    data = describe(get_target("910b"))
    table = data
    for key in keys[:-1]:
        table = table[key]
    table[keys[-1]] = value
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "the description must be a table"),
        (without("name"), "name is missing"),
        (without("bytes", "l0c"), r"bytes\.l0c is missing"),
        (without("roofline"), "roofline is missing"),
        (having(-1, "bytes", "l0a"), r"bytes\.l0a must be positive, not -1"),
        (having(1.5, "bytes", "l0a"), r"bytes\.l0a must be a whole number, not 1.5"),
        (having(True, "bytes", "l0a"), r"bytes\.l0a must be a whole number, not True"),
        (having("65536", "bytes", "l0a"), r"bytes\.l0a must be a whole number"),
        (having(float("nan"), "roofline", "bw_l0a"), r"roofline\.bw_l0a must be positive, not nan"),
        (having(0, "roofline", "bw_drain"), r"roofline\.bw_drain must be positive, not 0"),
        (having(3, "roofline", "bw_l0"), r"roofline\.bw_l0 is no field.*mean 'bw_l0[ab]'"),
        (having(3, "byte"), "byte is no field.*mean 'bytes'"),
        (having([["fp16"]], "mat_to_bias"), "mat_to_bias must hold pairs of element types"),
        (having(["fp12"], "acc_to_gm_types"), "acc_to_gm_types holds 'fp12', which is no element type"),
        (having(1, "mat_scratch_needs_low_precision"), "mat_scratch_needs_low_precision must be true or false"),
        (having({"int32": 0}, "l0c_row_align"), r"l0c_row_align\.int32 must be positive"),
        (having(10**400, "bytes", "l0a"), r"bytes\.l0a is larger than 2 to the 53"),
        ({"base": "nope", "name": "x"}, "mine.json: base must be a built-in target: unknown target 'nope'"),
        ({"base": "mine.json", "name": "x"}, "base must be a built-in target"),
    ],
)
def test_a_bad_description_names_the_field(data, message):
    with pytest.raises(TargetError, match=message):
        target_from(data, "mine.json")


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(TargetError, match=r"cannot read .*missing\.json"):
        get_target(tmp_path / "missing.json")
    bad = tmp_path / "bad.toml"
    bad.write_text("name = ")
    with pytest.raises(TargetError, match=r"bad\.toml is not valid TOML"):
        get_target(bad)
    (tmp_path / "bad.json").write_bytes(b"\xff\xfe")
    with pytest.raises(TargetError, match=r"bad\.json is not valid JSON"):
        get_target(str(tmp_path / "bad.json"))


def test_hardware_needs_no_numpy():
    code = "import sys, cost.hardware as h; h.get_target('950'); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent.parent).returncode == 0


# -- physical sizes --------------------------------------------------------------------------------------------------


def test_the_documented_int32_accumulator():
    """Specification 1, issue #2232: int32 [16, 1152] on 910B takes 32 x 1152 x 4 bytes = 144 KiB; elsewhere 72 KiB."""
    int32 = DTYPES["int32"]
    assert accumulator_bytes(get_target("910b"), 16, 1152, int32) == 144 * 1024
    assert accumulator_bytes(get_target("950"), 16, 1152, int32) == 72 * 1024


def test_box_before_row_alignment():
    b = get_target("910b")
    assert l0c_rows(b, 33, DTYPES["fp32"]) == 48
    assert l0c_rows(b, 33, DTYPES["int32"]) == 64
    assert l0c_rows(b, 33, DTYPES["fp32"], box_m=24) == 48  # 33 -> 48 by the box, 48 by rows of 16
    assert accumulator_bytes(b, 16, 80, DTYPES["int32"], box_m=16, box_n=32) == 32 * 96 * 4  # N = 80 int8 is boxed to 96


@pytest.mark.parametrize(
    ("slayout", "dtype", "space", "expected"),
    [
        ("row_major", "bf16", "Mat", (16, 16)),
        ("row_major", "int8", "Left", (16, 32)),
        ("row_major", "fp32", "Mat", (16, 8)),
        ("row_major", "int4", "Mat", (16, 64)),
        ("col_major", "int8", "Right", (32, 16)),
        ("col_major", "fp32", "Right", (8, 16)),
        ("row_major", "int32", "Acc", (16, 16)),
        ("none_box", "fp32", "Vec", (1, 1)),
    ],
)
def test_boxes(slayout, dtype, space, expected):
    assert box(slayout, DTYPES[dtype], space) == expected


def test_sizes_take_arrays_too():
    b, fp32 = get_target("910b"), DTYPES["fp32"]
    m = np.array([16, 33, 200])
    assert list(accumulator_bytes(b, m, 64, fp32)) == [accumulator_bytes(b, int(x), 64, fp32) for x in m]
    assert list(align_up(m, 32)) == [32, 64, 224]
    assert allocated_bytes(b, "mat", 129) == 256
