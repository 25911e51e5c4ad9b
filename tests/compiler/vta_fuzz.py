"""Random operators for the accelerator, and programs of several of them: shapes, configurations and epilogues, against NumPy.

    PYTHONPATH=tests python tests/compiler/vta_fuzz.py [--operator NAME] [--seeds FIRST COUNT] [--orders COUNT] [--device rtl]
                                                      [--isa original+mul]
"""

import argparse
from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import vta_moves
import vta_networks
import vta_operators
from support import SHAPES
from vta_support import build, execute_all

from vtakit.compiler.codegen.vta.errors import VtaError
from vtakit.compiler.codegen.vta.target import Target
from vtakit.compiler.nn.vta import conv2d
from vtakit.hw.isa.config import INSN_BITS, NAMED, UOP_BITS, VTAConfig
from vtakit.hw.isa.errors import EncodingError
from vtakit.hw.isa.published import VTAKIT, Isa, misplaced
from vtakit.hw.system import System

NAMED_SEEDS, LEGAL_SEEDS = 100_000, 200_000  # seeds from which on configurations are random, and of any size that is legal
CONFIGS = [*NAMED.values()]
LACKS = "has no MUL", "shifts by", "does not widen", "weights with pads"  # what programs without an optional part cannot do
SYSTEMS = System(), System(), System(bandwidth=0.25, latency=60)
OPERATORS = {
    made.__name__: made
    for made in (
        vta_operators.conv, vta_operators.grouped, vta_operators.folded, vta_operators.dense, vta_operators.transposed,
        vta_operators.pool, vta_operators.value, vta_moves.sum_pool, vta_moves.global_pool, vta_moves.pad, vta_moves.resize,
        vta_moves.concat, vta_moves.binary, vta_networks.network, vta_operators.large_pool, vta_operators.pooled,
        vta_operators.digits,
    )
}


def random_config(rng: np.random.Generator) -> VTAConfig:
    """A configuration whose elements have at most 256 values, and INP and WGT at most 4096 and 8192 elements."""
    while True:
        inp_width, wgt_width, acc_width, batch, block = SHAPES[rng.integers(len(SHAPES))]
        if batch + block <= 8 and block <= 4:
            break
    uop, acc, inp = (int(rng.integers(low, high)) for low, high in ((2, 14), (1, 12), (1, 13)))
    wgt = int(rng.integers(1, min(13, 32 - acc - max(acc, inp)) + 1))
    return _config(inp_width, wgt_width, acc_width, batch, block, uop, inp, wgt, acc)


def legal_config(rng: np.random.Generator) -> VTAConfig:
    """Any legal configuration: elements of up to 4096 bytes, scratchpads of 2 to 65,536 elements."""
    while True:
        shape = SHAPES[rng.integers(len(SHAPES))]
        uop, acc, inp, wgt = (int(rng.integers(1, high)) for high in (14, 12, 17, 17))
        if acc + max(acc, inp) + wgt <= UOP_BITS and 2 * (acc + inp + wgt) <= INSN_BITS // 2:
            return _config(*shape, uop, inp, wgt, acc)


def _config(
    inp_width: int, wgt_width: int, acc_width: int, batch: int, block: int, uop: int, inp: int, wgt: int, acc: int
) -> VTAConfig:
    """The configuration of such widths and such depths, all as powers of two."""
    return VTAConfig(
        log_inp_width=inp_width, log_wgt_width=wgt_width, log_acc_width=acc_width, log_batch=batch, log_block=block,
        log_uop_buff_size=uop + 2, log_inp_buff_size=inp + batch + block + inp_width - 3,
        log_wgt_buff_size=wgt + 2 * block + wgt_width - 3, log_acc_buff_size=acc + batch + block + acc_width - 3,
    )


def check(operator: str, seed: int, *, orders: int = 1, device: str = "fsim", isa: Isa = VTAKIT) -> str:
    """One random operator, in a named configuration, from `NAMED_SEEDS` on in a random one, from `LEGAL_SEEDS` on in any legal
    one. Returns what it was. In the published instruction set, all configurations have its UOP scratchpad.

    The static checker has nothing against its program, and what it leaves is NumPy's: in the order of the program and in so many
    random interleavings of the stages, or on another device. Raises AssertionError where it is not.
    """
    rng = np.random.default_rng([seed, list(OPERATORS).index(operator)])
    made = legal_config if seed >= LEGAL_SEEDS else random_config
    config = CONFIGS[seed % len(CONFIGS)] if seed < NAMED_SEEDS else made(rng)
    system = SYSTEMS[rng.integers(len(SYSTEMS))]
    if isa.published and misplaced(config):
        short = max(0, 2 - config.acc_depth_log2)  # with 8,192 micro-ops, an index of two bits
        config = replace(config, log_uop_buff_size=15, log_acc_buff_size=config.log_acc_buff_size + short)
    target = Target(config, copies=int(rng.choice([1, 2, 2, 3])), system=system, isa=isa)
    with patch.object(conv2d, "STEPS_BESIDE", int(rng.choice([1, conv2d.STEPS_BESIDE]))):  # sums begin with all residuals
        case = OPERATORS[operator](rng, target)
        if not case.outputs:
            return f"{operator} {seed} does not fit: none of its layers does"
        try:
            schedule = case.schedule()
        except VtaError as error:
            if "fit" in str(error):
                return f"{operator} {seed} does not fit: {error}"
            raise
        try:
            program = build(schedule, [*case.inputs, *case.outputs], target)
        except VtaError as error:
            if isa.published and any(lack in str(error) for lack in LACKS):
                return f"{operator} {seed} does not fit: {error}"
            raise
    given = case.given(rng)
    wanted = case.wanted(given)
    runs = [{"order": order} for order in ("program", "eager", "lazy", *range(seed, seed + orders))] if device == "fsim" else [
        {"device": device}]
    for options in runs:
        found = execute_all(program, given, case.outputs, **options)
        for tensor, want in wanted.items():
            got = case.seen(found[tensor]).reshape(want.shape)
            assert np.array_equal(got, want), (
                f"{operator}, seed {seed}, {options}: {int((got != want).sum())} of {want.size} values of {tensor.name} differ")
    return f"{operator} {seed}: {len(program.insns)} instructions"


def main() -> None:
    """Run a range of seeds of one operator, or of all, and print those that fail."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operator", choices=OPERATORS, help="one operator instead of all")
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 100), metavar=("FIRST", "COUNT"), help="seeds of each operator")
    parser.add_argument("--orders", type=int, default=20, metavar="COUNT", help="random interleavings of each program")
    parser.add_argument("--device", default="fsim", choices=("fsim", "rtl"), help="what runs the programs")
    parser.add_argument("--isa", default=str(VTAKIT), help="instructions that the programs may use")
    args = parser.parse_args()
    try:
        isa = Isa.parse(args.isa)
    except EncodingError as error:
        parser.error(f"--isa: {error}")
    first, count = args.seeds
    failed = []
    for operator in [args.operator] if args.operator else OPERATORS:
        counts: Counter[str] = Counter()
        for seed in range(first, first + count):
            try:
                text = check(operator, seed, orders=args.orders, device=args.device, isa=isa)
                counts["too large" if "does not fit" in text else "equal"] += 1
            except Exception as error:
                failed.append(f"{operator} {seed}")
                print(f"{operator} {seed}: {type(error).__name__}: {str(error)[:3000]}", flush=True)
        print(f"{operator}: {count} seeds from {first}: {counts['equal']} equal, {counts['too large']} do not fit", flush=True)
    print(f"failed: {failed}")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
