"""`vtakit.build` for the accelerator: a schedule as a function of arrays."""

import json
from pathlib import Path

import numpy as np
import pytest
from driver_support import tiny
from support import raises
from vta_support import matmul, matmul_schedule, wrap

import vtakit
from vtakit import te
from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import vta
from vtakit.compiler.nn.vta.conv2d import Conv2d
from vtakit.compiler.nn.vta.epilogue import Epilogue
from vtakit.compiler.nn.vta.pool import Pool2d
from vtakit.hw.isa.errors import ProgramError
from vtakit.hw.isa.file import save
from vtakit.hw.isa.regs import CYCLE_CAUSES
from vtakit.runtime import cli
from vtakit.runtime.target import TargetError
from vtakit.runtime.vta import DeviceError, DeviceMemoryError, DeviceTimeout, connect
from vtakit.runtime.vta.proven import CompilerDefectError
from vtakit.sim.checker import check_program

pytestmark = pytest.mark.xdist_group("rtl")  # one process builds each model

RNG = np.random.default_rng(0)


def built(config: str, **options: object):
    target = vta(config)
    tensors = matmul(target, 4, 4, 4)
    data, weights, _, _, result = tensors
    schedule = matmul_schedule(target, tensors)
    return vtakit.build(schedule, [data, weights, result], target, name="matmul", **options), target.config


def operands(cfg):
    shapes = (4, 4, cfg.batch, cfg.block), (4, 4, cfg.block, cfg.block)
    return (*(RNG.integers(-8, 8, shape, np.int8) for shape in shapes), np.zeros(shapes[0], np.int8))


def product(x, w, cfg):
    sums = np.einsum("ykbi,xkji->yxbj", x.astype(np.int64), w.astype(np.int64))
    return wrap(np.maximum(sums >> 4, 0), cfg.out_bits)


def test_arrays_in_place():
    for config in ("default", "i4w4", "b4x8"):
        f, cfg = built(config)
        assert f.counters == {}
        for _ in range(2):  # the second time the device is open
            x, w, out = operands(cfg)
            f(x, w, out)
            assert np.array_equal(out, product(x, w, cfg))
            assert f.counters["gemm_counter"] == 64


def test_an_illegal_program_of_the_compiler_is_not_run(monkeypatch):
    """Without tokens its stages race; a long program is looked at on request only."""
    monkeypatch.setattr("vtakit.compiler.codegen.vta.compile.with_tokens", lambda steps, sizes, **_: list(steps))
    illegal = built("tiny", check=False)[0].program
    message = ("the program made for 'matmul' is illegal, a defect of the code generator, not of what it was made from: "
               f"{check_program(illegal)[0]}")
    with raises(CompilerDefectError, message):
        built("tiny")
    monkeypatch.setattr("vtakit.runtime.vta.proven.CHECKED_INSNS", len(illegal.insns) - 1)
    assert built("tiny")[0].program == illegal
    with raises(CompilerDefectError, message):
        built("tiny", check=True)


def test_the_hardware_and_its_options():
    """The same bytes from the RTL; latency passes through, and costs cycles."""
    cycles = {}
    for latency in (0, 40, 400):
        f, cfg = built("tiny", device="rtl", latency=latency, trace=latency == 0)
        with f:
            for _ in range(2):
                x, w, out = operands(cfg)
                f(x, w, out)
                assert np.array_equal(out, product(x, w, cfg))
            assert f.result.trace is None or f.result.trace.totals()["compute_busy"] == f.counters["compute_busy"]
        cycles[latency] = f.counters["cycles"]
    assert cycles[0] < cycles[40] < cycles[400]


def test_a_view_is_an_array_like_any_other():
    f, cfg = built("tiny")
    x, w, out = operands(cfg)
    wide = np.zeros((4, 8, cfg.batch, cfg.block), np.int8)
    f(np.asfortranarray(x), w[::-1][::-1], wide[:, ::2])
    f(x, w, out)
    assert np.array_equal(wide[:, ::2], out)
    assert not wide[:, 1::2].any()


def test_several_programs_share_a_device():
    """Their buffers come and go; memory is as free as before when they are closed."""
    with tiny("fsim") as driver:
        before = driver.free_bytes
        fs = [built("tiny", device=driver)[0] for _ in range(2)]
        for f in fs:
            x, w, out = operands(driver.config)
            f(x, w, out)
            assert np.array_equal(out, product(x, w, driver.config))
        assert f.profile(x, w, out).device == "fsim"
        assert driver.free_bytes < before
        for f in fs:
            f.close()
        assert driver.free_bytes == before


