#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Rows by key in ps-lite and here, in turn, on this machine.

    PS_LITE=~/ps-lite tests/bench/ps_lite/run.py [--build build/release] [--output table|json]

PS_LITE is a checkout of github.com/dmlc/ps-lite, which is no part of this repository. Its library
and rows.cc are built into a temporary folder (g++, protoc, libprotobuf and libzmq: in Debian
libzmq3-dev, libprotobuf-dev, protobuf-compiler), with -O3 and for this processor. Then they take
turns: a scheduler, a server and a worker of ps-lite, and after them `psbench table --part remote`
with as many rows, keys a call and calls in flight. Every turn fills its rows anew, pushes for
--seconds and pulls for --seconds. Printed are medians of the turns, and the lowest and highest.

`tcp` is both over TCP on loopback. `host` is the quickest that each has within a host: ps-lite over
unix sockets (DMLC_LOCAL), pserver as a client chooses by itself (shared memory).

Every process is bounded in time and ended with the run. Needs 400 bytes of memory for a row of 64.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
ROLES = ("scheduler", "server", "worker")
# Beyond measuring: starting, filling the rows and ending.
SECONDS_BESIDE = 300


def build(checkout, folder):
    """Into the folder, so that the checkout stays as it is."""
    source = checkout / "src"
    if not (source / "van.cc").exists():
        sys.exit(f"run.py: {checkout} is no checkout of ps-lite: set PS_LITE to one")
    call("protoc", f"--cpp_out={folder}", f"--proto_path={source}", source / "meta.proto")
    files = [source / f"{name}.cc" for name in ("customer", "postoffice", "van")]
    # Its warnings are not ours.
    call("g++", "-std=c++17", "-O3", "-march=native", "-w", f"-I{checkout / 'include'}",
         f"-I{source}", f"-I{folder}", *files, folder / "meta.pb.cc", HERE / "rows.cc", "-o",
         folder / "rows", "-lprotobuf", "-lzmq", "-lpthread")


def call(*words):
    done = subprocess.run([str(word) for word in words], check=False)
    if done.returncode != 0:
        sys.exit(f"run.py: {words[0]} has failed")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ps_lite(program, settings, seconds):
    """One turn of all three processes, in a folder of their own. Million keys a second, pushed and
    pulled."""
    environment = {**os.environ, "DMLC_NUM_WORKER": "1", "DMLC_NUM_SERVER": "1",
                   "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(free_port()),
                   "DMLC_NODE_HOST": "127.0.0.1",
                   "DMLC_LOCAL": "1" if settings["way"] == "host" else "0"}
    words = [str(program)] + [str(settings[name]) for name in ("width", "rows", "keys", "flight")]
    words += [str(round(seconds * 1000)), "1"]
    processes = []
    before = set(os.listdir("/tmp"))
    try:
        for role in ROLES:
            processes.append(subprocess.Popen(words, env={**environment, "DMLC_ROLE": role},
                                              stdout=subprocess.PIPE, text=True))
        text, _ = processes[-1].communicate(timeout=2 * seconds + SECONDS_BESIDE)
        for process in processes:
            process.wait(timeout=60)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        forget_sockets(before)
    if any(process.returncode != 0 for process in processes):
        sys.exit("run.py: ps-lite has failed")
    figures = json.loads(text)
    return figures["pushed"][0] / 1e6, figures["pulled"][0] / 1e6


def forget_sockets(before):
    """With DMLC_LOCAL ps-lite leaves sockets in /tmp whose names are their ports."""
    for name in set(os.listdir("/tmp")) - before:
        path = pathlib.Path("/tmp") / name
        if name.isdigit() and path.is_socket():
            path.unlink()


def ours(program, settings, seconds):
    words = [program, "table", "--part", "remote", "--ack", "memory", "--repeat", "1",
             "--output", "json", "--time", f"{round(seconds * 1000)}ms",
             "--transport", "tcp" if settings["way"] == "tcp" else "auto",
             "--width", settings["width"], "--rows", settings["rows"], "--keys", settings["keys"],
             "--outstanding", settings["flight"]]
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True,
                          check=False, timeout=2 * seconds + SECONDS_BESIDE)
    if done.returncode != 0:
        sys.exit("run.py: psbench has failed")
    rates = [row["details"]["million_keys_per_second"] for row in json.loads(done.stdout)["rows"]]
    # Of one repeat the median is the figure itself.
    pushed, pulled = (rate["median"] if isinstance(rate, dict) else rate for rate in rates)
    return pushed, pulled


def spread(values):
    return {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}


def measure(programs, settings, options):
    """The turns of one workload: both in the same minute."""
    turns = {name: [] for name in programs}
    for _ in range(options.turns):
        for name, (run, program) in programs.items():
            turns[name].append(run(program, settings, options.seconds))
    row = dict(settings)
    for at, word in enumerate(("pushed", "pulled")):
        for name, taken in turns.items():
            row[f"{name}_{word}"] = spread([turn[at] for turn in taken])
        row[f"{word}_factor"] = row[f"ours_{word}"]["median"] / row[f"ps_lite_{word}"]["median"]
    return row


def figure(value):
    return f"{value['median']:6.2f} ({value['lowest']:.2f} to {value['highest']:.2f})"


def print_row(row):
    print(f"{row['way']:5}{row['width']:6}{row['rows']:10}{row['keys']:8}{row['flight']:4}", end="")
    for word in ("pushed", "pulled"):
        print(f"  {figure(row['ps_lite_' + word]):26}{figure(row['ours_' + word]):26}"
              f"{row[word + '_factor']:6.2f}", end="")
    print(flush=True)


def print_head():
    print("million keys a second, medians (lowest to highest)\n"
          f"{'way':5}{'width':>6}{'rows':>10}{'keys':>8}{'n':>4}", end="")
    for word in ("pushes", "pulls"):
        print(f"  {word + ': ps-lite':26}{'pserver':26}{'ratio':>6}", end="")
    print()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--width", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--keys", type=int, default=100000, help="of one request")
    parser.add_argument("--flight", type=int, nargs="+", default=[1, 2], help="requests at once")
    parser.add_argument("--way", nargs="+", choices=("tcp", "host"), default=["tcp", "host"])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--output", choices=("table", "json"), default="table")
    return parser.parse_args()


def main():
    options = parse()
    checkout = os.environ.get("PS_LITE")
    if not checkout:
        sys.exit("run.py: set PS_LITE to a checkout of github.com/dmlc/ps-lite")
    psbench = options.build / "bin" / "psbench"
    if not psbench.exists():
        sys.exit(f"run.py: there is no {psbench}: build it, or say --build")
    # What was started is ended by the blocks that started it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ps_lite_"))
    rows = []
    try:
        build(pathlib.Path(checkout).expanduser().resolve(), folder)
        programs = {"ps_lite": (ps_lite, folder / "rows"), "ours": (ours, psbench)}
        if options.output == "table":
            print_head()
        for way in options.way:
            for flight in options.flight:
                for width in options.width:
                    settings = {"way": way, "width": width, "rows": options.rows,
                                "keys": options.keys, "flight": flight}
                    rows.append(measure(programs, settings, options))
                    if options.output == "table":
                        print_row(rows[-1])
    finally:
        shutil.rmtree(folder)
    if options.output == "json":
        print(json.dumps({"rows": rows}, indent=2))


if __name__ == "__main__":
    main()
