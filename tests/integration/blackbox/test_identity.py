# SPDX-License-Identifier: Apache-2.0
"""Who may come in, and what for: certificates, tokens and roles at a real server."""

import hashlib
import os
import tempfile
import threading
import unittest

import grpc

from blackbox import Calls, Server, run
from authority import Authority
from certificates import DAY
from calls import MESSAGES
from cluster import PATIENCE, wait_until

ROLES = """
rules:
  - {identity: "spiffe://test/trainer/*", role: trainer}
  - {identity: watcher.test, role: reader}
  - {identity: chief, role: admin}
  - {identity: half, role: trainer, prefix: a/}
"""
TOKENS = {"chief": "chiefs-token", "half": "halfs-token", "nobody": "nobodys-token"}


def token_lines(tokens):
    return "".join(f"{name} sha256:{hashlib.sha256(token.encode()).hexdigest()}\n"
                   for name, token in tokens.items())


def write(path, text):
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.rename(path + ".new", path)


def admin(calls, method, request):
    call = calls.channel.unary_unary(
        f"/pserver.v1.Admin/{method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=lambda data: data)
    return call(request, timeout=PATIENCE)


def save(calls):
    return admin(calls, "SaveCheckpoint", MESSAGES["pserver.v1.SaveCheckpointRequest"]())


def push_as(calls, name, client, sequence):
    request = MESSAGES["pserver.v1.SendGradRequest"](name=name, element_type=4,
                                                     content=b"\0\0\200\77" * 4)
    request.request.client_id = client
    request.request.session = 1
    request.request.sequence = sequence
    calls.call("SendGrad", request)


def applied(calls, client, begin=False):
    request = MESSAGES["pserver.v1.LastAppliedRequest"](client_id=client, begin=begin)
    return MESSAGES["pserver.v1.LastAppliedResponse"].FromString(
        calls.call("LastApplied", request))


class World(unittest.TestCase):
    """An authority with a server's and some clients' certificates."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.authority = Authority(os.path.join(cls.folder, "certificates"))
        cls.authority.sign("server", "DNS:localhost,IP:127.0.0.1")
        cls.authority.sign("trainer", "DNS:worker.test,URI:spiffe://test/trainer/7")
        cls.authority.sign("watcher", "DNS:watcher.test,DNS:other.test")
        cls.authority.sign("nameless", "")
        cls.tokens = os.path.join(cls.folder, "tokens")
        cls.roles = os.path.join(cls.folder, "roles.yaml")
        write(cls.tokens, token_lines(TOKENS))
        write(cls.roles, ROLES)

    @classmethod
    def serve(cls, *flags, **more):
        server = Server(*flags, **more)
        cls.addClassCleanup(server.__exit__)
        return server

    def refused(self, code, call, *arguments):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception.details()

    def denied(self, call, *arguments):
        return self.refused(grpc.StatusCode.PERMISSION_DENIED, call, *arguments)

    def unknown(self, call, *arguments):
        return self.refused(grpc.StatusCode.UNAUTHENTICATED, call, *arguments)


class Roles(World):
    """Certificates where they are shown, tokens beside them, and rules for both."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.serve(*cls.authority.server_flags("--tls-client-auth", "request"),
                               "--tokens", cls.tokens, "--roles", cls.roles, http=True)
        cls.chief = cls.client(token="chiefs-token")
        for name in ("a/w", "b/w"):
            cls.chief.init(name, [0.0] * 4)
        cls.chief.finish()
        cls.trainer = cls.client("trainer")
        cls.watcher = cls.client("watcher")
        cls.half = cls.client(token="halfs-token")

    @classmethod
    def client(cls, name=None, token=None):
        return cls.authority.calls(cls.server.address, name, token)

    def test_a_trainer_pushes_and_does_not_save(self):
        self.trainer.push("a/w", [1.0] * 4)
        self.trainer.pull("a/w")
        self.assertIn("admin for the whole job", self.denied(save, self.trainer))

    def test_what_a_client_has_done_is_told_to_it_and_to_operators(self):
        push_as(self.trainer, "a/w", b"@seven#0", 1)
        for calls in (self.trainer, self.chief):
            told = applied(calls, b"@seven#0")
            self.assertTrue(told.known and told.whole)
            self.assertEqual([(row.name, row.pushes) for row in told.pushes], [("a/w", 1)])
        for begin in (False, True):
            self.assertIn("somebody else's", self.denied(applied, self.half, b"@seven#0", begin))
        self.denied(applied, self.watcher, b"@seven#0")
        begun = applied(self.trainer, b"@seven#0", True).begun
        self.assertGreater(begun, 1)
        self.refused(grpc.StatusCode.FAILED_PRECONDITION, push_as, self.trainer, "a/w", b"@seven#0",
                     2)

    def test_a_reader_pulls_and_does_not_push(self):
        self.watcher.pull("a/w")
        text = self.denied(self.watcher.push, "a/w", [1.0] * 4)
        self.assertIn("trainer", text)
        self.assertIn("watcher.test", text)

    def test_a_reader_hears_the_same_of_what_is_not_there(self):
        there = self.denied(self.watcher.push, "a/w", [1.0] * 4)
        self.assertEqual(there, self.denied(self.watcher.push, "none", [1.0] * 4))

    def test_an_admin_saves(self):
        save(self.chief)
        lines = [line for line in self.server.process.log().splitlines() if "audit" in line]
        self.assertTrue(any("SaveCheckpoint" in line and "chief" in line for line in lines), lines)

    def test_who_has_a_prefix_pushes_below_it_alone(self):
        self.half.push("a/w", [1.0] * 4)
        there = self.denied(self.half.push, "b/w", [1.0] * 4)
        self.assertEqual(there, self.denied(self.half.push, "b/none", [1.0] * 4))
        self.denied(self.half.pull, "b/w")
        self.denied(self.half.finish)
        self.denied(self.half.init, "b/new", [0.0])

    def test_a_bundle_is_denied_item_by_item(self):
        request = MESSAGES["pserver.v1.GetParamsRequest"]()
        for name in ("a/w", "b/w", "b/none"):
            request.params.add(name=name)
        reply = MESSAGES["pserver.v1.GetParamsResponse"].FromString(
            self.half.call("GetParams", request))
        words = [item.status.word for item in reply.params]
        self.assertEqual(words, ["", "denied", "denied"])

    def test_a_client_id_belongs_to_who_used_it_first(self):
        push_as(self.trainer, "a/w", b"client-of-trainer", 1)
        text = self.denied(push_as, self.half, "a/w", b"client-of-trainer", 2)
        self.assertIn("client id", text)
        self.denied(push_as, self.half, "a/w", b"client-of-trainer", 1)
        push_as(self.trainer, "a/w", b"client-of-trainer", 2)

    def test_no_identity_or_a_wrong_one_is_not_let_in(self):
        self.assertIn("neither a token", self.unknown(self.client().pull, "a/w"))
        self.assertIn("not one that this server knows",
                      self.unknown(self.client(token="guess").pull, "a/w"))
        self.unknown(self.client("trainer", token="guess").pull, "a/w")
        self.unknown(self.client("nameless").pull, "a/w")
        self.denied(self.client(token="nobodys-token").pull, "a/w")

    def test_health_is_for_everybody_and_reflection_is_not(self):
        stranger = self.client()
        check = stranger.channel.unary_unary("/grpc.health.v1.Health/Check")
        self.assertEqual(check(b"", timeout=PATIENCE), b"\x08\x01")
        reflect = stranger.channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        self.unknown(lambda: list(reflect(iter([b"\x3a\x00"]), timeout=PATIENCE)))
        known = self.watcher.channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        self.assertEqual(len(list(known(iter([b"\x3a\x00"]), timeout=PATIENCE))), 1)

    def test_refusals_are_counted(self):
        self.unknown(self.client().pull, "a/w")
        page = self.server.get("/metrics")[1]
        self.assertRegex(page, r'ps_refused_total\{reason="no_identity"\} [1-9]')

    def test_tokens_and_roles_change_under_way(self):
        late = self.client(token="lates-token")
        self.unknown(late.pull, "a/w")
        write(self.tokens, token_lines({**TOKENS, "late": "lates-token"}))
        write(self.roles, ROLES + "  - {identity: late, role: reader}\n")
        wait_until(lambda: self.succeeds(late), "the new token is taken")
        write(self.tokens, token_lines(TOKENS))
        wait_until(lambda: not self.succeeds(late), "the token is refused again")
        self.unknown(late.pull, "a/w")

    def succeeds(self, calls):
        try:
            calls.pull("a/w")
        except grpc.RpcError:
            return False
        return True


