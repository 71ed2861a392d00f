# SPDX-License-Identifier: Apache-2.0
"""What strangers do to take more than their share: each attack is a function that is given a
running server and a number of connections, and returns one number that says how far it came.

An honest trainer pushes 4 KiB and pulls them meanwhile, from a process of its own."""

import json
import os
import shutil
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
TESTS = os.path.join(HERE, "..", "integration")
sys.path[:0] = [os.path.join(TESTS, "blackbox"), os.path.join(TESTS, "cluster")]

import grpc  # noqa: E402

from blackbox import Server, proc_status, program  # noqa: E402
from calls import FLOAT32, MESSAGES  # noqa: E402

MIB = 1 << 20
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1),
             ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
LARGE = 64 * MIB
TOP_K, INT8, MEMORY = 6, 5, 1
NOBODY_READS = 100 << 3 | 2  # the tag of a field that the messages do not have


def message(kind, /, **fields):
    return MESSAGES[f"pserver.v1.{kind}"](**fields)


def varint(number):
    text = b""
    while number >= 128:
        text += bytes([number & 127 | 128])
        number >>= 7
    return text + bytes([number])


def padded(request, size):
    """The message with bytes behind it that no decoder looks at."""
    return request.SerializeToString() + varint(NOBODY_READS) + varint(size) + bytes(size)


def adam():
    return MESSAGES["paddle.OptimizerConfig"](optimizer=4).SerializeToString()


class Line:
    """One connection."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, options=UNLIMITED)

    def call(self, method, data):
        service = "Admin" if method == "SaveCheckpoint" else "ParameterServer"
        return self.channel.unary_unary(f"/pserver.v1.{service}/{method}").future(data, timeout=60)


def init(server, name, elements, config=b""):
    step = 8 * MIB // 4
    line = Line(server.address)
    if elements <= step:
        line.call("InitParam", message("InitParamRequest", name=name, element_type=FLOAT32,
                                       content=bytes(4 * elements),
                                       config=config).SerializeToString()).result()
        return
    for offset in range(0, elements, step):
        line.call("InitParam", message(
            "InitParamRequest", name=name, element_type=FLOAT32, content=bytes(4 * step),
            config=config, offset=offset, count=step, total=elements,
            request={"client_id": b"init " + name.encode(), "session": 1,
                     "sequence": 1}).SerializeToString()).result()


def spread(server, connections, count, make, method):
    """`count` calls in all, of so many connections at once; the codes that came back."""
    lines = [Line(server.address) for _ in range(connections)]
    codes = []

    def run(index):
        calls = [lines[index].call(method, make(i)) for i in range(index, count, connections)]
        codes.extend(call.code().name if call.exception() else "OK" for call in calls)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return codes


def request_id(number, sequence=1):
    return {"client_id": struct.pack("<Q", number), "session": 1, "sequence": sequence}


# ---- Attacks on a server with default options and the parameters "w", "large" and "adam" ----

def staged_padding(server, connections, scale):
    """The last element of a gradient, in messages of 3 MiB of which four bytes are read: what stays
    in memory, in MiB."""
    before = server.rss_kib()
    count = int(200 * scale)
    spread(server, connections, count, lambda i: padded(message(
        "SendGradRequest", name="w", element_type=FLOAT32, content=bytes(4),
        offset=1023, count=1, request=request_id(i % 60, i)), 3 * MIB), "SendGrad")
    return max(0, server.rss_kib() - before) >> 10


def staged_claims(server, connections, scale):
    """64 KiB each of gradients of 64 MiB, under client ids that are made up: for how long another
    client's ranges are refused, in seconds; 15 when that is not seen to end."""
    spread(server, connections, int(60 * scale), lambda i: message(
        "SendGradRequest", name="large", element_type=FLOAT32, content=bytes(65536), count=16384,
        request=request_id(1000 + i)).SerializeToString(), "SendGrad")
    line = Line(server.address)
    begun = time.monotonic()
    while time.monotonic() - begun < 15:
        call = line.call("SendGrad", message(
            "SendGradRequest", name="large", element_type=FLOAT32, content=bytes(65536),
            count=16384, request={"client_id": b"honest", "session": 1, "sequence": 1},
        ).SerializeToString())
        if call.exception() is None:
            break
        time.sleep(0.05)
    return round(time.monotonic() - begun, 1)


