# Runs in a sandbox of its own, when the judged program is gone: executes the author's checks, in which the judged functions are
# stand-ins that ask for outcomes of operations. Outcomes that are known are given; from the first one that is not, the checks
# go on with guesses that agree with everything, so that one pass finds most of what will be asked. The pass then decides
# nothing from there on, and the operations that it asked for are performed before the next one.
#
# It answers with one letter for each check - A holds, W does not, R the program raised an exception, B the author's code is broken,
# ? not known yet - and, behind it, the operations that were asked for.


MAX_GUESSES = 5000


class Failed(AssertionError):
    pass


class Raised(Exception):
    """An exception of the judged program that has no name in builtins, or one that would be taken for the end of a loop."""


# Iterators of the language take them for their own: `all(map(check, table))` would hold for a program that only raises.
ENDS = StopIteration, StopAsyncIteration


class Examiner:
    def __init__(self, operations, outcomes):
        self.known = operations
        self.outcomes = outcomes
        self.asked = []
        self.guessing = False
        self.raised = []
        self.patience = MAX_GUESSES

    def ask(self, *operation, guess=None):
        self.tire()
        payload = encode(operation, index_of)
        index = len(self.asked)
        self.asked.append(payload)
        if not self.guessing:
            if index < len(self.outcomes) and self.known[index] == payload:
                return self.outcome(index)
            self.guessing = True
        return Guess(self, index) if guess is None else guess(self, index)

    def outcome(self, index):
        outcome = self.outcomes[index]
        kind = outcome[:1]
        if kind == b"o":
            return Remote(self, index)
        try:
            if kind == b"v":
                return decode(outcome[1:])
            name = outcome[1:].decode("ascii")
        except (Malformed, ValueError, TypeError, OverflowError, RecursionError):
            raise Failed from None
        found = vars(builtins).get(name)
        named = isinstance(found, type) and issubclass(found, Exception) and not issubclass(found, ENDS)
        kind = found if named else Raised
        error = kind.__new__(kind)
        self.raised.append(error)
        raise error

    def tire(self):
        """Guesses agree with everything, also with going on for ever."""
        self.patience -= self.guessing
        if self.patience < 0:
            raise Unknown

    def hold(self, claim):
        """What an assert statement becomes."""
        if not claim and not self.guessing:
            raise Failed


class Asking:
    """Something of the judged program. Comparisons stay here: what it would be compared with is never shown to it."""

    def __init__(self, examiner, index):
        vars(self).update(_examiner=examiner, _index=index)

    def __call__(self, *arguments, **keywords):
        return self._examiner.ask("call", Target(self), list(arguments), keywords)

    def __setattr__(self, name, value):
        self._examiner.ask("set", Target(self), name, value)


class Remote(Asking):
    """An object that stayed with the judged program."""

    def __getattr__(self, name):
        if name[:2] == "__":
            raise AttributeError(name)
        return self._examiner.ask("get", self, name)

    def __iter__(self):
        return iter(self._examiner.ask("list", self))

    def __len__(self):
        return self._examiner.ask("len", self)

    def __bool__(self):
        return bool(self._examiner.ask("bool", self))

    def __str__(self):
        return str(self._examiner.ask("str", self))

    def __getitem__(self, key):
        return self._examiner.ask("item", self, key)


class Function:
    """A function or class of the judged program, by its name."""

    def __init__(self, examiner, name, is_class):
        self.examiner = examiner
        self.name = name
        # What a class returns most likely stays with the program.
        self.guess = Remote if is_class else None

    def __call__(self, *arguments, **keywords):
        return self.examiner.ask("call", self.name, list(arguments), keywords, guess=self.guess)


class Unknown(BaseException):
    """Guessing makes no more sense in this check."""


class Target:
    """What an operation is done to. That may be a guess that has an index; values are sent as what they are, once that is known."""

    def __init__(self, asking):
        if asking._index is None:
            raise Unknown
        self.index = asking._index


class Guess(Asking):
    """An outcome that is not known yet, or what was made of one (then without an index)."""

    def __getattr__(self, name):
        if name[:2] == "__":
            raise AttributeError(name)
        return vague(self)

    def __str__(self):
        return "?"

    def __hash__(self):
        return 0

    def __iter__(self):
        return iter(())


def vague(self, *ignored):
    self._examiner.tire()
    return Guess(self._examiner, None)


for name in """lt le eq ne gt ge add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow and rand or ror
xor rxor lshift rlshift rshift rrshift neg pos abs invert round trunc floor ceil getitem""".split():
    setattr(Guess, "__%s__" % name, vague)
