"""Kernels on an NVIDIA GPU: correctness against NumPy, then times against torch, in turn, as a table.

    PYTHONPATH=. python benchmarks/gpu_suite.py                        all, from a bare checkout
    PYTHONPATH=. python benchmarks/gpu_suite.py --only gemm --seconds 60

Needs numpy, llvmlite, ml_dtypes, rich and cuda-bindings; torch is the peer where it is installed. Times are medians of CUDA
events around a CUDA graph of several runs, ours and torch's in turn. `--json FILE` keeps the figures.
"""

import argparse
import importlib.metadata
import json
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from gpu_bench import Suite
from gpu_cases import correctness, kernels
from gpu_networks import networks

import vtakit
from vtakit.compiler.codegen.nvptx.ptxas import find_ptxas, version_of
from vtakit.runtime.cuda import driver
from vtakit.runtime.cuda.devices import find


def versions(target: Any) -> dict[str, str]:
    """Return the versions of what runs: Python, LLVM, packages, assembler, driver, device."""
    found = {"python": platform.python_version(), "llvm": ".".join(map(str, llvm.llvm_version_info))}
    for package in ("numpy", "llvmlite", "cuda-bindings", "ml_dtypes", "torch", "triton"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "missing"
    tool = find_ptxas()
    found["ptxas"] = f"{tool} {version_of(tool)}" if tool else "missing"
    found["target"] = str(target)
    found["driver"] = driver.missing() or str(driver.version())
    if not driver.missing():
        found["device"] = repr(find())
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--seconds", type=float, default=300.0, help="begin no case after so many seconds")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--dry", action="store_true", help="compile only")
    parser.add_argument("--seed", type=int, default=0, help="first of the random schedules")
    parser.add_argument("--seeds", type=int, default=150, help="number of random schedules")
    parser.add_argument("--arch", help="architecture; the device's by default")
    args = parser.parse_args()
    target = vtakit.target("cuda", **({"arch": args.arch} if args.arch else {}))
    known = versions(target)
    for name, value in known.items():
        print(f"{name:14s} {value}", flush=True)
    if args.dry:
        suite = Suite(target, None, args.only, args.seconds, dry=True)
        kernels(suite)
        networks(suite)
        return 1 if suite.failed else 0
    if "device" not in known:
        return 2
    try:
        import torch
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.zeros(1, device="cuda")
    except Exception as error:
        print(f"no torch: {error}")
        torch = None
    suite = Suite(target, torch, args.only, args.seconds)
    suite.seed, suite.seeds = args.seed, args.seeds
    correctness(suite)
    kernels(suite)
    networks(suite)
    heads = f"{'us':>10s} {'G/s':>9s} {'torch us':>10s} {'ratio':>6s} {'error':>8s} {'regs':>5s} {'spill':>5s}"
    print(f"\n{'kernel':42s} {heads}")
    for row in suite.rows:
        print(f"{row.name:42s} {row.seconds * 1e6:10.1f} {row.rate:9.0f} {row.peer * 1e6:10.1f} {row.ratio:6.2f} "
              f"{row.error:8.1e} {row.registers:5d} {row.spills:5d}")
    if args.json:
        args.json.write_text(json.dumps({"versions": known, "rows": [asdict(row) for row in suite.rows], "failed": suite.failed},
                                        indent=1))
    print(f"{len(suite.failed)} failed{': ' if suite.failed else ''}{', '.join(suite.failed)}")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