def two_layers(**options: object):
    target = vta("tiny")
    data = te.placeholder((1, 2, 6, 6, 1, 4), "int8", name="data")
    weights = te.placeholder((2, 2, 3, 3, 4, 4), "int8", name="weights")
    conv = Conv2d(target=target, data=data, weights=weights, pad=(1,) * 4, epilogue=Epilogue(shift=5, low=0), name="conv")
    pool = Pool2d(target=target, data=conv.result, kernel=(2, 2), stride=(2, 2), name="pool")
    s = te.create_schedule(pool.result.op)
    conv.schedule(s)
    pool.schedule(s)
    arrays = (RNG.integers(-128, 128, (1, 2, 6, 6, 1, 4), np.int8), RNG.integers(-128, 128, (2, 2, 3, 3, 4, 4), np.int8),
              np.zeros((1, 2, 3, 3, 1, 4), np.int8))
    return vtakit.build(s, [data, weights, pool.result], target, name="net", **options), arrays


def test_a_profile_has_a_row_for_each_layer():
    f, arrays = two_layers(device="rtl")
    f(*arrays)
    want, whole = arrays[2].copy(), f.counters
    arrays[2][...] = 0
    report = f.profile(*arrays, macs={"pool": 0})
    assert np.array_equal(arrays[2], want)
    conv, pool = report.layers
    assert [conv.name, pool.name] == ["conv", "pool"]
    assert (conv.macs, pool.macs) == (6 * 6 * 8 * 8 * 9, 0)
    assert (report.total.cycles, report.total.gemm_steps) == (whole["cycles"], whole["gemm_counter"])
    assert {stage: dict(causes) for stage, causes in report.total.stages.items()} == {
        stage: {cause: whole[f"{stage}_{cause}"] for cause in CYCLE_CAUSES} for stage in ("load", "compute", "store")}
    assert (conv.read["wgt"] > 0, pool.read["wgt"]) == (True, 0)
    assert conv.side == "compute"
    assert pool.read["acc_8bit"] > 0
    assert f.counters == whole


