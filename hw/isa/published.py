"""The published instruction set without the extensions, and what its implementations differ in.

Programs that keep to it run on the original's deployed bitstreams. Its simulators and hardware were compared by running programs
both ways; where they disagree, a program may rely on an ability only if its device is known to have it.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from enum import IntFlag
from functools import reduce
from operator import or_
from typing import Self

from vtakit.base.errors import one_of
from vtakit.hw.isa.config import VTAConfig
from vtakit.hw.isa.errors import ConfigError, EncodingError
from vtakit.hw.isa.exhaustive import for_each
from vtakit.hw.isa.insns import FORMATS, Feature, Opcode

MOST_SHIFT = 15  # bits by which every implementation shifts an accumulator
FINISH_FLAG = "pop_next"  # by which FINISH may take the token of the last STORE
# Bits of a GEMM's or ALU's first word beside twice the UOP index: where an ACC index fits behind them, the published C bit-fields
# put it there.
_BESIDE_INDICES = 37
_WORD_BITS = 64


class Ability(IntFlag):
    """Parts of the published instruction set that some implementations lack, or have wrong."""

    MUL = 1 << 0
    ACC_8BIT = 1 << 1
    WIDE_SHIFT = 1 << 2
    VECTOR_SHIFT = 1 << 3


MEANINGS = {
    Ability.MUL: "the ALU multiplies",
    Ability.ACC_8BIT: "a LOAD widens bytes to accumulators",
    Ability.WIDE_SHIFT: f"SHR shifts by more than {MOST_SHIFT} bits",
    Ability.VECTOR_SHIFT: "SHR takes its amounts from accumulators",
}
_FEATURES = {Ability.MUL: Feature.ALU_MUL, Ability.ACC_8BIT: Feature.ACC_8BIT}
_ALL = reduce(or_, Ability)
PUBLISHED_FEATURES = reduce(or_, _FEATURES.values())  # features that the published instruction set has
EXTENSIONS = for_each(Opcode, {  # whether an opcode is one that it lacks
    Opcode.LOAD: False, Opcode.STORE: False, Opcode.GEMM: False, Opcode.FINISH: False, Opcode.ALU: False,
    Opcode.REQUANT: True, Opcode.PAD_LOAD: True, Opcode.DWCONV: True,
}, __name__)
_OURS, _PUBLISHED = "vtakit", "original"


@dataclass(frozen=True, slots=True)
class Isa:
    """The instructions that a program may use.

    published : only those of the published instruction set
    abilities : those of its optional parts that the device has
    """

    published: bool = False
    abilities: Ability = _ALL

    @classmethod
    def parse(cls, text: object) -> Self:
        """Return the instructions that a text names: "vtakit", or "original" with abilities such as "original+mul+wide_shift".

        Raises EncodingError for any other text.
        """
        if isinstance(text, cls):
            return text
        if not isinstance(text, str):
            raise EncodingError(f"an instruction set is {text!r:.40}: give the text {_OURS!r} or {_PUBLISHED!r}")
        base, *given = text.lower().replace("-", "_").split("+")
        if base == _OURS and not given:
            return cls()
        if base != _PUBLISHED:
            raise EncodingError(f"unknown instruction set {text!r:.80}; {one_of([_OURS, _PUBLISHED], base)}")
        known = {str(ability.name).lower(): ability for ability in Ability}
        for name in given:
            if name not in known:
                raise EncodingError(f"instruction set {text!r:.80}: unknown ability {name!r:.40}; {one_of(known, name)}")
        return cls(published=True, abilities=reduce(or_, (known[name] for name in given), Ability(0)))

    def __str__(self) -> str:
        if not self.published:
            return _OURS
        return "+".join([_PUBLISHED, *[str(ability.name).lower() for ability in self.abilities]])

    def has(self, ability: Ability) -> bool:
        """Return whether programs may use an optional part."""
        return ability in self.abilities

    def features(self, of_device: Feature) -> Feature:
        """Return the features, of those of a device, that programs may use."""
        if not self.published:
            return of_device
        return of_device & reduce(or_, (_FEATURES.get(ability, Feature(0)) for ability in self.abilities), Feature(0))

    def check_config(self, cfg: VTAConfig) -> None:
        """Raise ConfigError for a configuration whose instructions the published C bit-fields place elsewhere."""
        if self.published and (wrong := misplaced(cfg)):
            raise ConfigError(wrong)


VTAKIT = Isa()


def overwrite_bit(cfg: VTAConfig) -> int:
    """Return the bit of an instruction in which a GEMM's overwrite is, and no instruction of the published set has a field."""
    return 1 << next(place.offset for place in FORMATS[Opcode.GEMM].place(cfg) if place.field.name == "overwrite")


def misplaced(cfg: VTAConfig) -> str:
    """Return why the published C bit-fields of a configuration are not where the specification has them; "" if they are."""
    used = _BESIDE_INDICES + 2 * cfg.uop_depth_log2
    if used + cfg.acc_depth_log2 > _WORD_BITS:
        return ""
    short, wrong = _WORD_BITS - used - cfg.acc_depth_log2, (
        f"the published C bit-fields put dst_out into the first word of a GEMM, where {_WORD_BITS - used} bits are left for its "
        f"{cfg.acc_depth_log2}; the specification has it in the second word")
    cures = []
    for name, more in (("log_uop_buff_size", short // 2 + 1), ("log_acc_buff_size", short + 1)):
        with suppress(ConfigError):
            replace(cfg, **{name: getattr(cfg, name) + more})
            cures.append(f"raise {name.upper()} {getattr(cfg, name)} by {more}")
    return f"{wrong}: {' or '.join(cures) or 'use another configuration, such as default'}"
