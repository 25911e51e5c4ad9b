"""Sentences about graphs that PyTorch runs itself, each said once."""

import threading
import warnings


class RunsInPyTorch(UserWarning):
    """A graph, or a part of it, that PyTorch runs because vtakit does not."""


_SAID: set[str] = set()
_LOCK = threading.Lock()


def say(text: str) -> None:
    """Warn with a text that was not said before in this process."""
    with _LOCK:
        new = text not in _SAID
        _SAID.add(text)
    if new:
        warnings.warn(f'torch.compile(backend="vtakit"): {text}', RunsInPyTorch, stacklevel=2)


def forget() -> None:
    """Say everything anew, as `torch.compiler.reset` starts anew."""
    with _LOCK:
        _SAID.clear()
