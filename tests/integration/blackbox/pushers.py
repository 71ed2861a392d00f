# SPDX-License-Identifier: Apache-2.0
"""Clients that push whole numbers until they are told to stop, and what they know afterwards.

Each pusher has a parameter of its own, [0], SGD with learning rate 1, and pushes -1: after the n-th
push its value is n. Whatever happens to the server, a value that is not equal to the parameter's
version was never one that existed.
"""

import threading

import grpc

from blackbox import patiently
from calls import Calls


class Pusher(threading.Thread):
    def __init__(self, name, address):
        super().__init__(daemon=True)
        self.parameter = name
        self.calls = Calls(address)
        self.sent = 0
        self.acknowledged = 0
        self.odd = []
        self.ending = threading.Event()

    def run(self):
        while not self.ending.is_set():
            try:
                self.sent += 1
                self.acknowledged = self.calls.push(self.parameter, [-1.0])
            except grpc.RpcError as error:
                # Gone, for certain or perhaps. Anything else is odd.
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                    self.odd.append((error.code(), error.details()))
                self.ending.wait(0.02)

    def end(self):
        self.ending.set()
        self.join(30)
        self.calls.channel.close()


class Crowd:
    """Pushers on their parameters "p0", "p1" ..."""

    def __init__(self, count):
        self.names = [f"p{i}" for i in range(count)]
        self.floor = dict.fromkeys(self.names, 0)
        self.ceiling = dict.fromkeys(self.names, 0)
        self.pushers = []

    def initialise(self, calls):
        for name in self.names:
            calls.init(name, [0.0])
        calls.finish()

    def start(self, address):
        self.pushers = [Pusher(name, address) for name in self.names]
        for pusher in self.pushers:
            pusher.start()

    def acknowledged(self):
        return sum(pusher.acknowledged - self.floor[pusher.parameter] for pusher in self.pushers
                   if pusher.acknowledged > 0)

    def end(self):
        """Notes for each parameter what must be there (`floor`) and what may (`ceiling`)."""
        for pusher in self.pushers:
            pusher.end()
            if pusher.acknowledged > 0:
                self.floor[pusher.parameter] = pusher.acknowledged
            self.ceiling[pusher.parameter] += pusher.sent
        return [odd for pusher in self.pushers for odd in pusher.odd]

    def check(self, test, calls, floor=None):
        """What a server holds now existed, is not older than `floor` and not newer than sent."""
        for name in self.names:
            values, version = patiently(lambda name=name: calls.pull(name))
            test.assertEqual(values, [float(version)], name)
            test.assertLessEqual(version, self.ceiling[name], name)
            test.assertGreaterEqual(version, (floor or self.floor)[name], name)
            self.ceiling[name] = version
            self.floor[name] = version
