

def __call_and_print():
    import json
    import sys

    printed, sys.stdout = sys.stdout, sys.stderr
    arguments = [json.loads(line) for line in sys.stdin.read().split("\n") if line.strip()]
    if "Solution" in globals():
        function = getattr(Solution(), "__FUNCTION__")
    else:
        function = globals()["__FUNCTION__"]
    result = function(*arguments)
    printed.write("\n" + json.dumps(result, default=list) + "\n")
    printed.flush()


__call_and_print()
