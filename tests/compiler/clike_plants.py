"""Faults planted in lowered GPU programs, and whether something tells: the legality check, oclgrind, or the result.

A fault is a barrier that is deleted, or an index of shared or global memory that is moved by one or two elements. Run under
oclgrind, which prints what it finds between the lines of this program:

    oclgrind --data-races --max-errors 1000000 python tests/compiler/clike_plants.py --seed 0 --count 60
"""

import argparse
import random
import sys
from collections.abc import Iterator
from typing import Any

import clike_fuzz
import numpy as np
from clike_support import on_device

from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.expr import Call, Load
from vtakit.compiler.ir.stmt import Function, Stmt
from vtakit.compiler.ir.walk import map_expr, map_stmt, statements
from vtakit.compiler.lower.interpreter import InterpretError, interpret
from vtakit.compiler.passes.legal import check

BEGIN, END = "== planted", "== done"


def is_sync(s: Stmt) -> bool:
    return isinstance(s, st.Evaluate) and isinstance(s.value, Call) and s.value.name == "sync"


def places(function: Function) -> Iterator[tuple[str, Stmt]]:
    """Yield where a fault can be planted: barriers, and stores to memory that threads share."""
    for s in statements(function.body):
        if is_sync(s):
            yield "barrier", s
        elif isinstance(s, st.Store) and s.buffer.scope != "local":
            yield "store", s
        elif isinstance(s, st.Store) and isinstance(s.value, Load) and s.value.buffer.scope != "local":
            yield "load", s


def planted(function: Function, rng: random.Random) -> tuple[str, Function] | None:
    """Return a fault's description and the function with it; None if the function has no place for one."""
    found = [*places(function)]
    barriers = [each for each in found if each[0] == "barrier"]
    if not barriers:
        return None
    kind, at = rng.choice(barriers if rng.random() < 0.5 else found)
    shift = rng.choice([-2, -1, 1, 2])

    def moved(load: Any) -> Any:
        shared = isinstance(load, Load) and load.buffer.scope != "local"
        return load.replace(indices=(load.indices[0] + shift,)) if shared else load

    def change(s: Stmt) -> Stmt:
        if s is not at:
            return s
        if kind == "barrier":
            return st.NOTHING
        assert isinstance(s, st.Store)
        if kind == "store" and rng.random() < 0.5:
            return s.replace(indices=(s.indices[0] + shift,))
        return s.replace(value=map_expr(s.value, moved))
    body = map_stmt(function.body, change)
    what = f"no barrier: {at}" if kind == "barrier" else f"an index of the {kind} moved by {shift}: {at}"
    return what, function._replace(body=body)


def harmless(function: Function, args: list[Any], want: list[Any]) -> bool:
    """Return whether the interpreter, which finds every race and every access out of bounds, sees nothing wrong either."""
    try:
        interpret(function, args)
    except InterpretError:
        return False
    return all(np.array_equal(x, y) for x, y in zip(args, want, strict=True))


def candidates(seed: int) -> Iterator[tuple[int, Function, list[Any], list[Any]]]:
    """Yield random programs with threads."""
    for at in range(seed, seed + 10_000):
        found = clike_fuzz.written(at) if at % 2 else clike_fuzz.scheduled(at, clike_fuzz.Counter())
        if found is not None:
            function, got, want = found[-3:]
            yield at, function, got, want


def run(seed: int, count: int, *, sound: bool = False) -> None:
    """Run programs with faults; print what told, one line each, between the marks around each run."""
    done = 0
    for at, function, got, want in candidates(seed):
        rng = random.Random(f"plant {at}")
        found = planted(function, rng)
        if found is None or found[1].body is function.body:
            continue
        what, wrong = ("nothing", function) if sound else found
        given = [x.copy() for x in got]
        print(f"{BEGIN} {at}: {what.splitlines()[0]}", file=sys.stderr, flush=True)
        try:
            check(wrong, low=True)
            on_device(wrong, got)
            same = all(np.array_equal(x, y) for x, y in zip(got, want, strict=True))
            verdict = ("no fault" if harmless(wrong, given, want) else "nothing") if same else "the result"
        except Exception as error:
            verdict = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
        print(f"{END} {at}: {verdict}", file=sys.stderr, flush=True)
        done += 1
        if done == count:
            return


def caught(log: str) -> dict[str, str]:
    """Return what told of each planted fault, from what a run under oclgrind printed; "" for nothing.

    What changes nothing is no fault: a barrier that orders nothing, an element that is written again.
    """
    found: dict[str, str] = {}
    what, told = "", ""
    for line in log.splitlines():
        if line.startswith(BEGIN):
            what, told = line[len(BEGIN):].strip(), ""
        elif line.startswith(END):
            verdict = line.partition(": ")[2]
            if told or verdict != "no fault":
                found[what] = told or ("" if verdict == "nothing" else verdict)
        elif any(word in line for word in ("data race", "Invalid ", "divergence")) and not told:
            told = f"oclgrind: {line.strip()}"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--sound", action="store_true", help="plant nothing: nothing is to be found")
    args = parser.parse_args()
    run(args.seed, args.count, sound=args.sound)
    return 0


if __name__ == "__main__":
    sys.exit(main())
