"""Tokens of a coprocessor's queues, and copies for its DMA engine: statements 46 and 47."""

import random

import numpy as np
import pytest
from ir_support import buffer, calls, function, loop, of_kind, store

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.calls import effect
from vtakit.compiler.ir.expr import Call, Expr, IntImm, Load, StringImm, Var
from vtakit.compiler.ir.ops import all_of, if_then_else, select
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.ir.walk import loads, substitute
from vtakit.compiler.passes import PassError
from vtakit.compiler.passes.copies import find_copy, inject_copies
from vtakit.compiler.passes.coproc_sync import SCOPE, coproc_sync

i, j, k, n = Var("i"), Var("j"), Var("k"), Var("n", size=True)


def on(queue: int, *body) -> st.Stmt:
    return st.Attr(SCOPE, None, queue, st.seq(*body))


# An independent check: run the statements in order, note who touches what, and ask whether tokens order all conflicts


class Trace:
    """What a program does, in the order in which it is written."""

    def __init__(self, f: Function) -> None:
        self.events: list[tuple[int, str, object]] = []  # queue, "push"/"pop"/"touch", what
        self.walk(f.body, {}, -1)

    def index(self, e: Expr, values: dict[Var, Expr]) -> int:
        found = int_value(Analyzer().simplify(substitute(e, values)))
        assert found is not None
        return found

    def walk(self, s: st.Stmt, values: dict[Var, Expr], queue: int) -> None:
        if isinstance(s, st.For):
            for at in range(self.index(s.extent, values)):
                self.walk(s.body, {**values, s.var: IntImm(at)}, queue)
        elif isinstance(s, st.Seq):
            for part in s.stmts:
                self.walk(part, values, queue)
        elif isinstance(s, st.Attr):
            self.walk(s.body, values, s.value)
        elif isinstance(s, st.Store):
            touched = [(load.buffer, self.index(load.indices[0], values), False) for load in loads(s.value)]
            self.events.append((queue, "touch", [*touched, (s.buffer, self.index(s.indices[0], values), True)]))
        elif isinstance(s, st.Evaluate) and isinstance(s.value, Call) and s.value.name in ("coproc_push", "coproc_pop"):
            p, q = (int_value(arg) for arg in s.value.args)
            self.events.append((p, "push", (p, q)) if s.value.name == "coproc_push" else (q, "pop", (p, q)))

    def check(self) -> None:
        """No queue waits for ever, no token is left, and every conflict between two queues is ordered as it is written."""
        clocks: dict[int, dict[int, int]] = {}  # queue -> what it knows to be done of each queue
        streams: dict[int, list[int]] = {}
        for number, (queue, _, _) in enumerate(self.events):
            streams.setdefault(queue, []).append(number)
        tokens: dict[object, list[dict[int, int]]] = {}
        known: dict[int, dict[int, int]] = {}
        position = dict.fromkeys(streams, 0)
        moved = True
        while moved:
            moved = False
            for queue, stream in streams.items():
                clock = clocks.setdefault(queue, {})
                while position[queue] < len(stream):
                    number = stream[position[queue]]
                    _, what, about = self.events[number]
                    if what == "pop":
                        if not tokens.get(about):
                            break
                        for other, done in tokens[about].pop(0).items():
                            clock[other] = max(clock.get(other, -1), done)
                    elif what == "push":
                        tokens.setdefault(about, []).append({**clock, queue: number})
                    known[number] = dict(clock)
                    position[queue] += 1
                    moved = True
        stuck = [queue for queue, stream in streams.items() if position[queue] < len(stream)]
        assert not stuck, f"queues {stuck} wait for ever"
        assert not any(tokens.values()), f"tokens are left: {tokens}"
        touches = [(number, queue, about) for number, (queue, what, about) in enumerate(self.events) if what == "touch"]
        for at, (number, queue, about) in enumerate(touches):
            for earlier, other, before in touches[:at]:
                if other == queue:
                    continue
                meet = any(a is b and x == y and (w or v) for a, x, w in about for b, y, v in before)
                assert not meet or known[number].get(other, -1) >= earlier, (
                    f"event {number} of queue {queue} may run before event {earlier} of queue {other}"
                )


def names(s: st.Stmt) -> list[str]:
    return [f"{call.name} {', '.join(map(str, call.args))}" for call in of_kind(s, Call) if call.name.startswith("coproc_p")]


