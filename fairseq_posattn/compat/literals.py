"""Settings that fairseq passes to ``eval`` are read as literals.

fairseq evaluates fconv's ``--encoder-layers '[(512, 3)] * 20'``, Adam's ``--adam-betas`` and about
twenty more settings. A checkpoint brings its settings along, so that translating with a stranger's
checkpoint runs the stranger's code. In every module of fairseq, examples included, the name
``eval`` here means :func:`read_literal`.
"""

import ast
import operator
import os
import sys

import fairseq
from fairseq import utils

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.patching import around, when_applied

PACKAGES = ("fairseq", "fairseq_cli")
MAX_CHARACTERS = 100_000  # of a setting, or of a line of speech units, which is read alike
MAX_PARTS = 100_000  # numbers, characters and sequences in one value
MAX_DEPTH = 50
UNREADABLE = (
    *(SyntaxError, ValueError, LookupError, ArithmeticError, TypeError),
    *(RecursionError, MemoryError),  # thousands of brackets or signs
)


@around(utils, "import_user_module")
def _replace_eval_in_imported_modules(import_user_module, args):
    import_user_module(args)
    replace_eval()


@when_applied
def replace_eval():
    """Define ``eval`` in all loaded modules of fairseq, where it shadows the built-in function."""
    for module in list(sys.modules.values()):
        if is_of_fairseq(module):
            module.eval = read_literal


def is_of_fairseq(module):
    """Return whether a module's file is in fairseq's folders, under any module name."""
    path = getattr(module, "__file__", None) or ""
    installed = os.path.dirname(os.path.dirname(fairseq.__file__))
    return path.startswith(tuple(os.path.join(installed, name, "") for name in PACKAGES))


def read_literal(text):
    """Return the value of a Python literal.

    Args:
        text (str): numbers, strings, None, True, False, tuples, lists, dictionaries and sets of
            them, and arithmetic with + - * /, as in ``[(512, 3)] * 20 + [(1024, 1)]``.

    Raises:
        UsageError: it is anything else, or too large.
        TypeError: it is not a string, as for ``eval``.
    """
    if not isinstance(text, str):
        raise TypeError(f"a setting must be a string, not {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"a setting of {len(text):,} characters is too long: {_shorten(text)}")
    try:
        return _evaluate(ast.parse(text.strip(), mode="eval").body, MAX_DEPTH)
    except UNREADABLE:
        raise UsageError(
            f"the setting {_shorten(text)} is refused: only numbers, strings, tuples, lists and "
            "arithmetic such as [(512, 3)] * 20 are read"
        ) from None


def _shorten(text):
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _evaluate(node, depth):
    """Return the value of a node of a literal; raise ValueError for any other node."""
    if depth == 0:
        raise ValueError
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str, type(None))):
        value = node.value
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        kind = {ast.Tuple: tuple, ast.List: list, ast.Set: set}[type(node)]
        value = kind(_evaluate(element, depth - 1) for element in node.elts)
    elif isinstance(node, ast.Dict):  # a key of None is **, which has no value
        keys, values = (
            [_evaluate(part, depth - 1) for part in parts] for parts in (node.keys, node.values)
        )
        value = dict(zip(keys, values, strict=True))
    elif isinstance(node, ast.UnaryOp):
        value = SIGNS[type(node.op)](_evaluate(node.operand, depth - 1))
    elif isinstance(node, ast.BinOp):
        left, right = (_evaluate(operand, depth - 1) for operand in (node.left, node.right))
        value = OPERATIONS[type(node.op)](left, right)
    else:
        raise ValueError
    if _count_parts(value) > MAX_PARTS:
        raise ValueError
    return value


def _multiply(left, right):
    """Return ``left * right``; raise ValueError if a repeated sequence would be too large."""
    for sequence, times in ((left, right), (right, left)):
        if not isinstance(sequence, (int, float)) and _count_parts(sequence) * times > MAX_PARTS:
            raise ValueError
    return left * right


def _count_parts(value):
    if isinstance(value, str):
        return 1 + len(value)
    if isinstance(value, dict):
        return 1 + sum(map(_count_parts, value)) + sum(map(_count_parts, value.values()))
    if isinstance(value, (list, tuple, set)):
        return 1 + sum(map(_count_parts, value))
    return 1


SIGNS = {ast.UAdd: operator.pos, ast.USub: operator.neg}
OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _multiply,
    ast.Div: operator.truediv,
}
