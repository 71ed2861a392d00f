# SPDX-License-Identifier: Apache-2.0
"""Every way of not being let in, tried from C, Python and Go: each is refused, nobody else is."""

import os
import unittest

from certificates import DAY, openssl
from tls_world import (WORKER, Go, Server, World, initialise, run, settings, try_c, try_python)


class Matrix(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = cls.enterClassContext(World())
        cls.go = Go(os.path.join(cls.world.folder, "go"))
        cls.server = cls.enterClassContext(Server(*cls.world.flags()))
        cls.good = settings(cls.world.ours.ca, cls.world.worker)
        initialise(cls.server.address, cls.good)

    @staticmethod
    def words_of_c(text, address, wish):
        """A client tries until its timeout, and on a busy machine a handshake takes longer than the
        shortest: then nothing was refused yet."""
        words = ""
        for timeout in ("1s", "5s", "30s"):
            words = try_c(address, wish, timeout=timeout)
            if text in words:
                break
        return words

    def refused(self, wish, c, python, go, address=None):
        """One text of each that all of its client's words must have in them."""
        address = address or self.server.address
        self.assertIn(c, self.words_of_c(c, address, wish))
        self.assertIn(python, try_python(address, wish))
        self.assertIn(go, self.go.attempt(address, wish))

    def signed(self, name, **times):
        return settings(self.world.ours.ca, self.world.ours.sign(name, WORKER, **times))

    def test_whoever_has_a_certificate_of_ours_comes_in(self):
        self.refused(self.good, "OK", "OK", "OK")

    def test_plaintext_is_not_understood(self):
        self.refused({}, "no connection", "UNAVAILABLE", "Unavailable")

    def test_no_certificate(self):
        self.refused(settings(self.world.ours.ca), "may not take this client's certificate",
                     "UNAVAILABLE", "Unavailable")

    def test_a_certificate_of_another_authority(self):
        pair = self.world.others.sign("stranger", WORKER)
        self.refused(settings(self.world.ours.ca, pair), "may not take this client's certificate",
                     "UNAVAILABLE", "Unavailable")

    def test_an_expired_certificate(self):
        self.refused(self.signed("expired", begins=-3 * DAY, ends=-60),
                     "may not take this client's certificate", "UNAVAILABLE", "Unavailable")

    def test_a_certificate_that_is_not_valid_yet(self):
        self.refused(self.signed("early", begins=DAY, ends=2 * DAY),
                     "may not take this client's certificate", "UNAVAILABLE", "Unavailable")

    def test_a_server_that_nobody_vouches_for(self):
        self.refused(settings(self.world.others.ca, self.world.worker),
                     "the server's certificate is not vouched for by tls_ca",
                     "certificate verify failed", "x509: certificate signed by unknown authority")

    def test_a_server_of_another_name(self):
        self.refused(self.good, "Peer name localhost is not in peer certificate",
                     "Peer name localhost is not in peer certificate", "not localhost",
                     address=f"localhost:{self.server.port}")

    def test_a_key_that_is_not_the_certificates(self):
        wish = settings(self.world.ours.ca, (self.world.worker[0], self.world.server[1]))
        self.assertIn("tls_key is not that of tls_cert",
                      try_c(self.server.address, wish, timeout="20s"))

    def test_files_that_are_none_are_named_at_once(self):
        missing = settings(self.world.ours.ca + ".gone")
        self.assertIn("tls_ca: ", try_c(self.server.address, missing))
        half = {**self.good, "PSCLIENT_TLS_KEY": ""}
        self.assertIn("tls_cert and tls_key belong together", try_c(self.server.address, half))

    def test_only_tls_1_2_and_up(self):
        port = self.server.port
        pair = ("-cert", self.world.worker[0], "-key", self.world.worker[1])
        for version, goes in (("-tls1_1", False), ("-tls1_2", True), ("-tls1_3", True)):
            seen = openssl("s_client", "-connect", f"127.0.0.1:{port}", version, "-cipher",
                           "ALL:@SECLEVEL=0", "-alpn", "h2", *pair, check=False).stdout
            with self.subTest(version=version):
                self.assertEqual("ALPN protocol: h2" in seen, goes, seen)

    def test_a_server_does_not_start_with_an_expired_certificate(self):
        pair = self.world.ours.sign("past", "IP:127.0.0.1", begins=-3 * DAY, ends=-60)
        done = run("pserver", "--listen", "127.0.0.1:0", "--tls-cert", pair[0], "--tls-key",
                   pair[1])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(pair[0], done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