def test_a_chain_of_three_queues_in_a_loop():
    """Statement 46: 1 -> 2 and 2 -> 3 get matching pushes and pops; what goes around the loop is primed and drained."""
    A, B, C = buffer("A", 8), buffer("B", 8), buffer("C", 64)
    f = function([C], st.Allocate(A, st.Allocate(B, loop(
        i, 4, on(1, loop(j, 8, store(A, j, C[j]))), on(2, loop(k, 8, store(B, k, A[k]))),
        on(3, loop(Var("m"), 8, store(C, 32 + i * 8, B[0]))),
    ))))
    after = coproc_sync(f)
    Trace(function([C], of_kind(after, st.Allocate)[1].body)).check()
    inner = of_kind(after, st.For)[0]
    assert names(inner) == [
        "coproc_pop 2, 1", "coproc_push 1, 2", "coproc_pop 3, 2", "coproc_pop 1, 2", "coproc_push 2, 3", "coproc_push 2, 1",
        "coproc_pop 2, 3", "coproc_push 3, 2",
    ]
    assert names(after.body)[:2] == ["coproc_push 2, 1", "coproc_push 3, 2"]  # primed
    assert names(after.body)[-2:] == ["coproc_pop 2, 1", "coproc_pop 3, 2"]  # drained


def test_nothing_between_queues_that_share_nothing():
    A, B = buffer("A", 8), buffer("B", 8)
    f = function([A, B], loop(i, 4, on(1, store(A, i, 1)), on(2, store(B, i, 1)), on(1, store(A, 4 + i, 2))))
    assert not names(coproc_sync(f).body)


def test_different_elements_need_no_token():
    A = buffer("A", 16)
    f = function([A], on(1, loop(i, 8, store(A, i, 1))), on(2, loop(j, 8, store(A, 8 + j, 1))))
    assert not names(coproc_sync(f).body)


def test_host_and_coprocessor():
    """Statement 46: the reference case: a read barrier over 80 elements, a write barrier over 10."""
    A = buffer("A", 128)
    f = function([A], loop(i, n, store(A, i, A[i] + 1), loop(k, 8, loop(j, 10, on(1, store(A, j, A[j + k * 10] + 2))))))
    after = coproc_sync(f)
    body = of_kind(after, st.For)[0].body
    assert isinstance(body, st.Seq)
    barriers = [s.value for s in body.stmts if isinstance(s, st.Evaluate)]
    assert [b.name for b in barriers] == ["coproc_read_barrier", "coproc_sync", "coproc_write_barrier"]
    assert [type(s).__name__ for s in body.stmts] == ["Store", "Evaluate", "For", "Evaluate", "Evaluate"]
    assert [str(arg) for arg in barriers[0].args[1:]] == ["0", "80"]
    assert [str(arg) for arg in barriers[2].args[1:]] == ["0", "10"]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_are_ordered_and_never_wait_for_ever(seed):
    """Statement 46."""
    rng = random.Random(seed)
    buffers = [buffer(f"B{x}", 8) for x in range(3)]

    def leaf(around):
        target, source = rng.choice(buffers), rng.choice(buffers)
        index = rng.choice([IntImm(rng.randrange(8)), *around])
        return on(rng.randint(1, 3), store(target, index, source[rng.choice([IntImm(rng.randrange(8)), *around])]))

    def row(depth, around):
        found = []
        for _ in range(rng.randint(1, 4)):
            if depth and rng.random() < 0.4:
                var = Var(f"i{depth}")
                found.append(loop(var, rng.randint(1, 3), *row(depth - 1, [*around, var])))
            else:
                found.append(leaf(around))
        return found
    f = function(buffers, *row(2, []))
    after = coproc_sync(f)
    try:
        Trace(after).check()
    except AssertionError as error:
        raise AssertionError(f"{error}\n{f}\n{after}") from error


# Copies


def copied(body):
    found = find_copy(body)
    assert not isinstance(found, str), found
    return found


def perform(copy, source, target):
    """What the copy says, element by element."""
    shape = [int_value(extent) for extent in copy.shape]
    if copy.pad_value is not None:
        before, after = ([int_value(x) for x in row] for row in (copy.pad_before, copy.pad_after))
        first = int_value(copy.target_offset) - sum(b * s for b, s in zip(before, copy.target_strides, strict=True))
        for at in np.ndindex(*[b + s + a for b, s, a in zip(before, shape, after, strict=True)]):
            target[first + sum(x * s for x, s in zip(at, copy.target_strides, strict=True))] = copy.pad_value.value
    for at in np.ndindex(*shape):
        to = int_value(copy.target_offset) + sum(x * s for x, s in zip(at, copy.target_strides, strict=True))
        target[to] = source[int_value(copy.source_offset) + sum(x * s for x, s in zip(at, copy.source_strides, strict=True))]


A, B = buffer("A", 256), buffer("B", 256)


