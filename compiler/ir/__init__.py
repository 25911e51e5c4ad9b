"""The loop IR: what every later stage of the compiler reads and writes.

Expressions (`vtakit.compiler.ir.expr`) and statements (`vtakit.compiler.ir.stmt`) are values: nothing changes one after
it is made, and a pass returns a new one. It depends on nothing but the standard library.

A printer knows every kind of node, so nodes cannot know the printer: the package gives it to them.
"""

from vtakit.compiler.ir.base import PRINTERS, Expr
from vtakit.compiler.ir.printer import expr_text, function_text, stmt_text
from vtakit.compiler.ir.stmt import Function, Stmt

PRINTERS.update({Expr: expr_text, Stmt: stmt_text, Function: function_text})
