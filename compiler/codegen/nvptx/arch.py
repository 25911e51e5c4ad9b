"""Architectures of NVIDIA GPUs by name, with the version of PTX that each needs and the limits of its blocks."""

from collections.abc import Mapping
from dataclasses import dataclass

from vtakit.base.errors import one_of
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.lower import Limits

# Architecture -> version of PTX that it came with (PTX ISA, "Release Notes"), and bytes of shared memory that one block may
# have (CUDA programming guide, "Technical Specifications per Compute Capability").
_KNOWN: Mapping[str, tuple[int, int]] = {
    "sm_80": (70, 163 << 10), "sm_86": (71, 99 << 10), "sm_87": (74, 163 << 10), "sm_89": (78, 99 << 10),
    "sm_90": (78, 227 << 10), "sm_90a": (80, 227 << 10),
    "sm_100": (86, 227 << 10), "sm_100a": (86, 227 << 10), "sm_103": (88, 227 << 10), "sm_103a": (88, 227 << 10),
    "sm_120": (87, 99 << 10), "sm_120a": (87, 99 << 10), "sm_121": (88, 99 << 10), "sm_121a": (88, 99 << 10),
}
ARCHES = tuple(_KNOWN)
DEFAULT_ARCH = "sm_80"
LEAST_PTX = 80  # of drivers since CUDA 12.0: what this code generator writes needs no later one
STATIC_BYTES = 48 << 10  # of shared memory that a kernel may declare; more of it is asked for at the launch
WARP = 32
MOST_THREADS = 1024  # of a block
MOST_BLOCKS = {"blockIdx.x": (1 << 31) - 1, "blockIdx.y": 65535, "blockIdx.z": 65535}
VECTOR_BYTES = 16  # of one access


@dataclass(frozen=True, slots=True)
class Arch:
    """A GPU to make code for.

    name     : as "sm_90a"; code for a name that ends in "a" runs on that architecture only
    contract : whether ``a * b + c`` of floats is rounded once; off, results are those of the interpreter
    """

    name: str = DEFAULT_ARCH
    contract: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in _KNOWN:
            given = self.name if isinstance(self.name, str) else ""
            raise CodegenError(f"there is no GPU architecture {self.name!r:.40}; {one_of(ARCHES, given)}")
        if not isinstance(self.contract, bool):
            raise CodegenError(f"contract of a GPU is {self.contract!r:.40} and must be True or False")

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability that its code is made for, as (9, 0)."""
        number = int(self.name[3:].rstrip("a"))
        return number // 10, number % 10

    @property
    def exact(self) -> bool:
        """Return whether its code runs on no later architecture."""
        return self.name.endswith("a")

    @property
    def ptx(self) -> int:
        """Version of PTX that is written, as 80 for 8.0."""
        return max(LEAST_PTX, _KNOWN[self.name][0])

    @property
    def shared_bytes(self) -> int:
        """Most bytes of shared memory of one block."""
        return _KNOWN[self.name][1]

    @property
    def llvm(self) -> Target:
        """The target of LLVM."""
        return Target("nvptx64-nvidia-cuda", self.name, (f"+ptx{self.ptx}",), self.contract, threads=False)

    @property
    def limits(self) -> Limits:
        """Limits that the verifier checks."""
        return Limits(
            threads=MOST_THREADS, thread_extents={"threadIdx.x": 1024, "threadIdx.y": 1024, "threadIdx.z": 64},
            vector_bytes=VECTOR_BYTES, scope_bytes={"shared": self.shared_bytes},
        )

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Return whether a device of a compute capability runs its PTX."""
        return self.capability == capability if self.exact else self.capability <= capability


def arch_of(capability: tuple[int, int]) -> Arch:
    """Return the architecture whose code is best for a device: its own, else the latest before it."""
    major, minor = capability
    own = f"sm_{major}{minor}"
    names = [name for name in (f"{own}a", own) if name in _KNOWN]
    names += [name for name in reversed(ARCHES) if not name.endswith("a") and Arch(name).capability <= capability]
    if not names:
        raise CodegenError(f"a device of compute capability {major}.{minor} is older than {ARCHES[0]}, the first that there is "
                           "code for")
    return Arch(names[0])
