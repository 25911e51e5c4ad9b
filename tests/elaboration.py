"""Configurations such that every legal pair of block, batch, widths and bus occurs in one, and a run that elaborates them all.

  python tests/elaboration.py                 the whole range: block 4 to 64, batch 1 to 8, every width, bus 64 to 512
  python tests/elaboration.py --max-macs 256  only cores of at most so many multipliers
"""

import argparse
import time
from itertools import combinations, product

from amaranth.back import rtlil

from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.params import BUS_BITS, CoreParams
from vtakit.hw.top import TOP_NAME, Top
from vtakit.hw.verilog import no_garbage_collection

Choice = tuple[int, ...]  # log2 of block, batch, inp width, wgt width, acc width; and the bus in bits
RANGES = (range(2, 7), range(4), range(5), range(5), range(3, 6), BUS_BITS)
DEPTH_LOG2 = 4  # of every scratchpad: the depth is memory, not logic


def params_of(choice: Choice) -> CoreParams | None:
    """The parameters of a choice; None if the instruction set's constraints forbid it."""
    block, batch, inp, wgt, acc, bus_bits = choice
    sizes = {"log_uop_buff_size": 2, "log_inp_buff_size": batch + block + inp - 3,
             "log_wgt_buff_size": 2 * block + wgt - 3, "log_acc_buff_size": batch + block + acc - 3}
    if min(sizes.values()) < 0:
        return None
    values = {"log_block": block, "log_batch": batch, "log_inp_width": inp, "log_wgt_width": wgt, "log_acc_width": acc}
    values |= {name: size + DEPTH_LOG2 for name, size in sizes.items()}
    try:
        return CoreParams(cfg=VTAConfig(**values), bus_bits=bus_bits)
    except ValueError:
        return None


def macs_of(choice: Choice) -> int:
    """Multipliers of the matrix core."""
    return 1 << choice[1] + 2 * choice[0]


def covering_sample(max_macs: int, together: int) -> list[CoreParams]:
    """Few configurations with at most `max_macs` multipliers.

    Any `together` values that a legal configuration has at once, one of them has too: 1 for each value, 2 for each pair.
    """
    legal = {choice: params for choice in product(*RANGES) if macs_of(choice) <= max_macs and (params := params_of(choice))}
    groups = {choice: frozenset(combinations(enumerate(choice), together)) for choice in legal}
    missing = set().union(*groups.values())
    sample = []
    while missing:
        best = max(groups, key=lambda choice: (len(groups[choice] & missing), -macs_of(choice)))
        missing -= groups[best]
        sample.append(legal[best])
    return sample


def elaborate(params: CoreParams) -> str:
    """Return the core in yosys's language."""
    with no_garbage_collection():
        return str(rtlil.convert(Top(params), name=TOP_NAME, emit_src=False))


def main() -> None:
    """Elaborate the sample and say what each took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-macs", type=int, default=1 << 15)
    sample = sorted(covering_sample(parser.parse_args().max_macs, 2), key=lambda p: p.cfg.batch * p.cfg.block**2)
    begin = time.monotonic()
    for n, params in enumerate(sample):
        cfg, start = params.cfg, time.monotonic()
        text = elaborate(params)
        widths = f"int{cfg.inp_bits} x int{cfg.wgt_bits} -> int{cfg.acc_bits}"
        print(f"{n + 1}/{len(sample)} block {cfg.block} batch {cfg.batch} {widths} bus {params.bus_bits}: "
              f"{time.monotonic() - start:.1f} s, {len(text) / 1e6:.1f} MB", flush=True)
    print(f"{len(sample)} configurations in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
