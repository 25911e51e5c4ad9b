"""Errors that the interpreter finds in a program."""


class InterpretError(RuntimeError):
    """The program does what no program may; the message ends with the program and a mark."""


class ArgumentError(InterpretError):
    """An argument is not what the function takes."""


class OutOfBoundsError(InterpretError):
    """An index is outside its buffer."""


class UndefinedValueError(InterpretError):
    """A value that was never defined is computed with, or an operation is undefined for its operands."""


class RaceError(InterpretError):
    """Two threads touch an element between two barriers, and one of them writes."""


class DivergenceError(InterpretError):
    """Threads wait at different barriers, or some wait while others have ended."""


class TokenError(InterpretError):
    """A stage of a coprocessor waits for a token that nobody pushes."""
