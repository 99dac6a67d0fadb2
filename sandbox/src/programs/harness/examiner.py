# Runs in a sandbox of its own, when the judged program is gone: executes the author's checks, in which the judged functions are
# stand-ins that ask for outcomes of operations. Outcomes that are known are given; from the first one that is not, the checks
# go on with guesses that agree with everything, so that one pass finds most of what will be asked. The pass then decides
# nothing from there on, and the operations that it asked for are performed before the next one.
#
# It answers with one letter for each check - A holds, W does not, R the program raised an exception, B the author's code is broken,
# I it imports what is not installed, ? not known yet - and, behind it, the operations that were asked for, or with I what is
# not installed.
#
# Arguments are plain data, which crosses, and two more kinds: what the language's own library has under a name is looked up there,
# and a function, a class or an object of the author's is made again there, with what it refers to. Whatever it refers to, the judged
# program can see. A class that the author's program has is the judged program's own there.


MAX_GUESSES = 5000


class Failed(AssertionError):
    pass


class Raised(Exception):
    """An exception of the judged program that has no name in builtins, or one that would be taken for the end of a loop."""


# Iterators of the language take them for their own: `all(map(check, table))` would hold for a program that only raises.
ENDS = StopIteration, StopAsyncIteration


class Examiner:
    def __init__(self, operations, outcomes, in_place):
        self.known = operations
        self.outcomes = outcomes
        # Whether the checks see what functions do to their arguments: containers of operations, by operation and by identity.
        self.in_place = in_place
        self.brought = []
        self.places = {}
        # What is made in the subject for one argument, and how many makings are under way; classes of the author's program.
        self.making = {}
        self.depth = 0
        self.defined = set()
        self.missing = None
        self.asked = []
        self.guessing = False
        self.raised = []
        self.patience = MAX_GUESSES

    def ask(self, *operation, guess=None):
        self.tire()
        fresh = {}
        holding = (lambda value: fresh.setdefault(id(value), (len(fresh), value))) if self.in_place else nothing
        payload = encode(operation, lambda value: self.written(value, fresh), holding)
        index = len(self.asked)
        self.asked.append(payload)
        self.brought.append([value for at, value in fresh.values()])
        for at, value in fresh.values():
            self.places[id(value)] = [(index, at), value, parts(value)]
        if not self.guessing:
            if index < len(self.outcomes) and self.known[index] == payload:
                return self.outcome(index)
            self.guessing = True
        return Guess(self, index) if guess is None else guess(self, index)

    def ask_index(self, *operation):
        self.ask(*operation)
        return len(self.asked) - 1

    def written(self, value, fresh):
        """How a value is named that the subject has already, or can make: that of an operation, for which others may be asked first."""
        if isinstance(value, Place):
            return b"r%d;" % value.index
        if isinstance(value, Guess):
            raise Unknown
        if isinstance(value, Remote):
            return b"r%d;" % value._index
        if isinstance(value, Function):
            return b"r%d;" % self.ask_index("name", value.name)
        if id(value) in fresh:
            return b"w%d;" % fresh[id(value)][0]
        if id(value) in self.places and self.is_as_left(value):
            return b"a%d,%d;" % self.places[id(value)][0]
        if isinstance(value, (list, tuple, dict, set, frozenset, bytearray)) or type(value).__name__ == "deque":
            return None
        index = self.made(value)
        return None if index is None else b"r%d;" % index

    def is_as_left(self, container):
        """Whether the subject has the same in it: the checks may have changed it since."""
        waiting, seen = [container], set()
        while waiting:
            value = waiting.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if id(value) in self.places:
                now = parts(value)
                if not same_parts(self.places[id(value)][2], now):
                    return False
                waiting += now
            elif isinstance(value, tuple):
                waiting += value
            elif isinstance(value, (list, dict, set, bytearray)) or type(value).__name__ == "deque":
                return False
        return True

    def made(self, value):
        """The operation that makes a value in the subject which is no plain data, if one can."""
        if id(value) in self.making:
            return self.making[id(value)]
        name = library_name(value)
        if name is not None:
            return self.ask_index("import", *name)
        if isinstance(value, FunctionType):
            return self.finished(self.made_function, value)
        if getattr(value if isinstance(value, type) else type(value), "__module__", None) == "author":
            return self.finished(self.made_class if isinstance(value, type) else self.made_object, value)
        owner = getattr(value, "__self__", None)
        if type(value) is type([].append):
            return self.ask_index("get", owner, value.__name__)
        return self.made_by_library(value)

    def made_function(self, function):
        import marshal

        keywords = function.__kwdefaults__ and tuple(function.__kwdefaults__.items())
        cells = function.__closure__ or ()
        code = marshal.dumps(function.__code__)
        index = self.ask_index("make", code, function.__name__, function.__defaults__, keywords, len(cells))
        self.making[id(function)] = index
        names = [name for name in sorted(globals_of(function.__code__)) if name in function.__globals__]
        pairs = tuple([(name, function.__globals__[name]) for name in names])
        self.ask("fill", Place(index), tuple([contents(cell) for cell in cells]), pairs)
        return index

    def made_class(self, kind):
        if kind.__name__ in self.defined:
            return self.ask_index("name", kind.__name__)
        index = self.ask_index("class", kind.__name__, tuple([base for base in kind.__bases__ if base is not object]))
        self.making[id(kind)] = index
        for name, value in vars(kind).items():
            if name in OF_CLASSES or is_slot(value):
                continue
            # What the library put there, as for data classes, is no data, and not needed.
            try:
                self.ask("attributes", Place(index), ((name, value),))
            except Plainless:
                pass
        return index

    def made_object(self, value):
        index = self.ask_index("object", type(value))
        self.making[id(value)] = index
        names = dict.fromkeys(getattr(value, "__dict__", ()))
        for kind in type(value).__mro__:
            names.update(dict.fromkeys([name for name, held in vars(kind).items() if is_slot(held) and hasattr(value, name)]))
        self.ask("attributes", Place(index), tuple([(name, getattr(value, name)) for name in names]))
        return index

    def finished(self, make, value):
        """Made with all that it refers to, which may be itself."""
        self.depth += 1
        try:
            return make(value)
        finally:
            self.depth -= 1
            if not self.depth:
                self.making.clear()

    def made_by_library(self, value):
        """A value that a class of the library makes of plain ones: a range, a fraction, a date, an iterator."""
        name = library_name(type(value))
        if name == ("functools", "partial"):
            make = Place(self.ask_index("import", *name))
            return self.ask_index("call", make, (value.func, *value.args), tuple(value.keywords.items()))
        parts_of_it = value.__reduce_ex__(2) if name is not None else None
        if not isinstance(parts_of_it, tuple):
            return None
        make, arguments, *state = parts_of_it
        if any(part is not None for part in state) or library_name(make) is None:
            return None
        return self.ask_index("call", Place(self.ask_index("import", *library_name(make))), tuple(arguments), ())

    def outcome(self, index):
        outcome = self.outcomes[index]
        try:
            if self.in_place and outcome[:1] == b"m":
                length, colon, outcome = outcome[1:].partition(b":")
                length = number(length.decode("ascii"))
                self.change(decode(outcome[:length], self.container))
                outcome = outcome[length:]
            kind = outcome[:1]
            if kind == b"o":
                return Remote(self, index)
            if kind == b"v":
                return decode(outcome[1:], self.container if self.in_place else None)
            name = outcome[1:].decode("ascii")
        except (Malformed, ValueError, TypeError, OverflowError, RecursionError, IndexError, KeyError):
            raise Failed from None
        found = vars(builtins).get(name)
        named = isinstance(found, type) and issubclass(found, Exception) and not issubclass(found, ENDS)
        kind = found if named else Raised
        error = kind.__new__(kind)
        self.raised.append(error)
        raise error

    def container(self, tag, text):
        """A container of the checks' own that the judged program was given."""
        index, comma, at = text.partition(",")
        if tag != b"a":
            raise Malformed
        return self.brought[number(index)][number(at)]

    def change(self, changes):
        for index, at, state in changes:
            if index < 0 or at < 0:
                raise Malformed
            container = self.brought[index][at]
            if type(container) is not type(state):
                raise Malformed
            if isinstance(container, (list, bytearray)):
                container[:] = state
            elif isinstance(container, (dict, set)):
                kind = dict if isinstance(container, dict) else set
                kind.clear(container)
                kind.update(container, state)
            else:
                container.clear()
                container.extend(state)
            if id(container) in self.places:
                self.places[id(container)][2] = parts(container)

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
        return self._examiner.ask("call", Target(self), arguments, tuple(keywords.items()))

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
        return self.examiner.ask("call", self.name, arguments, tuple(keywords.items()), guess=self.guess)


