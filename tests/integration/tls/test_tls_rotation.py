# SPDX-License-Identifier: Apache-2.0
"""Certificates change while eight workers push and others come and go: no call fails. Who was let
in by an authority that is not believed any more is not let in again."""

import os
import subprocess
import threading
import unittest

import grpc

from certificates import Authority, put, serial_of, serial_shown
from tls_world import (MESSAGES, PATIENCE, SERVER, WORKER, Server, World, ask, channel, program,
                       do, run, settings, try_c, wait_until)

PUSH = MESSAGES["pserver.v1.SendGradRequest"](name="w", element_type=4, content=bytes(16))


def is_ready(connection):
    try:
        do(connection, "pull")
    except grpc.RpcError:
        return False
    return True


class Rotation(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(World())
        # The server has a copy, so that clients believe the server whomever the server believes.
        self.authorities = self.world.path("believed.pem")
        put(self.world.ours.ca, self.authorities)
        self.server = self.enterContext(Server(*self.world.flags("--tls-ca", self.authorities)))
        self.good = settings(self.world.ours.ca, self.world.ours.sign("first", WORKER))
        with channel(self.server.address, self.good) as connection:
            ask(connection, "ParameterServer", "InitParam", MESSAGES["pserver.v1.InitParamRequest"](
                name="w", element_type=4, content=bytes(16)))

    def rotate(self, name):
        """Another certificate for the server and one for the worker; the server's is seen. Whoever
        begins to read files may find the certificate of one pair and the key of another:
        libpsclient copes with that, and the other workers get files that stay."""
        for alternatives, target in ((SERVER, self.world.server), (WORKER, self.world.worker)):
            fresh = self.world.ours.sign(f"{name}-{alternatives[:3]}", alternatives)
            for source, place in zip(fresh, target):
                put(source, place)
        self.good = settings(self.world.ours.ca, fresh)
        wait_until(lambda: serial_shown(self.server.port) == serial_of(self.world.server[0]),
                   "the new certificate is shown")

    def test_no_call_fails_while_certificates_change(self):
        stop, failures, counts = threading.Event(), [], [0] * 8
        # Half of the workers keep their connection, the others make one for each few pushes.
        # Channels of equal settings would share one connection otherwise.
        alone = [("grpc.use_local_subchannel_pool", 1)]

        def work(i):
            try:
                while not stop.is_set():
                    with channel(self.server.address, self.good, alone) as connection:
                        while not stop.is_set():
                            ask(connection, "ParameterServer", "SendGrad", PUSH)
                            counts[i] += 1
                            if i % 2 == 1 and counts[i] % 10 == 0:
                                break
            except grpc.RpcError as error:
                failures.append(error)

        data = self.world.path("rows")
        made = run("pstrain", "generate", "--out", data, "--rows", "2000", "--features", "24")
        self.assertEqual(made.returncode, 0, made.stderr)
        trainer = subprocess.Popen(
            [program("pstrain"), "--data", data, "--workers", "8", "--epochs", "1000000",
             "--servers", self.server.address, "--tls-ca", self.world.ours.ca, "--tls-cert",
             self.world.worker[0], "--tls-key", self.world.worker[1]],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        try:
            # The trainer gives the servers its parameters beside ours, and begins.
            with channel(self.server.address, self.good) as connection:
                wait_until(lambda: is_ready(connection), "the trainer has begun")
            for thread in threads:
                thread.start()
            wait_until(lambda: min(counts) > 20, "every worker has pushed")
            for name in ("second", "third", "fourth"):
                self.rotate(name)
                before = list(counts)
                wait_until(lambda b=before: failures or all(
                    now > then + 20 for now, then in zip(counts, b)), "every worker goes on")
            goes_on = trainer.poll() is None
        finally:
            stop.set()
            for thread in threads:
                if thread.ident:
                    thread.join()
            trainer.terminate()
            text = trainer.communicate(timeout=PATIENCE)[0]
        self.assertEqual(failures, [])
        self.assertTrue(goes_on, text)

    def test_an_authority_that_is_not_believed_any_more(self):
        fresh = Authority(os.path.join(self.world.folder, "fresh"))
        newcomer = settings(self.world.ours.ca, fresh.sign("newcomer", WORKER))
        self.assertNotEqual(try_c(self.server.address, newcomer, "status", timeout="1s"), "OK")

        put(fresh.ca, self.authorities)

        wait_until(lambda: try_c(self.server.address, newcomer, "status", timeout="1s") == "OK",
                   "who has a certificate of the new authority comes in")
        self.assertNotEqual(try_c(self.server.address, self.good, "status", timeout="1s"), "OK")


if __name__ == "__main__":
    unittest.main()
