"""NVIDIA's driver through `cuda.bindings.driver`: loaded when it is first needed; every failure is a sentence."""

import functools
import threading
from typing import Any

from vtakit.runtime.cuda.errors import CudaError

INSTALL = "install NVIDIA's driver on a machine with such a GPU, or use device \"emulator\", target 'llvm', or target 'opencl'"
_LOST = "the GPU does nothing more for this process: start it again"
_HINTS = {  # what helps, by the driver's name of an error
    "CUDA_ERROR_OUT_OF_MEMORY": "free arrays of the device, or use smaller ones",
    "CUDA_ERROR_ILLEGAL_ADDRESS":
        f"a kernel touched memory outside of its arrays; {_LOST}, with device \"emulator\", which names the access",
    "CUDA_ERROR_MISALIGNED_ADDRESS":
        f"a kernel touched memory at an address that is no multiple of the access's size; {_LOST}",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "the system ended a kernel that took too long",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION":
        "the driver is older than the code: install a newer one, or ptxas (pip install 'vtakit[gpu]'), with which modules hold "
        "machine code",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the code is made for another architecture: compile for target('cuda', arch=…) of this GPU",
    "CUDA_ERROR_INVALID_PTX": "the code is made for another architecture, or damaged: compile it again",
}
_lock = threading.Lock()


@functools.cache
def bindings() -> Any:
    """Return the module `cuda.bindings.driver`, its driver initialised. Raises CudaError without package, driver or GPU."""
    try:
        from cuda.bindings import driver
    except ImportError:
        raise CudaError("device 'cuda' needs the package cuda-bindings: pip install 'vtakit[gpu]'") from None
    with _lock:
        try:
            (status,) = driver.cuInit(0)
        except Exception:  # the package has an error of its own for a missing library, in each version another
            raise CudaError(f"this machine has no driver of NVIDIA's: {INSTALL}") from None
    if status != driver.CUresult.CUDA_SUCCESS:
        raise CudaError(f"NVIDIA's driver finds no GPU ({status.name}): {INSTALL}")
    return driver


def missing() -> str:
    """Return why no GPU can be used, as a sentence; "" if one can."""
    try:
        bindings()
    except CudaError as error:
        return str(error)
    return ""


def call(what: str, name: str, *args: Any) -> Any:
    """Call a function of the driver and return its result: None, a value, or a tuple of several.

    what : in messages: what was asked, as "arrays of 4 bytes on cuda:0"

    Raises CudaError, or MemoryError where the device's memory ran out.
    """
    driver = bindings()
    status, *found = getattr(driver, name)(*args)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise failure(what, status.name)
    return None if not found else found[0] if len(found) == 1 else tuple(found)


def failure(what: str, status: str, log: str = "") -> Exception:
    """Return the error for a status of the driver; `log` is what its compiler said."""
    said = "; ".join(line.strip() for line in log.splitlines() if line.strip())
    text = f"{what}: the driver says {status}" + (f" ({said[:2000]})" if said else "")
    if status in _HINTS:
        text += f"; {_HINTS[status]}"
    return MemoryError(text) if status == "CUDA_ERROR_OUT_OF_MEMORY" else CudaError(text)


def version() -> tuple[int, int]:
    """Return the version of CUDA that the driver is for, as (13, 0)."""
    number = int(call("the version of the driver", "cuDriverGetVersion"))
    return number // 1000, number % 1000 // 10