class Unknown(BaseException):
    """Guessing makes no more sense in this check."""


class Place:
    """The outcome of an operation."""

    def __init__(self, index):
        self.index = index


class Target(Place):
    """What an operation is done to. That may be a guess that has an index; values are sent as what they are, once that is known."""

    def __init__(self, asking):
        if asking._index is None:
            raise Unknown
        super().__init__(asking._index)


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


FunctionType = type(lambda: None)
OF_CLASSES = {"__dict__", "__weakref__", "__module__", "__doc__", "__slots__", "__qualname__", "__firstlineno__", "__static_attributes__"}


def is_slot(value):
    return type(value).__name__ == "member_descriptor"



def library_name(value):
    """The module, and the name in it, under which the library has this very object."""
    import sys

    if isinstance(value, type(sys)):
        return (value.__name__, "") if sys.modules.get(value.__name__) is value else None
    owner = getattr(value, "__objclass__", value)
    module, name = getattr(owner, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module not in sys.modules:
        return None
    found = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    return (module, name) if found is value else None


def globals_of(code):
    """The names that a function looks up outside of itself."""
    import dis

    found = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for inner in code.co_consts:
        if isinstance(inner, type(code)):
            found |= globals_of(inner)
    return found - {"__hold__", "__builtins__", "__name__"}


def contents(cell):
    try:
        return cell.cell_contents
    except ValueError:
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
    examiner.defined = {node.name for node in tree.body if isinstance(node, _ast.ClassDef)}
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
        is_raised = any(error is raised for raised in examiner.raised)
        if isinstance(error, ModuleNotFoundError) and not is_raised:
            examiner.missing = error.name
            return "I"
        if examiner.guessing:
            return "?"
        return "R" if is_raised else "W"
    return "?" if examiner.guessing else "A"


def main():
    import sys

    global builtins
    import builtins

    author, subjects, setup, checks, seed, in_place, operations, outcomes = decode(read_input())
    channel = take_channel()
    examiner = Examiner(operations, outcomes, bool(in_place))
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
        elif isinstance(error, ModuleNotFoundError):
            examiner.missing = error.name
            prepared = "I"
        else:
            sys.excepthook(*sys.exc_info())
            prepared = "B"
    # Without its preparation no check has a meaning.
    grades = "".join([grade(examiner, code, names) for code in codes]) if prepared in "A?" else prepared
    grades = grades or prepared
    send(channel, grades.encode())
    if "I" in grades:
        send(channel, str(examiner.missing).encode("utf-8", "replace"))
    elif "?" in grades:
        for operation in examiner.asked:
            send(channel, operation)


main()
posix._exit(0)
