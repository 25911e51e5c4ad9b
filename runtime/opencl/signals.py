"""Signal handlers of the process, kept while a driver begins its work.

LLVM within PoCL replaces the handlers of a process when its devices are first listed: that of Ctrl-C too, so that Python would
not see it, and what it writes would be left half-done. The signals of faults are left to the driver: PoCL's own handler of SIGFPE
lets a kernel go on after an integer division by zero.
"""

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_BYTES = 256  # room for a struct sigaction, which no system has larger
_FIXED = {"SIGKILL", "SIGSTOP"}  # POSIX, sigaction
_FAULTS = {"SIGFPE", "SIGSEGV", "SIGBUS", "SIGILL"}  # raised by an instruction, which is the driver's


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Restore the handler of each signal but those of faults at the end; on Windows nothing is to be done."""
    if os.name != "posix":
        yield
        return
    sigaction = ctypes.CDLL(None).sigaction
    saved = {}
    for number in (int(each) for each in signal.Signals if each.name not in _FIXED | _FAULTS):
        handler = ctypes.create_string_buffer(_BYTES)
        if sigaction(number, None, handler) == 0:
            saved[number] = handler
    try:
        yield
    finally:
        for number, handler in saved.items():
            sigaction(number, handler, None)
