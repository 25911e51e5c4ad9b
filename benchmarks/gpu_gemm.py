"""Products on tensor cores beside cuBLAS: correctness against float64, then TFLOP/s of both in turn.

    python benchmarks/gpu_gemm.py make DIR     compile the kernels (needs this package and no GPU) to files in DIR
    python benchmarks/gpu_gemm.py run DIR      check and time them (needs torch, cuda-bindings and a GPU; not this package)

`run` takes less than two minutes and prints a table last. Files are machine code and PTX, which the driver assembles where it
does not take the machine code. cuBLAS is what torch calls: matmul, or _int_mm for int8.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

ROUNDS, SECONDS = 5, 0.06  # of each timing: rounds in turn, and how long one lasts
# name, type of operands, of results, m = n = k, whether b is [n, k], whether a warpgroup computes, tile or None for the default
CASES: tuple[tuple[str, str, str, int, bool, bool, tuple[int, ...] | None], ...] = (
    ("wgmma", "bfloat16", "bfloat16", 8192, True, True, None),
    ("wgmma", "bfloat16", "bfloat16", 4096, True, True, None),
    ("wgmma", "bfloat16", "bfloat16", 2048, True, True, None),
    ("wgmma", "bfloat16", "bfloat16", 2048, True, True, (128, 128, 64, 2, 1, 4)),
    ("wgmma", "bfloat16", "bfloat16", 1024, True, True, (128, 128, 64, 2, 1, 4)),
    ("wgmma", "bfloat16", "bfloat16", 512, True, True, (64, 64, 64, 1, 1, 4)),
    *(("wgmma", "bfloat16", "bfloat16", n, True, True, (128, 128, 64, 2, 1, 3)) for n in (8192, 4096, 2048, 1024)),
    ("wgmma", "float16", "float16", 4096, True, True, None),
    ("wgmma", "float32", "float32", 4096, True, True, None),
    ("wgmma", "int8", "int32", 4096, True, True, None),
    ("mma", "bfloat16", "bfloat16", 4096, True, False, None),
    ("mma", "bfloat16", "bfloat16", 4096, True, False, (128, 256, 32, 2, 4, 3)),
    ("mma", "bfloat16", "bfloat16", 4096, True, False, (128, 64, 32, 2, 2, 4)),
    ("mma", "bfloat16", "bfloat16", 4096, True, False, (64, 64, 32, 2, 2, 4)),
    ("mma", "bfloat16", "bfloat16", 4096, False, False, None),
    ("mma", "float16", "float16", 4096, False, False, (128, 256, 32, 2, 4, 3)),
    ("mma", "float32", "float32", 4096, True, False, None),
    ("mma", "int8", "int32", 4096, True, False, None),
)
# Of results, over the root of their mean square; of float32 beside the product of operands cut to tf32, as the intrinsic says.
TOLERANCE = {"bfloat16": 2e-2, "float16": 3e-3, "float32": 1e-4, "int32": 0.0}


def make(folder: Path) -> None:
    """Compile all cases."""
    from vtakit import te
    from vtakit.compiler.codegen.gpu import split
    from vtakit.compiler.codegen.nvptx.arch import Arch
    from vtakit.compiler.codegen.nvptx.compile import compile_launches
    from vtakit.compiler.intrin.tensor_cores import KINDS
    from vtakit.compiler.lower import lower
    from vtakit.compiler.nn.cpu.flow import Flow
    from vtakit.compiler.nn.gpu.machine import MACHINES
    from vtakit.compiler.nn.gpu.tensor_cores import instructions_of, schedule_tensor_cores
    from vtakit.compiler.passes import lower_late
    from vtakit.compiler.schedule.schedule import create_schedule

    folder.mkdir(parents=True, exist_ok=True)
    listed = []
    for number, (form, dtype, result, n, turned, groups, tile) in enumerate(CASES):
        began = time.perf_counter()
        kind = KINDS[dtype]
        a, b = te.placeholder((n, n), dtype, name="A"), te.placeholder((n, n), dtype, name="B")
        r = te.reduce_axis((0, n), name="r")

        def term(i: Any, j: Any, a: Any = a, b: Any = b, r: Any = r, turned: bool = turned, kind: Any = kind) -> Any:
            x, y = a[i, r], b[j, r] if turned else b[r, j]
            return te.sum(x * y if kind.a == kind.c else x.astype(kind.c) * y.astype(kind.c), axis=r)
        c = te.compute((n, n), term, name="C")
        out = c if result == kind.c else te.compute((n, n), lambda i, j, c=c, result=result: c[i, j].astype(result), name="O")
        decisions: dict[str, Any] = {"C.tensor_cores": True}
        if tile is not None:
            decisions["C.tile"] = list(tile)
        s = create_schedule([out.op], decisions)
        flow = Flow.of(s.outputs)
        arch = Arch("sm_90a" if groups else "sm_80")
        machine = MACHINES["h100"].changed({"tensor_cores": instructions_of(arch.name)})
        assert schedule_tensor_cores(s, flow, c.op, flow.followers(c.op), machine), (form, dtype, n)
        program = split(lower_late(lower(s, [a, b, out]), "gpu"))
        kernels = compile_launches(program.launches, arch)
        (launch,) = program.launches
        files = {"ptx": f"{number}.ptx", "cubin": f"{number}.cubin"}
        (folder / files["ptx"]).write_text(kernels.ptx)
        (folder / files["cubin"]).write_bytes(kernels.cubin)
        grid = [int(str(extent)) for extent in launch.grid]
        used = kernels.resources.get(launch.name)
        chosen = list(s.decisions.made["C.tile"].chosen)
        listed.append({
            "form": form, "dtype": dtype, "result": result, "n": n, "turned": turned, "name": launch.name, "grid": grid,
            "block": list(launch.block), "shared": kernels.dynamic.get(launch.name, 0), "tile": chosen, **files,
            "params": [param.name for param in launch.params],
        })
        print(f"{form} {dtype} {n} {'NT' if turned else 'NN'} {chosen}: {used}, {kernels.warnings or 'no warnings'}, "
              f"{time.perf_counter() - began:.0f} s", flush=True)
    (folder / "kernels.json").write_text(json.dumps(listed))


class Device:
    """Kernels through NVIDIA's driver, in the context and stream of torch."""

    def __init__(self) -> None:
        import torch
        from cuda.bindings import driver  # type: ignore[import-untyped, unused-ignore]

        self.torch, self.driver = torch, driver
        torch.zeros(1, device="cuda")

    def checked(self, result: tuple[Any, ...]) -> Any:
        error, *rest = result
        if int(error) != 0:
            raise RuntimeError(f"the driver says {error}")
        return rest[0] if rest else None

    def kernel(self, folder: Path, record: dict[str, Any]) -> Any:
        d = self.driver
        try:
            module = self.checked(d.cuModuleLoadData((folder / record["cubin"]).read_bytes()))
        except RuntimeError:
            module = self.checked(d.cuModuleLoadData((folder / record["ptx"]).read_bytes() + b"\0"))
        function = self.checked(d.cuModuleGetFunction(module, record["name"].encode()))
        if record["shared"]:
            most = d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.checked(d.cuFuncSetAttribute(function, most, record["shared"]))
        return function

    def launch(self, function: Any, record: dict[str, Any], *tensors: Any) -> None:
        import ctypes

        values = tuple(tensor.data_ptr() for tensor in tensors)
        stream = self.torch.cuda.current_stream().cuda_stream
        self.checked(self.driver.cuLaunchKernel(
            function, *record["grid"], *record["block"], record["shared"], stream, (values, (ctypes.c_void_p,) * len(values)), 0))

    def seconds(self, run: Any, count: int) -> float:
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / count


