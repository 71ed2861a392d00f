# SPDX-License-Identifier: Apache-2.0
"""Stands before servers and makes every request that changes something go wrong twice:

    lossy_front.py SERVER...    prints "listening HOST:PORT[,HOST:PORT...]", runs until killed

The first attempt is refused as busy, with a pause that the client has to keep. The second reaches
the server, which applies it, and the answer is lost: the client is told UNAVAILABLE. A client that
asks again under the same RequestId loses nothing and changes nothing twice. That its sessions begin
with a time (microseconds since 1970) is looked at here, since a server cannot tell a small session
from an early one.
"""
import os
import sys
import time
from concurrent import futures

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "cluster"))
from calls import MESSAGES  # noqa: E402

CHANGING = ("InitParam", "DefineParam", "FinishInitParams", "SendGrad", "PushPull")
SAME_MESSAGE = {"DefineParam": "InitParam"}
DAY_US = 86400 * 1000000
PAUSE_MS = 200


class Front(grpc.GenericRpcHandler):
    def __init__(self, server):
        self.channel = grpc.insecure_channel(server)
        self.attempts = {}  # when each request came, by its path and bytes

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self.answer(details.method, request, context))

    def answer(self, path, request, context):
        method = path.split("/")[-1]
        if method not in CHANGING:
            return self.forward(path, request, context)
        times = self.attempts.setdefault((path, request), [])
        times.append(time.monotonic())
        if len(times) == 1:
            self.look_at(method, request)
            context.set_trailing_metadata(
                (("ps-status", "busy"), ("grpc-retry-pushback-ms", str(PAUSE_MS))))
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "come again")
        if len(times) == 2 and times[1] - times[0] < PAUSE_MS / 2000:
            fail(f"{method}: again after {times[1] - times[0]} s, {PAUSE_MS} ms were asked for")
        reply = self.forward(path, request, context)
        if len(times) == 2:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was lost")
        return reply

    def forward(self, path, request, context):
        try:
            return self.channel.unary_unary(path)(request, timeout=120)
        except grpc.RpcError as error:
            context.set_trailing_metadata(error.trailing_metadata())
            context.abort(error.code(), error.details())

    @staticmethod
    def look_at(method, request):
        number = MESSAGES[
            f"pserver.v1.{SAME_MESSAGE.get(method, method)}Request"].FromString(request).request
        age_us = time.time() * 1e6 - number.session
        is_time = number.session == 1 or 0 <= age_us < DAY_US  # a random id may begin with 1
        if len(number.client_id) < 16 or number.sequence < 1 or not is_time:
            fail(f"{method}: no RequestId as it should be: {number}")


def fail(text):
    print(text, file=sys.stderr, flush=True)
    os._exit(1)


def main():
    addresses, fronts = [], []
    for address in sys.argv[1:]:
        front = grpc.server(futures.ThreadPoolExecutor(4))
        front.add_generic_rpc_handlers((Front(address),))
        addresses.append(f"127.0.0.1:{front.add_insecure_port('127.0.0.1:0')}")
        front.start()
        fronts.append(front)
    print(f"listening {','.join(addresses)}", flush=True)
    for front in fronts:
        front.wait_for_termination()


main()
