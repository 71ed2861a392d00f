# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 by hand: frames as bytes, for peers that keep to no rule."""

import socket
import struct

from blackbox import PATIENCE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, \
    CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 1, 1, 4, 8, 32


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(*pairs):
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", *pair) for pair in pairs))


HELLO = PREFACE + settings()


def text(value, prefix_bits=7):
    """A string of HPACK without Huffman coding."""
    data = value if isinstance(value, bytes) else value.encode()
    return integer(len(data), prefix_bits) + data


def integer(number, prefix_bits, first=0):
    most = (1 << prefix_bits) - 1
    if number < most:
        return bytes([first | number])
    out = bytes([first | most])
    number -= most
    while number >= 128:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(name, value):
    """A header that is not kept in the table."""
    return b"\x00" + text(name) + text(value)


def call_headers(path, *more, method="POST", content_type="application/grpc"):
    pairs = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "test"),
             ("content-type", content_type), ("te", "trailers"), *more]
    return b"".join(field(name, value) for name, value in pairs)


def request(stream, path, body=b"", *more, flags=END_STREAM):
    """A whole call: headers and one message."""
    return frame(HEADERS, END_HEADERS, stream, call_headers(path, *more)) + \
        frame(DATA, flags, stream, grpc_message(body))


def grpc_message(body, flag=0, length=None):
    return struct.pack(">BI", flag, len(body) if length is None else length) + body


class Peer:
    """A connection that sends what it is told and reads what comes."""

    def __init__(self, port, hello=HELLO):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.send(hello)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        """Sends as much as the other side takes; false when it closed or takes no more."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def pong(self, seconds):
        """Everything sent so far was read: the server answers a ping."""
        self.send(frame(PING, payload=b"all here"))
        return self.hears(b"all here", seconds)

    def hears(self, wanted, seconds):
        """Reads until the bytes come; false when the other side closes or falls silent."""
        self.socket.settimeout(seconds)
        heard = b""
        try:
            while wanted not in heard:
                more = self.socket.recv(1 << 16)
                if not more:
                    return False
                heard = heard[-len(wanted):] + more
        except OSError:
            return False
        return True