class Required(World):
    """Without a certificate of the right authority nobody gets as far as a call."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.serve(*cls.authority.server_flags(), http=True)
        cls.trainer = cls.authority.calls(cls.server.address, "trainer")
        cls.trainer.init("w", [0.0] * 4)
        cls.trainer.finish()

    def test_only_who_shows_a_good_certificate_comes_in(self):
        other = Authority(os.path.join(self.folder, "other"))
        other.sign("stranger", "URI:spiffe://test/trainer/7")
        unavailable = grpc.StatusCode.UNAVAILABLE
        address = self.server.address
        for calls in (self.authority.calls(address),
                      other.calls(address, "stranger", trusted=self.authority.ca),
                      other.calls(address, "stranger"),
                      self.server.calls):
            self.refused(unavailable, calls.pull, "w")
        self.trainer.push("w", [1.0] * 4)

    def test_a_rotation_fails_no_call(self):
        stop = threading.Event()
        failures = []

        def push():
            while not stop.is_set():
                try:
                    calls = self.authority.calls(self.server.address, "trainer")
                    for _ in range(20):
                        calls.push("w", [1.0] * 4)
                    calls.channel.close()
                except grpc.RpcError as error:
                    failures.append(error)

        workers = [threading.Thread(target=push) for _ in range(4)]
        for worker in workers:
            worker.start()
        for _ in range(3):
            before = self.ends()
            self.authority.sign("server", "DNS:localhost,IP:127.0.0.1",
                                ends=(1 + before[1]) * DAY)
            wait_until(lambda b=before: self.ends()[0] != b[0], "the new certificate is taken")
        stop.set()
        for worker in workers:
            worker.join()
        self.assertEqual(failures, [])

    rotations = 0

    def ends(self):
        Required.rotations += 1
        page = self.server.get("/metrics")[1]
        line = [row for row in page.splitlines()
                if row.startswith("ps_tls_certificate_not_after_seconds")]
        return line[0], Required.rotations

    def test_a_bad_reload_keeps_the_old_and_shows(self):
        good = self.authority.path("server", "key")
        with open(good, encoding="ascii") as file:
            key = file.read()
        write(good, "garbage")
        wait_until(lambda: "not renewed" in self.server.get("/readyz")[1], "the complaint shows")
        self.assertEqual(self.server.get("/readyz")[0], 200)
        self.authority.calls(self.server.address, "trainer").pull("w")
        write(good, key)
        wait_until(lambda: "not renewed" not in self.server.get("/readyz")[1], "it is mended")


class Local(World):
    """The unix socket of a server with TLS: by the kernel's word, under a name that rules know."""

    def serve_at(self, *flags):
        path = os.path.join(self.folder, "socket")
        write(self.roles, ROLES + f"  - {{identity: 'uid:{os.geteuid()}', role: reader}}\n")
        server = Server(*self.authority.server_flags(), "--roles", self.roles,
                        "--listen-unix", path, *flags)
        self.addCleanup(server.__exit__)
        return server, Calls("unix:" + path), path

    def test_the_servers_own_user_comes_in_under_its_number(self):
        server, calls, path = self.serve_at()
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.authority.sign("chief", "DNS:chief")
        chief = self.authority.calls(server.address, "chief")
        chief.init("w", [1.0])
        chief.finish()
        self.assertEqual(calls.pull("w")[0], [1.0])
        self.assertIn(f"uid:{os.geteuid()}", self.denied(calls.push, "w", [1.0]))

    def test_local_ways_that_nobody_may_use_are_not_opened(self):
        done = run("pserver", "--listen", "127.0.0.1:0", "--listen-unix", "/tmp/none/socket",
                   "--local-uids", "none")
        self.assertEqual(done.returncode, 64)
        self.assertIn("nobody could come in", done.stderr)