@pytest.mark.parametrize(("body", "shape", "source", "target"), [
    (loop(i, 4, loop(j, 8, store(B, i * 8 + j, A[i * 16 + j + 3]))), "4, 8", "3; 16, 1", "0; 8, 1"),
    (store(B, 7, A[9]), "", "9; ", "7; "),
    (loop(i, 1, loop(j, 8, store(B, i * 8 + j, A[j]))), "8", "0; 1", "0; 1"),
    (loop(i, 4, loop(j, 2, loop(k, 4, store(B, i * 8 + j * 4 + k, A[i * 16 + j * 4 + k])))), "4, 8", "0; 16, 1", "0; 8, 1"),
    (loop(i, 4, loop(j, 8, store(B, i * 8 + j, A[i * 8 + j]))), "32", "0; 1", "0; 1"),
    (loop(i, 4, loop(j, 8, store(B, j * 4 + i, A[i * 8 + j]))), "4, 8", "0; 8, 1", "0; 1, 4"),
], ids=["2-d", "point", "unit", "split", "compact", "transposed"])
def test_copies_are_recognised(body, shape, source, target):
    """Statement 47: two dimensions, a single point, split loops."""
    copy = copied(body)
    assert ", ".join(map(str, copy.shape)) == shape
    assert f"{copy.source_offset}; {', '.join(map(str, copy.source_strides))}" == source
    assert f"{copy.target_offset}; {', '.join(map(str, copy.target_strides))}" == target


@pytest.mark.parametrize("choose", [select, if_then_else])
def test_padding_comes_from_a_condition(choose):
    """Statement 47."""
    inside = all_of(i >= 1, i < 5, j >= 2, j < 9)
    body = loop(i, 6, loop(j, 10, store(B, i * 10 + j, choose(inside, A[(i - 1) * 7 + j - 2 + 20], 0.5))))
    copy = copied(body)
    assert str(copy) == (
        "B[12; strides (10, 1)] = A[20; strides (7, 1)], shape (4, 7), padded by 0.5: (1, 2) before, (1, 1) after"
    )
    source, target = np.arange(256.0), np.zeros(256)
    perform(copy, source, target)
    want = np.full((6, 10), 0.5)
    want[1:5, 2:9] = source[20:48].reshape(4, 7)
    np.testing.assert_array_equal(target[:60].reshape(6, 10), want)


@pytest.mark.parametrize(("body", "reason"), [
    (loop(i, 4, store(B, i, A[i] + 1)), "the value stored is no element of a buffer but A[i] + 1.0"),
    (loop(i, 8, store(B, i, A[i // 3])), "the index i // 3 is not linear in the loops i"),
    (loop(i, 4, loop(j, 4, store(B, i * 4 + j, select(i + j < 5, A[i], 0.0)))),
     "the condition i + j < 5 bounds no single loop from one side"),
    (loop(i, 4, store(B, i, select(i < 3, A[i], A[0]))), "the value beside the copied ones is no constant but A[0]"),
])
def test_what_is_no_copy(body, reason):
    """Statement 47."""
    assert find_copy(body) == reason


def test_noted_copies_become_what_the_target_makes_of_them():
    """Statement 47: the message lists shape and strides."""
    def make(copy):
        if len(copy.shape) > 2:
            return "the engine copies two dimensions"
        return st.Evaluate(effect("dma", copy.source.access_ptr("r"), copy.target.access_ptr("w"), *copy.shape))

    f = function([A, B], loop(i, 4, loop(j, 8, store(B, i * 8 + j, A[i * 16 + j])), dma=1), loop(k, 4, store(B, k, A[k])))
    after = inject_copies(f, "dma", make)
    assert len(calls(after, "dma")) == 1
    assert len(of_kind(after, st.For)) == 1
    assert [x.value for x in of_kind(after, StringImm)] == ["r", "w"]
    assert len(of_kind(after, Load)) == 3
    deep = loop(i, 2, loop(j, 2, loop(k, 2, store(B, i * 4 + j * 2 + k, A[i * 16 + j * 4 + k]))), dma=1)
    with pytest.raises(PassError) as caught:
        inject_copies(function([A, B], deep), "dma", make)
    assert str(caught.value) == """\
pragma 'dma': the engine copies two dimensions: \
B[0; strides (4, 2, 1)] = A[0; strides (16, 4, 1)], shape (2, 2, 2)

      def main(A: float32[256], B: float32[256]):
-->       for i in range(2):  # dma=1
              for j in range(2):
                  for k in range(2):
                      B[i * 4 + j * 2 + k] = A[i * 16 + j * 4 + k]"""
    with pytest.raises(PassError, match="pragma 'dma' is on what is no copy: the value stored"):
        inject_copies(function([A, B], loop(i, 4, store(B, i, A[i] * 2), dma=1)), "dma", make)