@pytest.mark.parametrize("device", ["fsim", "rtl"])
def test_a_saved_program_is_reported_by_layer_too(device, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    f, (data, weights, _) = two_layers()
    save(f.program, "net.vta")
    Path("d.bin").write_bytes(data.tobytes())
    Path("w.bin").write_bytes(weights.tobytes())
    words = ["sim", "net.vta", "--device", device, "--input", "data=d.bin", "--input", "weights=w.bin"]
    assert cli.main([*words, "--report", "r.json", "--json", "s.json"]) == 0
    found, counters = (json.loads(Path(name).read_text()) for name in ("r.json", "s.json"))
    assert [layer["name"] for layer in found["layers"]] == ["conv", "pool"]
    assert found["total"]["steps"]["gemm"] == counters["counters"]["gemm_counter"] == 6 * 6 * 2 * 2 * 9
    assert found["total"]["cycles"] == counters["counters"].get("cycles")
    assert cli.main([*words, "--report", "table"]) == 0
    assert "\n conv " in capsys.readouterr().out


def test_a_profile_without_cycles_and_without_a_trace():
    f, arrays = two_layers()
    report = f.profile(*arrays)
    assert [(layer.name, layer.cycles, layer.side) for layer in report.layers] == [("conv", None, None), ("pool", None, None)]
    with tiny("rtl") as driver:  # a device such as a board, which cannot be asked for a trace
        f, arrays = two_layers(device=driver)
        report = f.profile(*arrays, macs={"pool": 5})
        assert [(layer.name, layer.macs) for layer in report.layers] == [("net", 6 * 6 * 8 * 8 * 9 + 5)]
        assert report.total.cycles == f.counters["cycles"]
    with pytest.raises(VtakitError, match="macs names 'pol', which is none of the parts conv, pool"):
        two_layers()[0].profile(*arrays, macs={"pol": 5})


def test_a_device_that_does_not_answer_is_stopped_and_works_again():
    then = "it was stopped; timeout_s and max_cycles say how long it may take"
    f, cfg = built("tiny", device="rtl", max_cycles=200)
    with raises(DeviceTimeout, f"device 'rtl' has not finished the program within 200 cycles: {then}"):
        f(*operands(cfg))
    with connect("rtl", "tiny", memory_bytes=1 << 16, latency=10_000) as driver:
        f, cfg = built("tiny", device=driver, timeout_s=1e-9)
        x, w, out = operands(cfg)
        with raises(DeviceTimeout, f"device 'rtl' has not finished the program within 1e-09 s: {then}"):
            f(x, w, out)
        f.timeout_s = 600
        f(x, w, out)
        assert np.array_equal(out, product(x, w, cfg))
    with raises(DeviceError, "device 'rtl' is closed: connect to it anew"):
        f(x, w, out)


def test_the_default_target():
    target = vta()
    tensors = matmul(target, 4, 2, 2)
    f = vtakit.build(matmul_schedule(target, tensors), [tensors[0], tensors[1], tensors[4]], "vta")
    assert repr(f) == f"<program main, {len(f.program.insns)} instructions, on fsim>"


def test_arguments_that_do_not_fit():
    f, _ = built("default")
    x, w = np.zeros((4, 4, 1, 16), np.int8), np.zeros((4, 4, 16, 16), np.int8)
    with raises(VtaError, "matmul takes 3 arrays (data, weights, result), got 2"):
        f(x, w)
    with raises(VtaError, "argument weights of matmul … int8[4, 4, 16, 16] … got int8[4, 4, 16, 8]"):
        f(x, w[..., :8], x)
    with raises(VtaError, "argument data of matmul is int8[4, 4, 1, 16], got int32[4, 4, 1, 16]"):
        f(x.astype(np.int32), w, x)
    with raises(VtaError, "argument result of matmul is int8[4, 4, 1, 16], got list"):
        f(x, w, [1])
    x.flags.writeable = False
    f(x, w, np.zeros_like(x))
    with raises(VtaError, "argument result of matmul … written … read-only … copy"):
        f(x, w, x)
    f, cfg = built("i4w4")
    x, w, out = operands(cfg)
    w[1, 2, 3, 4] = 8
    with raises(VtaError, f"argument weights of matmul … 4 bits … -8 to 7 … {w.min()} to 8"):
        f(x, w, out)


@pytest.mark.parametrize("check", [3, "yes", 1])
def test_whether_to_check_is_true_false_or_none(check):
    with raises(VtaError, f"check is {check!r} … True or False … None …"):
        built("tiny", check=check)
    with raises(VtaError, "progress is 3 … function …"):
        built("tiny", progress=3)


def test_progress_is_told_to_the_end():
    """From little to all of the work, never backwards, more than once on the way."""
    told = []
    f, _ = built("tiny", progress=lambda done, of: told.append((done, of)))
    assert f.program == built("tiny")[0].program
    assert told == sorted(told)
    assert len(told) > 10
    assert told[0][0] < 100
    assert told[-1] == (200, 200)


def test_devices_and_options_that_there_are_not():
    with raises(VtakitError, "unknown device 'fsin'; did you mean 'fsim'? Known: board, cycle, … sim, uio"):
        built("tiny", device="fsin")
    with raises(VtakitError, "device 'fsim' has no option 'latency'; known: max_steps, memory_bytes, order, path, published"):
        built("tiny", latency=3)
    with raises(VtakitError, "timeout_s must be a number of seconds above 0, not 0"):
        built("tiny", timeout_s=0)
    with raises(VtakitError, "latency is -1 and must be from 0 to 100000"):
        f, cfg = built("tiny", device="rtl", latency=-1)
        f(*operands(cfg))
    f, cfg = built("default", memory_bytes=4096)
    with pytest.raises(DeviceMemoryError, match="device 'fsim' has no 4096 free bytes in one piece at a multiple of"):
        f(*operands(cfg))
    with connect("fsim", "tiny") as driver:
        with raises(VtaError, "latency … option … device … driver was given …"):
            built("tiny", device=driver, latency=3)
        f, cfg = built("tiny_b2", device=driver)
        with pytest.raises(ProgramError, match="the program is for another configuration than the device: LOG_BATCH 1"):
            f(*operands(cfg))
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[i] + 1, name="b")
    for name, value in (("latency", 3), ("device", "rtl")):
        with raises(TargetError, f"{name!r} is no option of a build for a CPU; known: libraries, packed"):
            vtakit.build(te.create_schedule(b.op), [a, b], **{name: value})