class Start(World):
    """What is wrong at the start ends it, in words and with the code for wrong options."""

    def check(self, words, *flags, code=64):
        done = run("pserver", "--listen", "127.0.0.1:0", *flags)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(words, done.stderr)

    def test_options_that_go_together(self):
        certificate = self.authority.path("server")
        self.check("--tls-key", "--tls-cert", certificate)
        self.check("--tls-cert", "--tls-ca", certificate)
        self.check("needs --tls-ca", *self.authority.server_flags()[:4],
                   "--tls-client-auth", "require")

    def test_files_that_are_wrong(self):
        flags = list(self.authority.server_flags())
        flags[3] = self.authority.path("trainer", "key")
        self.check("not that of the certificate", *flags)
        flags[3] = self.authority.path("none", "key")
        self.check("none.key", *flags, code=69)
        self.check("tokens:1", "--tokens", self.bad_file("tokens", "alice secret\n"))
        self.check("expected reader", "--roles",
                   self.bad_file("roles", "rules: [{identity: a, role: god}]"))

    def bad_file(self, name, text):
        path = os.path.join(self.folder, "bad-" + name)
        write(path, text)
        return path

    def test_an_open_server_beyond_loopback_is_warned_of_once(self):
        for flags, warnings in (((), 1), (("--insecure",), 0)):
            server = Server("--listen", "0.0.0.0:0", *flags)
            with server:
                lines = [line for line in server.process.log().splitlines() if "--insecure" in line]
            self.assertEqual(len(lines), warnings)


if __name__ == "__main__":
    unittest.main()
