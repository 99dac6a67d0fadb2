# Runs in the sandbox of the judged program: does one operation after the other and sends each outcome away at once.
# It knows no expected answer. Whatever the program does to it, it can only change what is taken as its own outcomes.
#
# An outcome is v and a value, e and the name of an exception, o for an object that is no plain data, or, in place of the first
# one, x and a message when the program is no Python.


def main():
    import builtins
    import sys

    source, operations = decode(read_input(), reference=Reference)
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
    for operation in operations:
        try:
            outcome = perform(operation, module.__dict__, outcomes)
            outcomes.append(outcome)
        except SystemExit:
            raise
        except BaseException as error:
            outcomes.append(None)
            send(channel, b"e" + type(error).__name__.encode("utf-8", "replace"))
            continue
        try:
            payload = b"v" + encode(outcome)
        except SystemExit:
            raise
        except BaseException:
            payload = b"o"
        send(channel, payload)


class Reference:
    def __init__(self, index):
        self.index = index


def perform(operation, names, outcomes):
    kind, *operands = resolve(operation, outcomes)
    if kind == "name":
        return lookup(names, operands[0])
    if kind == "call":
        target, arguments, keywords = operands
        if isinstance(target, str):
            target = lookup(names, target)
        return target(*arguments, **keywords)
    if kind == "get":
        return getattr(*operands)
    if kind == "set":
        return setattr(*operands)
    if kind == "item":
        return operands[0][operands[1]]
    return {"list": list, "len": len, "str": str, "bool": bool}[kind](operands[0])


def lookup(names, name):
    if name not in names:
        raise NameError(name)
    return names[name]


def resolve(value, outcomes):
    """The operand itself, with earlier outcomes in place of references."""
    kind = type(value)
    if kind is Reference:
        return outcomes[value.index]
    if kind is dict:
        return {resolve(key, outcomes): resolve(item, outcomes) for key, item in value.items()}
    if kind in (list, tuple, set, frozenset):
        return kind([resolve(item, outcomes) for item in value])
    return value


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
