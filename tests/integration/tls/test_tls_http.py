# SPDX-License-Identifier: Apache-2.0
"""The HTTP port with TLS: probes come in without a certificate, readers of metrics do not, and a
new certificate is shown to the next visitor."""

import ssl
import unittest
import urllib.error
import urllib.request

from certificates import openssl, put, serial_of, serial_shown
from tls_world import PATIENCE, SERVER, WORKER, Server, World, wait_until


class Http(unittest.TestCase):
    def setUp(self):
        self.world = self.enterContext(World())

    def begin(self, *flags):
        self.server = self.enterContext(Server(*flags, http=True))
        self.port = self.server.process.wait_event("http listening")["port"]

    def get(self, page, pair=None, scheme="https"):
        """The status of a page; None: the connection did not come about."""
        context = ssl.create_default_context(cafile=self.world.ours.ca)
        if pair:
            context.load_cert_chain(*pair)
        try:
            url = f"{scheme}://127.0.0.1:{self.port}{page}"
            with urllib.request.urlopen(url, timeout=PATIENCE, context=context) as reply:
                return reply.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def test_probes_need_no_certificate_and_metrics_do(self):
        self.begin(*self.world.flags())
        stranger = self.world.others.sign("stranger", WORKER)
        for page, nobody in (("/livez", 200), ("/readyz", 200), ("/metrics", 403), ("/", 403)):
            with self.subTest(page=page):
                wait_until(lambda p=page: self.get(p, self.world.worker) == 200, page)
                self.assertEqual(self.get(page), nobody)
                self.assertEqual(self.get(page, stranger), 403)
        self.assertIsNone(self.get("/livez", scheme="http"))

    def test_without_authorities_nobody_is_asked(self):
        self.begin("--tls-cert", self.world.server[0], "--tls-key", self.world.server[1])
        self.assertEqual(self.get("/metrics"), 200)

    def test_only_tls_1_2_and_up(self):
        self.begin(*self.world.flags())
        for version, goes in (("-tls1_1", False), ("-tls1_2", True), ("-tls1_3", True)):
            seen = openssl("s_client", "-connect", f"127.0.0.1:{self.port}", version, "-cipher",
                           "ALL:@SECLEVEL=0", check=False).stdout
            self.assertEqual("-----BEGIN CERTIFICATE-----" in seen, goes, version)

    def test_a_new_certificate_is_shown_to_the_next_visitor(self):
        self.begin(*self.world.flags())
        self.assertEqual(serial_shown(self.port), serial_of(self.world.server[0]))
        for name in ("second", "third"):
            fresh = self.world.ours.sign(name, SERVER)
            for source, target in zip(fresh, self.world.server):
                put(source, target)
            wait_until(lambda p=fresh: serial_shown(self.port) == serial_of(p[0]), name)
            self.assertEqual(serial_shown(self.server.port), serial_of(fresh[0]))
        self.assertEqual(self.get("/metrics", self.world.worker), 200)


if __name__ == "__main__":
    unittest.main()
