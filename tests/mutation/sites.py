"""Mutation sites of the RTL's source: each operator, constant and condition becomes a call that can put another in its place."""

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

HELPER = "__mutate__"  # what `mutation.schemata` is called in a rewritten module
OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}
SWAPS = {
    "+": "-", "-": "+", "*": "+", "&": "|", "|": "&", "^": "|", "<<": ">>", ">>": "<<",
    "==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">",
}
_KINDS = {sign: kind for kind, sign in OPERATORS.items()}
REDUCTIONS = {"any": "all", "all": "any"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One mutant: at this place of a file, `before` becomes `after`.

    number  selects it
    nth     of the places of the file with this change: 1, 2, …
    """

    number: int
    file: str
    line: int
    nth: int
    kind: str
    before: str
    after: str

    @property
    def key(self) -> str:
        """What names it even when lines move."""
        again = f" ({self.nth})" if self.nth > 1 else ""
        return f"{self.file}: {self.before}  ->  {self.after}{again}"


def rewrite(source: str, file: str, first: int) -> tuple[ast.Module, list[Site]]:
    """The module with every site in a function rewritten, and the sites, numbered from `first` on."""
    rewriter = _Rewriter(file, first)
    tree = ast.fix_missing_locations(rewriter.visit(ast.parse(source)))
    return tree, rewriter.sites


def is_number(node: ast.expr) -> bool:
    """Whether the node is an integer as it is written."""
    return isinstance(node, ast.Constant) and type(node.value) is int


def other_number(value: int) -> int:
    """What a constant becomes: 0 and 1 change places, and so on upwards."""
    return value ^ 1


class _Rewriter(ast.NodeTransformer):
    """Operands are evaluated once, as in the original: the helper makes the original and the mutants of their values."""

    def __init__(self, file: str, first: int) -> None:
        self.file, self.next, self.sites = file, first, list[Site]()
        self.seen = Counter[tuple[str, str]]()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.body = [self.visit(statement) for statement in node.body]  # no defaults, decorators and annotations
        return node

    def visit_Module(self, node: ast.Module | ast.ClassDef) -> ast.Module | ast.ClassDef:
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                self.visit(statement)
        return node

    visit_ClassDef = visit_Module

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        node.value = self.visit(node.value)  # bounds of slices are Python's
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return self._two(node, node.op, node.left, node.right)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) > 1:
            return node
        return self._two(node, node.ops[0], node.left, node.comparators[0])

    def _two(self, node: ast.BinOp | ast.Compare, op: ast.AST, left: ast.expr, right: ast.expr) -> ast.expr:
        sign = OPERATORS.get(type(op))
        if sign is None:
            self.generic_visit(node)
            return node
        text = ast.unparse(node)
        numbers = [self._site(node, "operator", text, _text(node, _KINDS[SWAPS[sign]](), left, right))]
        for operand in (left, right):
            if is_number(operand):
                sides = [ast.Constant(other_number(side.value)) if side is operand else side for side in (left, right)]
                numbers.append(self._site(node, "constant", text, _text(node, op, *sides)))
            else:
                numbers.append(0)
        return _call("binary", ast.Constant(sign), self.visit(left), self.visit(right), *map(ast.Constant, numbers))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if not isinstance(node.op, ast.Invert) or is_number(node.operand):
            self.generic_visit(node)
            return node
        text = ast.unparse(node.operand)
        number = self._site(node, "operator", ast.unparse(node), text)
        return _call("invert", self.visit(node.operand), ast.Constant(number))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else None
        if method in REDUCTIONS and not node.args:
            assert isinstance(node.func, ast.Attribute)
            other = ast.Call(ast.Attribute(node.func.value, REDUCTIONS[method], ast.Load()), [], [])
            number = self._site(node, "operator", ast.unparse(node), ast.unparse(other))
            return _call("reduction", ast.Constant(method), self.visit(node.func.value), ast.Constant(number))
        is_mux = isinstance(node.func, ast.Name) and node.func.id == "Mux"
        texts = [ast.unparse(argument) for argument in node.args]
        what = ast.unparse(node.func)
        arguments = []
        for n, argument in enumerate(node.args):
            if n == 0 and (is_mux or method in ("If", "Elif")):
                numbers = [
                    self._site(node, "condition", _call_text(what, texts), _call_text(what, [stuck, *texts[1:]]))
                    for stuck in ("0", "1")
                ]
                arguments.append(_call("condition", self.visit(argument), *map(ast.Constant, numbers)))
            elif is_number(argument) and (is_mux or method == "eq"):
                other = str(other_number(argument.value))
                changed = [other if at == n else text for at, text in enumerate(texts)]
                number = self._site(node, "constant", _call_text(what, texts), _call_text(what, changed))
                arguments.append(_call("constant", argument, ast.Constant(number)))
            else:
                arguments.append(self.visit(argument))
        node.args = arguments
        node.func = self.visit(node.func)
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        return node

    def _site(self, node: ast.expr, kind: str, before: str, after: str) -> int:
        number, self.next = self.next, self.next + 1
        self.seen[before, after] += 1
        nth = self.seen[before, after]
        self.sites.append(
            Site(number=number, file=self.file, line=node.lineno, nth=nth, kind=kind, before=before, after=after)
        )
        return number


def _text(node: ast.BinOp | ast.Compare, op: ast.AST, left: ast.expr, right: ast.expr) -> str:
    """The node with another operator or operands, as it is written."""
    return ast.unparse(ast.BinOp(left, op, right) if isinstance(node, ast.BinOp) else ast.Compare(left, [op], [right]))


def _call_text(what: str, arguments: Sequence[str]) -> str:
    return f"{what}({', '.join(arguments)})"


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    helper = ast.Attribute(ast.Name(HELPER, ast.Load()), name, ast.Load())
    return ast.Call(helper, list(arguments), [])
