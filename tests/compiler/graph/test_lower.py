"""Kernels that were made lately are shared between networks; nothing else that decides a kernel is mistaken for the same."""

from unittest.mock import Mock

import pytest

from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.graph import lower
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.cpu import CpuKernels
from vtakit.compiler.graph.fusion import fuse
from vtakit.compiler.nn.registry import OPERATORS, Operator

HOST = CpuKernels(Target.host())


@pytest.fixture(autouse=True)
def lately(monkeypatch):
    kept = {}
    monkeypatch.setattr(lower, "_LATELY", kept)
    return kept


def group_of(size, name="net", op="neg"):
    b = Builder(name)
    x = b.input("x", (4, size), "float32")
    graph = b.finish([("y", b.one(op, b.one("exp", x)))])
    return next(group for group in fuse(graph, HOST.machine) if not group.view)


def test_the_same_group_of_two_networks_is_lowered_once(lately):
    first, second = lower.kernel_of(group_of(8), "a_k0", HOST), lower.kernel_of(group_of(8, "other"), "b_k3", HOST)
    assert len(lately) == 1
    assert first.function.body is second.function.body
    assert (first.function.name[:5], second.function.name[:5]) == ("a_k0_", "b_k3_")


def test_what_decides_a_kernel_keeps_kernels_apart(lately, monkeypatch):
    made = [lower.kernel_of(group_of(8), "k", HOST)]
    made.append(lower.kernel_of(group_of(9), "k", HOST))
    made.append(lower.kernel_of(group_of(8, op="abs"), "k", HOST))
    made.append(lower.kernel_of(group_of(8), "k", CpuKernels(Target("aarch64-unknown-linux-gnu", "cortex-a72"))))
    named, decision = next((name, found) for name, found in made[0].decisions.items() if len(found.candidates) > 1)
    other = next(each for each in decision.candidates if each != decision.chosen)
    made.append(lower.kernel_of(group_of(8), "k", HOST, {named: other}))
    monkeypatch.setitem(OPERATORS, "neg", Operator("neg", OPERATORS["neg"].kind, OPERATORS["abs"].define))
    made.append(lower.kernel_of(group_of(8), "k", HOST))
    assert len(lately) == len({id(kernel.function.body) for kernel in made}) == 6


def test_as_many_are_kept_as_fit_and_the_latest_used_stay(lately, monkeypatch):
    monkeypatch.setattr(lower, "_MOST_LATELY", 3)
    bodies = {size: lower.kernel_of(group_of(size), "k", HOST).function.body for size in (2, 3, 4)}
    assert lower.kernel_of(group_of(2), "k", HOST).function.body is bodies[2]
    lower.kernel_of(group_of(5), "k", HOST)
    assert len(lately) == 3
    assert lower.kernel_of(group_of(2), "k", HOST).function.body is bodies[2]
    assert lower.kernel_of(group_of(3), "k", HOST).function.body is not bodies[3]


def test_a_group_that_cannot_be_lowered_is_not_kept(lately, monkeypatch):
    monkeypatch.setattr(lower, "lower", Mock(side_effect=RuntimeError("no program")))
    with pytest.raises(RuntimeError, match="no program"):
        lower.kernel_of(group_of(8), "k", HOST)
    assert not lately
