"""Target of code generation: a triple, a processor and its features."""

import functools
import re
from dataclasses import dataclass, replace
from typing import Any, Self

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.machine import Machine

# A feature and what a processor with it has too, as far as code generation asks (Intel SDM volume 1, chapter 5).
_IMPLIED = {
    "amx-int8": ("amx-tile",),
    "amx-bf16": ("amx-tile",),
    "avx512bf16": ("avx512bw",),
    "avx512vnni": ("avx512f",),
    "avx512vpopcntdq": ("avx512f",),
    "avx512vl": ("avx512f",),
    "avx512bw": ("avx512f",),
    "avx512dq": ("avx512f",),
    "avxvnni": ("avx2",),
    "avxvnniint8": ("avx2",),
    "avx512f": ("avx2", "fma", "f16c"),
    "avx2": ("avx",),
    "fma": ("avx",),
    "f16c": ("avx",),
    "avx": ("sse4.1",),
}
# LLVM's names of processors, with those features of each that code generation asks for: first the levels of the x86-64 psABI.
_V3 = ("avx2", "fma", "f16c", "popcnt", "lzcnt")
_V4 = (*_V3, "avx512f", "avx512vl", "avx512bw", "avx512dq")
_VNNI = (*_V4, "avx512vnni")
_POPCOUNT = (*_VNNI, "avx512vpopcntdq")
PROCESSORS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "x86-64": (), "x86-64-v2": ("sse4.1", "popcnt"), "x86-64-v3": _V3, "x86-64-v4": _V4,
        **dict.fromkeys(("haswell", "broadwell", "skylake", "znver1", "znver2", "znver3"), _V3),
        **dict.fromkeys(("alderlake", "arrowlake"), (*_V3, "avxvnni")),
        "skylake-avx512": _V4,
        "cascadelake": _VNNI, "cooperlake": (*_VNNI, "avx512bf16"),
        **dict.fromkeys(("icelake-client", "icelake-server", "tigerlake", "rocketlake"), _POPCOUNT),
        "znver4": (*_POPCOUNT, "avx512bf16"), "znver5": (*_POPCOUNT, "avx512bf16", "avxvnni"),
        **dict.fromkeys(("sapphirerapids", "graniterapids"), (*_POPCOUNT, "avx512bf16", "avxvnni", "amx-int8", "amx-bf16")),
    },
    "aarch64": {
        **dict.fromkeys((
            "neoverse-n2", "neoverse-v1", "neoverse-v2", "grace", "ampere1", "cortex-a710", "cortex-x2", "apple-m2", "apple-m3",
        ), ("dotprod", "i8mm")),
        **dict.fromkeys(("neoverse-n1", "cortex-a55", "cortex-a75", "cortex-a76", "cortex-a78", "apple-m1"), ("dotprod",)),
    },
}
_OF_32_BITS = re.compile(r"wasm32|riscv32|i[3-7]86|arm.*|thumb.*|mips(?:el)?|powerpc|sparc(?:el)?|loongarch32|hexagon")
_ARM_OF_32_BITS = ("arm", "thumb")  # begin so; `Target.arch` calls arm64 aarch64
_ADDS_FLOATS = "define float @f(float %x) {\n  %y = fadd float %x, %x\n  ret float %y\n}\n"
_KINDS = {str: "text", tuple: "a tuple of text", bool: "True or False"}  # of its fields
_SYSTEMS = (
    ("windows-gnu", "mingw"), ("mingw", "mingw"), ("windows", "windows"), ("linux", "linux"), ("darwin", "macos"),
    ("macos", "macos"),
)


