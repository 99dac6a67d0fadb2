"""One member of a BitTorrent swarm for `echo-lab broadcast`, or the maker of its torrent.

    torrent.py make FILE TORRENT
    torrent.py join CONFIG          (JSON: address, port, torrent, dir, seed, others, go, utp, super)

A member prints {"event": "ready"}, waits until the file `go` exists, connects to all others, and prints {"event": "complete", …} when
it has everything. It goes on seeding until it is ended.
"""

import json
import os
import sys
import time

import libtorrent as lt

PIECE_BYTES = 1 << 20
POLL_S = 0.01


def say(event, **fields):
    print(json.dumps({"event": event, "at_ms": int(time.time() * 1000), **fields}), flush=True)


def make(path, target):
    files = lt.file_storage()
    lt.add_files(files, path)
    torrent = lt.create_torrent(files, PIECE_BYTES)
    lt.set_piece_hashes(torrent, os.path.dirname(path))
    with open(target, "wb") as out:
        out.write(lt.bencode(torrent.generate()))


def session(config):
    # No discovery: everyone is told of everyone. No limits, and no slots to wait for: only the links are to limit the swarm.
    return lt.session({
        "listen_interfaces": f"{config['address']}:{config['port']}",
        "enable_dht": False,
        "enable_lsd": False,
        "enable_upnp": False,
        "enable_natpmp": False,
        "enable_outgoing_utp": config["utp"],
        "enable_incoming_utp": config["utp"],
        "enable_outgoing_tcp": not config["utp"],
        "enable_incoming_tcp": not config["utp"],
        # prefer_tcp: uTP, where it is used, must not yield to TCP of other swarms that are not there.
        "mixed_mode_algorithm": 0,
        "allow_multiple_connections_per_ip": True,
        "connections_limit": 1000,
        "connection_speed": 500,
        "unchoke_slots_limit": -1,
        "max_out_request_queue": 1500,
        "max_allowed_in_request_queue": 2000,
        "request_queue_time": 3,
        "send_buffer_watermark": 4 << 20,
        "send_buffer_watermark_factor": 150,
        "peer_connect_timeout": 5,
        "alert_mask": 0,
    })


def join(config):
    members = session(config)
    params = lt.add_torrent_params()
    params.ti = lt.torrent_info(config["torrent"])
    params.save_path = config["dir"]
    params.flags &= ~lt.torrent_flags.paused
    params.flags &= ~lt.torrent_flags.auto_managed
    if config["seed"]:
        params.flags |= lt.torrent_flags.seed_mode
        if config["super"]:
            params.flags |= lt.torrent_flags.super_seeding
    handle = members.add_torrent(params)
    say("ready")
    while not os.path.exists(config["go"]):
        time.sleep(POLL_S)
    for other in config["others"]:
        handle.connect_peer((other, config["port"]))
    while not handle.status().is_seeding:
        time.sleep(POLL_S)
    # The payload is on disk before it is counted as complete.
    handle.flush_cache()
    status = handle.status()
    say("complete", redundant=status.total_redundant_bytes + status.total_failed_bytes)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], sys.argv[3])
    else:
        join(json.loads(sys.argv[2]))