for name, kind in {"int": int, "index": int, "len": int, "float": float, "complex": complex}.items():
    setattr(Guess, "__%s__" % name, lambda self, kind=kind: kind())
for name in ("bool", "contains"):
    setattr(Guess, "__%s__" % name, lambda self, *ignored: True)


def index_of(value):
    if isinstance(value, Target):
        return value.index
    if isinstance(value, Guess):
        raise Unknown
    if isinstance(value, Remote):
        return value._index
    if isinstance(value, Function):
        return Target(value.examiner.ask("name", value.name)).index
    return None


ONLY_AST = 0x400


def parse(source):
    return compile(source, "author.py", "exec", ONLY_AST, dont_inherit=True)


def walk(node):
    """All nodes of a tree, without recursion."""
    import _ast

    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        for field in node._fields:
            child = getattr(node, field, None)
            for child in child if isinstance(child, list) else [child]:
                if isinstance(child, _ast.AST):
                    waiting.append(child)


def replace_asserts(tree):
    import _ast

    for node in walk(tree):
        for field in node._fields:
            body = getattr(node, field, None)
            if isinstance(body, list):
                body[:] = [held(child) if isinstance(child, _ast.Assert) else child for child in body]
    return tree


def held(node):
    import _ast

    place = dict(lineno=node.lineno, col_offset=node.col_offset, end_lineno=node.end_lineno, end_col_offset=node.end_col_offset)
    hold = _ast.Name(id="__hold__", ctx=_ast.Load(), **place)
    return _ast.Expr(value=_ast.Call(func=hold, args=[node.test], keywords=[], **place), **place)


def bind(examiner, names, author, subjects, wanted):
    """Makes the author's own names, and stand-ins for those that the judged program has to define."""
    import _ast

    tree = parse(author)
    if subjects is None:
        imports = [node for node in tree.body if isinstance(node, (_ast.Import, _ast.ImportFrom))]
        imported = set()
        for node in imports:
            imported.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        defined = [node for node in tree.body if node not in imports]
        tree.body = imports
        for node in defined:
            if isinstance(node, (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef)):
                names[node.name] = Function(examiner, node.name, isinstance(node, _ast.ClassDef))
                continue
            for inner in walk(node):
                if isinstance(inner, _ast.Name) and isinstance(inner.ctx, _ast.Store) and inner.id in wanted:
                    names[inner.id] = None
        values = [name for name, value in names.items() if value is None]
    exec(compile(tree, "author.py", "exec", dont_inherit=True), names)
    if subjects is None:
        for name in values:
            names[name] = examiner.ask("name", name)
    else:
        for name in subjects:
            names[name] = Function(examiner, name, False)


def grade(examiner, code, names):
    try:
        exec(code, names)
    except Failed:
        return "?" if examiner.guessing else "W"
    except SystemExit:
        return "B"
    except BaseException as error:
        if examiner.guessing:
            return "?"
        return "R" if any(error is raised for raised in examiner.raised) else "W"
    return "?" if examiner.guessing else "A"


def main():
    import sys

    global builtins
    import builtins

    author, subjects, setup, checks, seed, operations, outcomes = decode(read_input())
    channel = take_channel()
    examiner = Examiner(operations, outcomes)
    names = {"__name__": "author", "__hold__": examiner.hold}
    codes = []
    try:
        trees = [parse(source) for source in [setup, *checks]]
        wanted = {node.id for tree in trees for node in walk(tree) if type(node).__name__ == "Name"}
        if "random" in author + setup + "".join(checks):
            import random

            random.seed(seed)
        bind(examiner, names, author, subjects, wanted)
        setup, *codes = [compile(replace_asserts(tree), "author.py", "exec", dont_inherit=True) for tree in trees]
        prepared = grade(examiner, setup, names)
    except Unknown:
        prepared = "?"
    except BaseException as error:
        # A program that lacks what the author's has has failed, and not its author.
        if isinstance(error, Failed) or any(error is raised for raised in examiner.raised):
            prepared = "R"
        else:
            sys.excepthook(*sys.exc_info())
            prepared = "B"
    # Without its preparation no check has a meaning.
    grades = "".join([grade(examiner, code, names) for code in codes]) if prepared in "A?" else prepared
    grades = grades or prepared
    send(channel, grades.encode())
    if "?" in grades:
        for operation in examiner.asked:
            send(channel, operation)


main()
posix._exit(0)
