#!/usr/bin/env python3
"""A program for `[fleet] provision`: starts and stops echo-node processes on this machine.

It stands for a provider's command line: what it does with processes, another one does with machines. It reads
one JSON object on standard input, answers with one on one line, and remembers what it started in a directory.

    [fleet]
    provision = ["./provision-local.py", "rented", "--peers", "echo.peers", "--max", "4"]
    prices = { rented = 0.35 }

The first argument is the class that it rents, a name of `[fleet] prices`. Its nodes have this name as their
label, by which the learner knows their price. Relative paths start from the learner's working directory.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path


def options():
    parser = argparse.ArgumentParser(description="Starts and stops echo-node processes on this machine.")
    parser.add_argument("label", help="the class that is rented")
    parser.add_argument("--peers", required=True, help="the signed peer list of the run")
    parser.add_argument("--node", default="echo-node", help="the program")
    parser.add_argument("--dir", default="rented", help="where the nodes' data directories lie")
    parser.add_argument("--max", type=int, default=4, help="nodes at most, whatever is wanted")
    parser.add_argument("--threads", type=int, default=1, help="threads of each")
    return parser.parse_args()


def birth(pid):
    """When a process began, by the system's count; None where it has ended. No two with one id have the same."""
    try:
        # The name in brackets may hold blanks.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def running(home):
    """Process ids of the nodes that run, by their data directories. What has ended is forgotten."""
    found = {}
    for data in sorted(path for path in home.iterdir() if path.is_dir()):
        file = data / "pid"
        if not file.exists():
            continue
        pid, begun = file.read_text().split()
        if birth(pid) == begun:
            found[data] = int(pid)
        else:
            file.unlink()
    return found


def start(home, label, given):
    """Starts a node in the first data directory that is free: an identity and its record are worth keeping."""
    busy = running(home)
    data = next(path for path in (home / f"node-{n}" for n in range(1, 10_000)) if path not in busy)
    data.mkdir(exist_ok=True)
    command = [given.node, "run", "--data-dir", str(data), "--peers", given.peers, "--label", label]
    command += ["--threads", str(given.threads)]
    # It lives on without this program, and holds none of its pipes.
    with open(data / "node.log", "ab") as log:
        node = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    (data / "pid").write_text(f"{node.pid} {birth(node.pid)}")


def key(data, given):
    """The public key of a node, by which the learner names those that it does not need."""
    command = [given.node, "identity", "--json", "--data-dir", str(data)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    return json.loads(said.stdout)["public_key"]


def stop(data, pid):
    """Asks a node to end; it delivers what it has first."""
    os.kill(pid, signal.SIGTERM)
    (data / "pid").unlink()


def main():
    given = options()
    request = json.load(sys.stdin)
    home = Path(given.dir).absolute()
    home.mkdir(parents=True, exist_ok=True)
    wanted = min(request["nodes"].get(given.label, {}).get("wanted", 0), given.max)
    nodes = running(home)
    started = max(0, wanted - len(nodes))
    for _ in range(started):
        start(home, given.label, given)
    stopped = 0
    if len(nodes) > wanted:
        # Only those that rest, unless nobody is wanted any more.
        spare = {data for data in nodes if wanted == 0 or key(data, given) in request["spare"]}
        for data in sorted(spare)[: len(nodes) - wanted]:
            stop(data, nodes[data])
            stopped += 1
    print(json.dumps({"started": {given.label: started}, "stopped": {given.label: stopped}}))


if __name__ == "__main__":
    main()
