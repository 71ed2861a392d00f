# SPDX-License-Identifier: Apache-2.0
"""Initialises, pushes and pulls one parameter with plain grpcio: ./run_python.sh HOST:PORT"""
import itertools
import os
import struct
import sys
import time
from typing import Any, Callable

import grpc
from pserver.v1 import pserver_pb2 as ps
from pserver.v1 import pserver_pb2_grpc

FORMAT = "<3f"  # three little-endian float32


def read(variable: str) -> bytes | None:
    """The file that a variable names; None: there is none. The names are those of libpsclient."""
    path = os.environ.get(variable)
    if not path:
        return None
    with open(path, "rb") as file:
        return file.read()


def connect(address: str) -> Any:
    """TLS where PSCLIENT_TLS_CA says whom to believe; a token goes over TLS only."""
    ca, token = read("PSCLIENT_TLS_CA"), read("PSCLIENT_TOKEN_FILE")
    if not ca:
        return grpc.insecure_channel(address)
    secure = grpc.ssl_channel_credentials(ca, read("PSCLIENT_TLS_KEY"), read("PSCLIENT_TLS_CERT"))
    if token:
        bearer = grpc.access_token_call_credentials(token.decode().strip())
        secure = grpc.composite_channel_credentials(secure, bearer)
    return grpc.secure_channel(address, secure)


channel = connect(sys.argv[1])
server = pserver_pb2_grpc.ParameterServerStub(channel)

# With these three fields the server knows a repeat: it is applied once, however often it is sent.
client_id = os.urandom(16)             # one per process and server
session = time.time_ns() // 1000       # begins with a time, in microseconds: a later one is newer
sequences = itertools.count(1)         # one counter per server
AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED,
         grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED)


def exactly_once(call: Callable[..., Any], message: Any, seconds: float = 30) -> Any:
    """Sends it until it is answered, always under the same id: docs/wire.md, "Retrying safely"."""
    message.request.CopyFrom(
        ps.RequestId(client_id=client_id, session=session, sequence=next(sequences)))
    give_up, pause = time.monotonic() + seconds, 0.02
    while True:
        try:
            return call(message, timeout=10)
        except grpc.RpcError as error:
            # A server that is busy says when to come again.
            asked = dict(error.trailing_metadata() or ()).get("grpc-retry-pushback-ms", 0)
            wait = max(pause, int(asked) / 1000)
            if error.code() not in AGAIN or time.monotonic() + wait > give_up:
                raise
            time.sleep(wait)
            pause = min(2 * pause, 2.0)


try:
    # An empty configuration is SGD with learning rate 1.
    exactly_once(server.InitParam, ps.InitParamRequest(
        name="w", element_type=ps.FLOAT32, content=struct.pack(FORMAT, 1, 2, 3)))
    exactly_once(server.FinishInitParams, ps.FinishInitParamsRequest())
except grpc.RpcError as error:
    if error.code() != grpc.StatusCode.ALREADY_EXISTS:  # another worker was first
        raise

gradient = struct.pack(FORMAT, 0.5, 0.5, 0.5)
pushed = exactly_once(server.SendGrad, ps.SendGradRequest(
    name="w", element_type=ps.FLOAT32, content=gradient))
pulled = server.GetParam(ps.GetParamRequest(name="w"), timeout=10)
print("version", pushed.version)
print("w =", *struct.unpack(FORMAT, pulled.content))
