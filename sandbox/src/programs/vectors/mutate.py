# Reads a program, the names of functions (nothing for all code) and a number, and writes at most so many wrong versions of the program:
# for each a frame that says what was changed, and one with the source. The same input gives the same mutants, always.
#
# First all results are taken away, then single places are changed, spread evenly over the program.

import ast
import copy
import sys

COMPARISONS = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
CONNECTIVES = {ast.And: ast.Or, ast.Or: ast.And}


def main():
    names, limit, source = sys.stdin.buffer.read().decode().split("\n", 2)
    tree = ast.parse(source)
    names = names.split()
    chosen = [node for node in tree.body if not names or getattr(node, "name", None) in names]
    skipped = documentation(tree) | annotations(tree)
    places = [node for top in chosen for node in ast.walk(top) if id(node) not in skipped]
    returns = [node for node in places if isinstance(node, ast.Return) and node.value is not None]
    single = [node for node in places if change(copy.deepcopy(node))]
    if returns:
        emit(tree, returns, "every result became None", lambda node: setattr(node, "value", ast.Constant(None)))
    rest = int(limit) - bool(returns)
    for at in range(min(rest, len(single))):
        node = single[at * len(single) // min(rest, len(single))]
        emit(tree, [node], None, change)


def change(node):
    """Changes one place; says whether there was something to change."""
    if isinstance(node, ast.Compare):
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in OPERATORS:
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = CONNECTIVES[type(node.op)]()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node.op = ast.UAdd()
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        node.value += 1
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        node.value += "!"
    else:
        return False
    return True


def documentation(tree):
    """Texts that stand alone say nothing to the interpreter."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}


def annotations(tree):
    found = set()
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            annotation = getattr(node, field, None)
            if annotation is not None:
                found.update(id(inner) for inner in ast.walk(annotation))
    return found


def emit(tree, nodes, what, changing):
    # The copy has its nodes in the same order.
    twins = dict(zip(map(id, ast.walk(tree)), ast.walk(twin := copy.deepcopy(tree))))
    for node in nodes:
        before = ast.unparse(node)
        changing(twins[id(node)])
        shown = what or "line %d: `%s` became `%s`" % (node.lineno, before, ast.unparse(twins[id(node)]))
    for text in (shown, ast.unparse(twin)):
        data = text.encode("utf-8", "surrogatepass")
        sys.stdout.buffer.write(b"%d:%b" % (len(data), data))


main()
