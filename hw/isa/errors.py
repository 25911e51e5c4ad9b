"""Errors of configurations, instructions, programs and assembly text."""

from vtakit.base.errors import VtakitError


class ConfigError(VtakitError, ValueError):
    """A hardware configuration that is illegal, unknown or unreadable."""


class EncodingError(VtakitError, ValueError):
    """An instruction or micro-op that the instruction set cannot express, or bits that are none."""


class ProgramError(VtakitError, ValueError):
    """A program or program file that is inconsistent, damaged or made for something else."""


class AsmError(VtakitError, ValueError):
    """Assembly text that cannot be read; the message starts with the line number."""
