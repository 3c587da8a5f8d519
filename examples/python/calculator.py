"""A tool in Python: a function. Its schema is read from the signature and this form of docstring.

    tools: {calculate: {type: plugin, plugin: examples/python/calculator.py, timeout_s: 2}}
"""

import ast
import operator

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


def _value(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp):
        return OPERATORS[type(node.op)](_value(node.operand))
    raise ValueError("only numbers and + - * / are taken")


def calculate(expression: str) -> str:
    """Computes an arithmetic expression.

    Args:
        expression: numbers, + - * / and brackets, e.g. (3 + 4) * 12
    """
    return str(_value(ast.parse(expression, mode="eval").body))
