import json
import sys


def same(found, wanted):
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in wanted)
    if isinstance(found, float) or isinstance(wanted, float):
        try:
            return abs(found - wanted) <= 1e-6 * max(1.0, abs(wanted))
        except (TypeError, OverflowError):
            return False
    return found == wanted


try:
    with open(sys.argv[2], encoding="utf-8", errors="replace") as file:
        found = json.loads(file.read().strip().rsplit("\n", 1)[-1])
except Exception:
    sys.exit(2)
with open(sys.argv[3], encoding="utf-8") as file:
    accepted = json.loads(file.read())
sys.exit(0 if any(same(found, wanted) for wanted in accepted) else 1)
