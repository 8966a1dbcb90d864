"""Settings that fairseq runs as Python: they are read as literals.

fairseq (0.12.2 and fairseq-fixed 0.12.3.1) hands some settings to ``eval``: fconv's
``--encoder-layers '[(512, 3)] * 20'``, Adam's ``--adam-betas '(0.9, 0.98)'``, wav2vec's layers and
some twenty more. A checkpoint brings its settings along, so that whoever translates with a
stranger's checkpoint runs what the stranger wrote. Here the name ``eval`` means
:func:`read_literal` in every module of fairseq's, its examples included.
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
LONGEST = 100_000  # characters of a setting, or of a line of speech units, which is read alike
LARGEST = 100_000  # numbers, characters and sequences that it may be made of
DEEPEST = 50
UNREADABLE = (
    *(SyntaxError, ValueError, LookupError, ArithmeticError, TypeError),
    *(RecursionError, MemoryError),  # thousands of brackets or signs
)


@around(utils, "import_user_module")
def _mend_what_it_imports(import_user_module, args):
    import_user_module(args)
    _mend_imported()


@when_applied
def _mend_imported():
    """A name of the module's own comes before the built-in one."""
    for module in list(sys.modules.values()):
        if is_of_fairseq(module):
            module.eval = read_literal


def is_of_fairseq(module):
    """Whether a module lies in fairseq's folders, whatever it was imported as."""
    path = getattr(module, "__file__", None) or ""
    installed = os.path.dirname(os.path.dirname(fairseq.__file__))
    return path.startswith(tuple(os.path.join(installed, name, "") for name in PACKAGES))


def read_literal(text):
    """The value of a Python literal: what fairseq's settings are, though ``eval`` reads them.

    Args:
        text (str): numbers, strings, None, True, False, tuples, lists, dictionaries and sets of
            them, and sums, differences, products and quotients, as in
            ``[(512, 3)] * 20 + [(1024, 1)]``.

    Raises:
        UsageError: it is anything else, or too large.
        TypeError: it is not a string, as of ``eval``.
    """
    if not isinstance(text, str):
        raise TypeError(f"a setting must be a string, not {type(text).__name__}")
    if len(text) > LONGEST:
        raise UsageError(f"a setting of {len(text):,} characters is too long: {_shown(text)}")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, DEEPEST)
    except UNREADABLE:
        raise UsageError(
            f"the setting {_shown(text)} is refused: only numbers, strings, tuples, lists and "
            "products of them such as [(512, 3)] * 20 are read"
        ) from None


def _shown(text):
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _value(node, depth):
    """The value of a part of a literal. Raises ValueError for what is none."""
    if depth == 0:
        raise ValueError
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str, type(None))):
        value = node.value
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        kind = {ast.Tuple: tuple, ast.List: list, ast.Set: set}[type(node)]
        value = kind(_value(element, depth - 1) for element in node.elts)
    elif isinstance(node, ast.Dict):  # a key of None is **, which has no value
        keys, values = ([_value(n, depth - 1) for n in part] for part in (node.keys, node.values))
        value = dict(zip(keys, values, strict=True))
    elif isinstance(node, ast.UnaryOp):
        value = SIGNS[type(node.op)](_value(node.operand, depth - 1))
    elif isinstance(node, ast.BinOp):
        left, right = (_value(operand, depth - 1) for operand in (node.left, node.right))
        value = OPERATIONS[type(node.op)](left, right)
    else:
        raise ValueError
    if _size(value) > LARGEST:
        raise ValueError
    return value


def _product(left, right):
    """``left * right``, unless a sequence that is repeated would be too large."""
    for sequence, times in ((left, right), (right, left)):
        if not isinstance(sequence, (int, float)) and _size(sequence) * times > LARGEST:
            raise ValueError
    return left * right


def _size(value):
    """Of how many parts a value is made, characters of strings among them."""
    if isinstance(value, str):
        return 1 + len(value)
    if isinstance(value, dict):
        return 1 + sum(map(_size, value)) + sum(map(_size, value.values()))
    if isinstance(value, (list, tuple, set)):
        return 1 + sum(map(_size, value))
    return 1


SIGNS = {ast.UAdd: operator.pos, ast.USub: operator.neg}
OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _product,
    ast.Div: operator.truediv,
}
