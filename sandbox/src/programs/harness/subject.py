# Runs in the sandbox of the judged program: does one operation after the other and sends each outcome away at once.
# It knows no expected answer. Whatever the program does to it, it can only change what is taken as its own outcomes.
#
# An outcome is v and a value, e and the name of an exception, o for an object that is no plain data, or, in place of the first
# one, x and a message when the program is no Python. Where checks look at what functions do to their arguments, m, a length, a
# colon and the containers that have changed stand before it.


def main():
    import builtins
    import sys

    source, in_place, operations = decode(read_input())
    channel = take_channel()
    builtins.exit = builtins.quit = sys.exit
    module = type(sys)("solution")
    sys.modules["solution"] = module
    try:
        # Not with `compile`, whose first call takes a tenth of the interpreter's start.
        exec(source, module.__dict__)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        # An error of the source itself has no frame below this one.
        if error.__traceback__.tb_next:
            raise
        send(channel, b"x" + ("%s: %s" % (type(error).__name__, error)).encode("utf-8", "replace"))
        return
    outcomes = []
    containers = Containers() if in_place else None
    for index, operation in enumerate(operations):
        fresh, touched = [], []
        try:
            find = lambda tag, text: found(tag, text, outcomes, containers, fresh, touched)
            operation = decode(operation, find, fresh.append if in_place else nothing)
            if in_place:
                containers.hold(index, fresh)
            outcome = perform(operation, module.__dict__)
            outcomes.append(outcome)
        except SystemExit:
            raise
        except BaseException as error:
            outcomes.append(None)
            payload = b"e" + type(error).__name__.encode("utf-8", "replace")
        else:
            try:
                payload = b"v" + encode(outcome, containers.name if in_place else nothing)
            except SystemExit:
                raise
            except BaseException:
                payload = b"o"
        if in_place:
            # What stays here may keep a container, and change it later.
            if payload == b"o" or operation[0] in ("set", "fill", "attributes"):
                containers.keep(fresh + touched)
            payload = containers.changes(fresh + touched) + payload
        send(channel, payload)


def found(tag, text, outcomes, containers, fresh, touched):
    """What an operation names: an earlier outcome, or a container of an earlier operation or of its own."""
    if tag == b"r":
        return outcomes[number(text)]
    if tag == b"w":
        return fresh[number(text)]
    container = containers.at(text)
    touched.append(container)
    return container


class Containers:
    """What operations brought that can be changed in place, as the checks know it."""

    MAX_KEPT = 64

    def __init__(self):
        # By operation, and by identity: place, container, parts. The parts are kept alive, so that each stays itself.
        self.places = {}
        self.known = {}
        self.kept = []

    def hold(self, index, fresh):
        self.places[index] = fresh
        for at, container in enumerate(fresh):
            self.known[id(container)] = [(index, at), container, parts(container)]

    def at(self, text):
        index, comma, at = text.partition(",")
        return self.places[number(index)][number(at)]

    def name(self, value):
        known = self.known.get(id(value))
        return None if known is None else b"a%d,%d;" % known[0]

    def keep(self, containers):
        self.kept = (self.kept + containers)[-self.MAX_KEPT :]

    def changes(self, containers):
        waiting, seen, changed = self.kept + containers, set(), []
        while waiting:
            value = waiting.pop()
            if id(value) in seen or not isinstance(value, (tuple, list, set, dict, bytearray)) and id(value) not in self.known:
                continue
            seen.add(id(value))
            known, now = self.known.get(id(value)), parts(value)
            # What was taken out of it may have been changed as well.
            waiting += now + (known[2] if known else [])
            if known and not same_parts(known[2], now):
                known[2] = now
                changed.append(known)
        states = []
        for place, container, now in changed:
            # What now holds something else than plain data cannot be shown.
            try:
                states.append(b"t3:" + encode(place[0]) + encode(place[1]) + self.state(container))
            except Plainless:
                pass
        if not states:
            return b""
        written = b"t%d:" % len(states) + b"".join(states)
        return b"m%d:" % len(written) + written

    def state(self, container):
        """What is in a container: it is not named itself, but others within it."""
        outermost = [container]
        return encode(container, lambda value: None if outermost and outermost.pop() is value else self.name(value))


def perform(operation, names):
    kind, *operands = operation
    if kind == "name":
        return lookup(names, operands[0])
    if kind == "call":
        target, arguments, keywords = operands
        if isinstance(target, str):
            target = lookup(names, target)
        return target(*arguments, **dict(keywords))
    if kind == "get":
        return getattr(*operands)
    if kind == "set":
        return setattr(*operands)
    if kind == "item":
        return operands[0][operands[1]]
    if kind == "import":
        return imported(*operands)
    if kind == "make":
        return make(*operands)
    if kind == "fill":
        return fill(*operands)
    if kind == "class":
        return type(operands[0], operands[1], {"__module__": "author"})
    if kind == "object":
        return object.__new__(operands[0])
    if kind == "attributes":
        return attributes(*operands)
    return {"list": list, "len": len, "str": str, "bool": bool}[kind](operands[0])


def lookup(names, name):
    if name not in names:
        raise NameError(name)
    return names[name]


def imported(module, name):
    """Something of the language's own library."""
    import sys

    __import__(module)
    value = sys.modules[module]
    for part in name.split(".") if name else ():
        value = getattr(value, part)
    return value


def hold(claim):
    """What an assert statement of an author's function becomes."""
    if not claim:
        raise AssertionError


def make(code, name, defaults, keywords, cells):
    """A function of the author's that is handed over as an argument. It is filled in later, as it may refer to itself."""
    import builtins
    import marshal

    cell = type((lambda value: lambda: value)(None).__closure__[0])
    names = {"__builtins__": builtins, "__name__": "author", "__hold__": hold}
    function = type(make)(marshal.loads(code), names, name, defaults, tuple([cell() for _ in range(cells)]) or None)
    function.__kwdefaults__ = keywords and dict(keywords)
    return function


def attributes(target, pairs):
    """Makes a class or an object of the author's what it is there."""
    kind = type if isinstance(target, type) else object
    for name, value in pairs:
        kind.__setattr__(target, name, value)


def fill(function, closure, names):
    for cell, value in zip(function.__closure__ or (), closure):
        cell.cell_contents = value
    function.__globals__.update(names)


main_status = 0
try:
    main()
except SystemExit as error:
    main_status = error.code if isinstance(error.code, int) else int(error.code is not None)
except BaseException:
    import sys

    sys.excepthook(*sys.exc_info())
    main_status = 1
posix._exit(main_status & 255)
