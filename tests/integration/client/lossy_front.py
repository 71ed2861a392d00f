"""Stands before a server and loses the first answer to every request that changes something:

    lossy_front.py SERVER      prints "listening HOST:PORT", serves until it is ended

The server has applied the request then, and the client is told UNAVAILABLE. A client that asks
again under the same RequestId loses nothing and changes nothing twice. That its sessions begin with
a time (microseconds since 1970) is looked at here, since a server cannot tell a small session from
an early one.
"""
import os
import sys
import time
from concurrent import futures

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "cluster"))
from calls import MESSAGES  # noqa: E402

CHANGING = ("InitParam", "FinishInitParams", "SendGrad")
DAY_US = 86400 * 1000000


class Front(grpc.GenericRpcHandler):
    def __init__(self, server):
        self.channel = grpc.insecure_channel(server)
        self.seen = set()

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self.forward(details.method, request, context))

    def forward(self, path, request, context):
        try:
            answer = self.channel.unary_unary(path)(request, timeout=120)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
        method = path.split("/")[-1]
        if method in CHANGING and (path, request) not in self.seen:
            self.seen.add((path, request))
            self.look_at(method, request)
            context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was lost")
        return answer

    @staticmethod
    def look_at(method, request):
        number = MESSAGES[f"pserver.v1.{method}Request"].FromString(request).request
        age_us = time.time() * 1e6 - number.session
        if len(number.client_id) < 16 or number.sequence < 1 or not 0 <= age_us < DAY_US:
            print(f"{method}: no RequestId as it should be: {number}", file=sys.stderr, flush=True)
            os._exit(1)


def main():
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((Front(sys.argv[1]),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"listening 127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


main()