def queued_padding(server, connections, scale):
    """Gradients of 4 KiB in messages of 3 MiB that wait for the journal: the most memory, in
    MiB."""
    before = server.rss_kib()
    spread(server, connections, int(300 * scale), lambda i: padded(message(
        "SendGradRequest", name="w", element_type=FLOAT32, content=bytes(4096), ack=MEMORY),
        3 * MIB), "SendGrad")
    return max(0, proc_status(server.pid, "VmHWM") - before) >> 10


def encoded_pulls(server, connections, scale):
    """A message of a few kilobytes that names 64 MiB many times, in an encoding that has to be
    made: seconds until all are answered."""
    pulls = message("GetParamsRequest")
    for _ in range(100):
        pulls.params.add(name="large", encoding=INT8)
    begun = time.monotonic()
    spread(server, connections, max(1, int(connections * scale)),
           lambda i: pulls.SerializeToString(), "GetParams")
    return round(time.monotonic() - begun, 1)


def sparse_pushes(server, connections, scale):
    """A message that names one element many times, under a rule that moves all of 64 MiB each time:
    seconds until all are answered."""
    grads = message("SendGradsRequest")
    for _ in range(20):
        grads.grads.add(name="adam", element_type=FLOAT32, encoding=TOP_K, ack=MEMORY,
                        content=struct.pack("<If", 1, 0.5))
    begun = time.monotonic()
    spread(server, connections, max(1, int(connections * scale)),
           lambda i: grads.SerializeToString(), "SendGrads")
    return round(time.monotonic() - begun, 1)


def fresh_clients(server, connections, scale):
    """A new client id with each push: how many were remembered."""
    codes = spread(server, connections, int(20000 * scale), lambda i: message(
        "SendGradRequest", name="w", element_type=FLOAT32, content=bytes(4096), ack=MEMORY,
        request=request_id(10**6 + i)).SerializeToString(), "SendGrad")
    return codes.count("OK")


def asked_checkpoints(server, connections, scale):
    """A push and a checkpoint, again and again: how many checkpoints were written."""
    saved = 0
    for _ in range(int(200 * scale)):
        spread(server, 1, 1, lambda i: message(
            "SendGradRequest", name="w", element_type=FLOAT32, content=bytes(4096),
            ack=MEMORY).SerializeToString(), "SendGrad")
        saved += spread(server, connections, connections, lambda i: b"",
                        "SaveCheckpoint").count("OK") > 0
    return saved


ATTACKS = {attack.__name__: attack for attack in (
    staged_padding, staged_claims, queued_padding, encoded_pulls, sparse_pushes, fresh_clients,
    asked_checkpoints)}
UNITS = {"staged_padding": "MiB kept", "staged_claims": "s refused",
         "queued_padding": "MiB at most", "encoded_pulls": "s", "sparse_pushes": "s",
         "fresh_clients": "clients",
         "asked_checkpoints": "checkpoints", "tiny_parameters": "MiB under a limit of 8",
         "few_descriptors": "% of a core", "overlapping_import": "MiB", "pipe_as_checkpoint": "s"}


# ---- Attacks that need a server or a tool of their own ----

def tiny_parameters(_connections, scale):
    """Parameters of one element under --memory-bytes 8 MiB: memory beyond an idle server's."""
    with Server("--memory-bytes", "8MiB") as server:
        before = server.rss_kib()
        spread(server, 4, int(100000 * scale), lambda i: message(
            "InitParamRequest", name=f"parameter {i}", element_type=FLOAT32,
            content=bytes(4)).SerializeToString(), "InitParam")
        return max(0, server.rss_kib() - before) >> 10


