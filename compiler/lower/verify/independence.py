"""Independence of indices: whether several indices over the same loops take all combinations of their values."""

from collections.abc import Iterable, Mapping

from vtakit.compiler.arith import Analyzer
from vtakit.compiler.arith.linear import Atom, Leaf, Linear
from vtakit.compiler.lower.verify.digit import Digit, Key


def dependence(analyzer: Analyzer, indices: Iterable[list[Digit]], sums: Mapping[Key, list[Digit]]) -> str:
    """Why indices, given by their digits, do not take all combinations of their values; "" if they do.

    sums : the digits of each source that is a sum, those of which others are made first
    """
    owner: dict[Atom, Key] = {}
    sources: dict[Key, list[Digit]] = {}
    for digits in indices:
        for digit in digits:
            sources.setdefault(digit.source, []).append(digit)
    for key, parts in reversed([*sums.items()]):
        digits_of_sum = sources.pop(key, None)
        if digits_of_sum is None:
            continue
        if not _disjoint(analyzer, digits_of_sum):
            return _shared(digits_of_sum)
        for part in parts:  # it is independent of all that its own digits are independent of
            sources.setdefault(part.source, []).append(part)
    for digits in sources.values():
        for digit in digits:
            for atom in digit.atoms:
                if owner.setdefault(atom, digit.source) != digit.source:
                    return f"{_name(atom)} stands in several of them"
    for digits in sources.values():
        if not _disjoint(analyzer, digits):
            return _shared(digits)
    return ""


def _shared(digits: list[Digit]) -> str:
    return f"{_name(min(digits[0].atoms, key=lambda a: a.order))} stands in several of them"


def _disjoint(analyzer: Analyzer, digits: list[Digit]) -> bool:
    """Return whether digits of one source neither overlap nor cut its values off."""
    rest, whole = [*digits], digits[0].total
    while len(digits) > 1 and rest:
        for digit in rest:
            end = analyzer.multiply(digit.lower, digit.width)
            others = [other.lower for other in rest if other is not digit]
            if all(_divides(analyzer, end, lower) for lower in (*others, whole)):
                rest.remove(digit)
                break
        else:
            return False
    return True


def _divides(analyzer: Analyzer, part: Linear, whole: Linear) -> bool:
    if not part.terms and not part.const:  # of a loop without iterations
        return analyzer.is_zero(whole)
    return analyzer.is_zero(analyzer.remainder(whole, part))


def _name(atom: Atom) -> str:
    return str(atom.expr) if isinstance(atom, Leaf) else "a loop variable"