def _as_tf32(torch: Any, x: Any) -> Any:
    """Return float32 numbers without the 13 bits of fraction that tf32 lacks."""
    return (x.contiguous().view(torch.int32) & -8192).view(torch.float32)


def run(folder: Path) -> int:
    """Check and time all kernels; return 1 if one is wrong."""
    device = Device()
    torch = device.torch
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(0)
    lines, wrong = [], 0
    for record in json.loads((folder / "kernels.json").read_text()):
        n, title = record["n"], f"{record['form']:5} {record['dtype']:8} {record['n']:5} {'NT' if record['turned'] else 'NN'}"
        title = f"{title} {'x'.join(map(str, (record['tile'] or [])[:3])):11}"
        kind, result = getattr(torch, record["dtype"]), getattr(torch, record["result"])
        try:
            if record["dtype"] == "int8":
                a, b = (torch.randint(-128, 128, (n, n), dtype=kind, device="cuda") for _ in range(2))
            else:
                a, b = (torch.randn(n, n, device="cuda").to(kind) for _ in range(2))
            right = b.t() if record["turned"] else b
            found = torch.full((n, n), 7, dtype=result, device="cuda")
            by_name = {"A": a, "B": b}
            tensors = [by_name.get(name, found) for name in record["params"]]
            function = device.kernel(folder, record)

            def ours(function: Any = function, record: Any = record, tensors: Any = tensors) -> None:
                device.launch(function, record, *tensors)

            def theirs(a: Any = a, right: Any = right, record: Any = record) -> Any:
                return torch._int_mm(a, right) if record["dtype"] == "int8" else torch.matmul(a, right)
            ours()
            torch.cuda.synchronize()
            used = [_as_tf32(torch, x) if record["dtype"] == "float32" else x for x in (a, right)]
            want = used[0].double() @ used[1].double()
            scale = float(want.square().mean().sqrt())
            error = float((found.double() - want).abs().max()) / scale
            other = float((theirs().double() - a.double() @ right.double()).abs().max()) / scale
            good = error <= TOLERANCE[record["result"]]
            wrong += not good
            del want
            count = max(1, int(SECONDS / max(device.seconds(ours, 3), 1e-6)))
            device.seconds(theirs, 3)
            times = [(device.seconds(ours, count), device.seconds(theirs, count)) for _ in range(ROUNDS)]
            mine, cublas = (sorted(pair[at] for pair in times)[ROUNDS // 2] for at in (0, 1))
            rate = 2 * n**3 / 1e12
            lines.append(f"{title} {'ok   ' if good else 'WRONG'} {error:.1e} (cuBLAS {other:.1e}) {rate / mine:7.1f} TFLOP/s, "
                         f"cuBLAS {rate / cublas:7.1f}, ratio {cublas / mine:.3f}")
        except Exception as problem:  # one kernel's trouble leaves the others their turn, if the context lives
            wrong += 1
            lines.append(f"{title} failed: {type(problem).__name__}: {str(problem)[:200]}")
        print(lines[-1], flush=True)
    print(f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}\n" + "\n".join(lines))
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("make", "run"):
        sys.exit(__doc__)
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        sys.exit(run(Path(sys.argv[2])))
