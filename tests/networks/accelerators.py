"""Random accelerators for networks in integers: named configurations, and others with scratchpads of a few elements."""

from dataclasses import replace
from functools import reduce
from operator import or_

import numpy as np

from vtakit.compiler.codegen.vta.target import NOTHING, Target
from vtakit.hw.isa.config import NAMED, VTAConfig
from vtakit.hw.isa.insns import Feature
from vtakit.hw.isa.published import VTAKIT, Ability, Isa, misplaced
from vtakit.hw.system import REFERENCE, System

PUBLISHED = "published"  # in the place of a configuration's name: any, with the published instruction set alone
FOR_RTL = ("tiny", "tiny_b2")  # whose models in Verilator are built in seconds
_NAMES = ("tiny", "tiny", "tiny_b2", "default", "blk8", "b2x16")
_LACKS = (NOTHING, NOTHING, NOTHING, Feature.OVERWRITE, Feature.REQUANT)


def accelerator(seed: int, config: str | None = None, device: str = "fsim") -> Target:
    """Choose an accelerator by a seed: of a configuration, of one that is cheap on a device, or half of the time of any.

    config : a name, or `PUBLISHED`

    Its memory is the reference system, or half of the time a slower one, with the same bus.
    """
    rng = np.random.default_rng([seed, 1 << 21])
    copies, lacks = int(rng.choice([1, 2, 2, 3])), _LACKS[rng.integers(len(_LACKS))]
    if config is not None and config != PUBLISHED:
        chosen = NAMED[config]
    else:
        names = FOR_RTL if device == "rtl" else _NAMES
        chosen = NAMED[names[rng.integers(len(names))]]
        chosen = chosen if device == "rtl" or rng.integers(2) else random_config(rng)
    share, latency, outstanding = rng.choice([0.1, 0.25, 0.5]), rng.choice([0, 20, 60, 200]), rng.choice([1, 4, 16])
    slow = System(bandwidth=float(share), latency=int(latency), outstanding=int(outstanding))
    system = slow if rng.integers(2) else REFERENCE
    more = np.random.default_rng([seed, 1 << 22])  # of its own, so that seeds mean what they did
    narrow = np.random.default_rng([seed, 1 << 23])
    if config is None and device != "rtl" and not narrow.integers(4):
        chosen = _narrowed(chosen, int(narrow.choice([1, 2, 2])))
    if config != PUBLISHED and (device == "rtl" or config is not None or more.integers(6)):
        return Target(chosen, copies=copies, without=lacks, system=system)
    if misplaced(chosen):
        chosen = replace(chosen, log_uop_buff_size=15)
    return Target(chosen, copies=copies, system=system, isa=published(more))


def published(rng: np.random.Generator) -> Isa:
    """Choose a device of the published instruction set: with all optional parts, none, or any."""
    kind, some = rng.integers(3), reduce(or_, [ability for ability in Ability if rng.integers(2)], Ability(0))
    return Isa(published=True, abilities=(VTAKIT.abilities, Ability(0), some)[kind])


def random_config(rng: np.random.Generator) -> VTAConfig:
    """Choose blocks of 1 x 2 to 4 x 16 values, and scratchpads of so few elements that layers need many tiles, or do not fit."""
    batch, block = int(rng.integers(0, 3)), int(rng.integers(1, 5))
    uop, inp, wgt, acc = (int(rng.integers(low, high)) for low, high in ((3, 9), (3, 9), (2, 8), (3, 9)))
    return VTAConfig(
        log_batch=batch, log_block=block, log_uop_buff_size=uop + 2, log_inp_buff_size=inp + batch + block,
        log_wgt_buff_size=wgt + 2 * block, log_acc_buff_size=acc + batch + block + 2)


def _narrowed(config: VTAConfig, width: int) -> VTAConfig:
    """Return a configuration with weights of 2 or 4 bits, in as many elements, of which WGT has at least 16."""
    depth = max(config.wgt_depth_log2, 4)
    return replace(config, log_wgt_width=width, log_wgt_buff_size=depth - 3 + 2 * config.log_block + width)