def few_descriptors(_connections, _scale):
    """A server that may open 200 files: its processor time while nobody calls."""
    import resource  # pylint: disable=import-outside-toplevel
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        with Server() as server:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            time.sleep(0.5)
            begun, used = time.monotonic(), processor_seconds(server.pid)
            time.sleep(1)
            return round(100 * (processor_seconds(server.pid) - used) /
                         (time.monotonic() - begun))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def overlapping_import(_connections, scale, folder="/tmp"):
    """A file of a megabyte in which thousands of tensors are the same bytes: what psckpt takes."""
    path = os.path.join(folder, f"overlapping-{os.getpid()}.safetensors")
    header = json.dumps({f"t{i}": {"dtype": "F32", "shape": [MIB // 4], "data_offsets": [0, MIB]}
                         for i in range(int(4000 * scale))}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + bytes(MIB))
    try:
        child = subprocess.Popen([program("psckpt"), "import", path, "--out", path + ".out"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = 0
        return usage.ru_maxrss >> 10
    finally:
        os.unlink(path)
        shutil.rmtree(path + ".out", ignore_errors=True)


def pipe_as_checkpoint(_connections, _scale):
    """A pipe under the name of the newest checkpoint: seconds until the server listens again; 20
    when it never does."""
    with Server() as server:
        server.make_ready()
        server.psctl("checkpoint")
        server.process.kill()
        replaced = False
        for folder, _, names in os.walk(server.data):
            for name in names:
                if name.endswith(".safetensors"):
                    path = os.path.join(folder, name)
                    os.rename(path, path + ".away")
                    os.mkfifo(path)
                    replaced = True
        assert replaced
        begun = time.monotonic()
        process = server.start(wait=False)
        while time.monotonic() - begun < 20 and process.event("listening") is None and \
                process.alive():
            time.sleep(0.05)
        return round(time.monotonic() - begun, 1)


ALONE = {attack.__name__: attack for attack in (
    tiny_parameters, few_descriptors, overlapping_import, pipe_as_checkpoint)}


# ---- The honest trainer ----

def honest(address, seconds):
    """Pushes and pulls 4 KiB until the time is over; prints how long the slowest hundredth took,
    and how many calls failed."""
    line = Line(address)
    push = message("SendGradRequest", name="honest", element_type=FLOAT32,
                   content=bytes(4096), ack=MEMORY)
    pull = message("GetParamRequest", name="honest").SerializeToString()
    client, times, failed, sequence = os.urandom(16), [], 0, 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sequence += 1
        push.request.client_id, push.request.session = client, 1
        push.request.sequence = sequence
        begun = time.monotonic()
        for method, data in (("SendGrad", push.SerializeToString()), ("GetParam", pull)):
            failed += line.call(method, data).exception() is not None
        times.append(time.monotonic() - begun)
    times.sort()
    print(json.dumps({"p99_ms": round(1e3 * times[len(times) * 99 // 100], 1),
                      "steps": len(times), "failed": failed}))


class Honest:
    """The trainer beside an attack; it begins before and ends soon after."""

    def __init__(self, server, seconds):
        self.child = subprocess.Popen(
            [sys.executable, os.path.realpath(__file__), "honest", server.address, str(seconds)],
            stdout=subprocess.PIPE, text=True)

    def end(self):
        output, _ = self.child.communicate(timeout=120)
        return json.loads(output)


def attack(name, connections, scale, seconds, *flags):
    """How far the attack came, and what the trainer saw beside."""
    if name in ALONE:
        return {"got": ALONE[name](connections, scale)}
    with Server(*flags) as server:
        for parameter, elements, config in (("w", 1024, b""), ("honest", 1024, b""),
                                            ("large", LARGE // 4, b""),
                                            ("adam", LARGE // 4, adam())):
            init(server, parameter, elements, config)
        server.calls.finish()
        trainer = Honest(server, seconds)
        time.sleep(0.5)
        got = ATTACKS[name](server, connections, scale)
        return {"got": got, **trainer.end()}


if __name__ == "__main__" and sys.argv[1:2] == ["honest"]:
    honest(sys.argv[2], float(sys.argv[3]))