@dataclass(frozen=True, slots=True)
class Target:
    """A machine to make code for.

    triple   : as LLVM and GCC write it: ``x86_64-unknown-linux-gnu``, ``aarch64-linux-gnu``, ``wasm32-unknown-unknown``
    cpu      : LLVM's name of a processor, which sets its scheduling model; "" for the architecture's baseline
    features : LLVM's names, each with a sign: ``("+avx2", "+fma")``; what chooses micro-kernels and conversions are these, and
               those of processors that `PROCESSORS` lists, not what another `cpu` implies
    contract : whether ``a * b + c`` of floats may be rounded once; off, results are those of the interpreter
    threads  : whether parallel loops call an OpenMP runtime, where the system has one; off, they are serial
    machine  : record that estimates read; None for that of the processor (`compiler.codegen.llvm.machines`)
    """

    triple: str
    cpu: str = ""
    features: tuple[str, ...] = ()
    contract: bool = True
    threads: bool = True
    machine: Machine | None = None

    def __post_init__(self) -> None:
        if isinstance(self.features, list):
            object.__setattr__(self, "features", tuple(self.features))
        for name, kind in (("triple", str), ("cpu", str), ("features", tuple), ("contract", bool), ("threads", bool)):
            if not isinstance(getattr(self, name), kind):
                raise CodegenError(f"{name} of a target is {getattr(self, name)!r:.80} and must be {_KINDS[kind]}")
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", self.triple):
            raise CodegenError(f"{self.triple!r:.80} is no target triple: one looks like 'x86_64-unknown-linux-gnu'")
        for feature in self.features:
            if not isinstance(feature, str) or not re.fullmatch(r"[+-][A-Za-z0-9_.-]+", feature):
                raise CodegenError(f"{feature!r:.80} is no feature of a target: each starts with + or -, as in '+avx2'")

    @classmethod
    def host(cls, **changes: Any) -> Self:
        """The machine that this runs on; `changes` replace fields."""
        triple, cpu, features = _host()
        return replace(cls(triple, cpu, features), **changes)

    @property
    def arch(self) -> str:
        """The first part of the triple, with the x86-64 spellings made one."""
        first = self.triple.partition("-")[0]
        return {"amd64": "x86_64", "arm64": "aarch64"}.get(first, first)

    @property
    def system(self) -> str:
        """The operating system, as far as linking asks: "linux", "macos", "windows" (MSVC's), "mingw"; "" for another or none."""
        for word, name in _SYSTEMS:
            if word in self.triple:
                return name
        return ""

    @property
    def parallel(self) -> bool:
        """Return whether parallel loops run on several threads.

        They call GCC's entry points, which libgomp and LLVM's libomp have, but not the runtimes of Windows; WebAssembly and
        machines without a system have none.
        """
        return self.threads and (self.system in ("linux", "macos", "mingw") or "bsd" in self.triple)

    @property
    def llvm_triple(self) -> str:
        """The triple with its vendor, without which LLVM takes the calling convention of 32-bit Arm from another part."""
        parts = self.triple.split("-")
        if self.arch.startswith(_ARM_OF_32_BITS) and len(parts) == 3 and parts[1] in ("linux", "none"):
            parts.insert(1, "unknown")
        return "-".join(parts)

    @property
    def passes_floats_in_registers(self) -> bool:
        """True for 32-bit Arm with the hard-float ABI."""
        return self.arch.startswith(_ARM_OF_32_BITS) and self.llvm_triple.endswith("eabihf")

    @property
    def abi(self) -> str:
        """The name of the calling convention where LLVM's own is not that of the system's compilers; "" elsewhere."""
        return "lp64d" if self.arch == "riscv64" and self.system == "linux" else ""

    @property
    def pointer_bits(self) -> int:
        return 32 if _OF_32_BITS.fullmatch(self.arch) else 64

    @property
    def is_known(self) -> bool:
        """Return whether the target is this machine's architecture, and LLVM is certain to know its processor and features."""
        triple, cpu, features = _host()
        known = {feature[1:] for feature in features} | {"prefer-256-bit"}
        x86 = self.arch == "x86_64" and "linux" in self.triple and self.cpu in PROCESSORS["x86_64"]
        fits = self.arch == triple.partition("-")[0] and (x86 or (self.triple == triple and self.cpu in ("", cpu)))
        return fits and known.issuperset(feature[1:] for feature in self.features)

    def has(self, feature: str) -> bool:
        """Return whether the target is known to have the feature."""
        return feature in _known(self)

    def lacks(self, other: "Target") -> tuple[str, ...]:
        """The features that code for another target may use and this one is not known to have, sorted."""
        return tuple(sorted(_known(other) - _known(self)))

    def runs(self, other: "Target") -> bool:
        """Return whether code for another target of this architecture is certain to run here."""
        return self.arch == other.arch and not self.lacks(other)

    @property
    def has_fma(self) -> bool:
        """Return whether a fused multiply-add is one instruction."""
        return self.arch in ("aarch64", "nvptx64") or self.has("fma")

    @property
    def vector_bytes(self) -> int:
        """Return the size of the widest vector register in bytes."""
        return 64 if self.has("avx512f") else 32 if self.has("avx2") else 16

    @property
    def vector_registers(self) -> int:
        """Return the number of vector registers."""
        return 32 if self.has("avx512f") or self.arch == "aarch64" else 16

    def __str__(self) -> str:
        return " ".join(filter(None, (self.triple, self.cpu)))


@functools.cache
def _known(target: Target) -> frozenset[str]:
    found = set(PROCESSORS.get(target.arch, {}).get(target.cpu, ()))
    found |= {feature[1:] for feature in target.features if feature[0] == "+"}
    todo = list(found)
    while todo:
        for feature in _IMPLIED.get(todo.pop(), ()):
            if feature not in found:
                found.add(feature)
                todo.append(feature)
    return frozenset(found - {feature[1:] for feature in target.features if feature[0] == "-"})


@functools.cache
def _host() -> tuple[str, str, tuple[str, ...]]:
    import llvmlite.binding as llvm  # loading LLVM takes a while, and only those who compile need it

    features = llvm.get_host_cpu_features()
    flags = tuple(("+" if on else "-") + name for name, on in sorted(features.items()))
    # Without this LLVM keeps to 256 bits on some processors with 512, even for vectors that a schedule made 512 bits wide.
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), (*flags, "-prefer-256-bit") if features.get("avx512f") else flags


@functools.cache
def target_machine(target: Target) -> Any:
    """Return LLVM's target machine; raises CodegenError for a triple that LLVM does not know."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        found = llvm.Target.from_triple(target.llvm_triple)
    except RuntimeError as error:
        raise CodegenError(f"LLVM has no target for the triple {target.triple!r} ({error}): use one such as "
                           "'x86_64-unknown-linux-gnu', 'aarch64-linux-gnu' or 'wasm32-unknown-unknown'") from None
    own: tuple[str, ...] = ()
    if target.abi == "lp64d":
        own = ("+m", "+a", "+f", "+d", "+c")  # rv64gc, which every Linux of RISC-V is made for
    elif target.passes_floats_in_registers and target.system == "linux" and not target.cpu:
        own = ("+armv7-a", "+vfp3d16")  # of Debian's armhf
    made = found.create_target_machine(
        cpu=target.cpu, features=",".join((*own, *target.features)), opt=3, reloc="pic", codemodel="default"
    )
    if target.passes_floats_in_registers and "vadd.f32" not in made.emit_assembly(llvm.parse_assembly(_ADDS_FLOATS)):
        raise CodegenError(f"{target.triple!r} passes floats in registers of a floating-point unit, and "
                           f"{target.cpu or 'its processor'} has none: name one that has, such as cortex-a9, or a triple "
                           "that ends in eabi")
    return made
