# SPDX-License-Identifier: Apache-2.0
"""How machines see a server: /metrics, /livez, /readyz, and the service manager's socket."""

import fcntl
import http.client
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import grpc

from blackbox import Server, fetch, patiently, run
from calls import MESSAGES, Calls
from cluster import PATIENCE, Cluster, wait_until

HTTP = ["--http", "127.0.0.1:0"]
MANUAL = os.path.join(os.path.dirname(__file__), "../../../docs/metrics.md")


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(http=True)
        cls.addClassCleanup(cls.server.__exit__)
        cls.server.make_ready()
        for _ in range(3):
            cls.server.calls.push("w", [1.0] * 4)
        try:
            cls.server.calls.push("nobody", [1.0])
        except grpc.RpcError:
            pass

    def metrics(self):
        status, text = self.server.get("/metrics")
        self.assertEqual(status, 200)
        return text

    def test_promtool_has_no_complaint(self):
        checked = subprocess.run(["promtool", "check", "metrics"], input=self.metrics(), text=True,
                                 capture_output=True, timeout=PATIENCE, check=False)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))

    def test_every_metric_is_in_the_manual(self):
        with open(MANUAL, encoding="utf-8") as manual:
            described = re.findall(r"^\| `([a-z_]+)` \| (\w+) \| [a-z_, ]*\|", manual.read(), re.M)
        served = re.findall(r"^# TYPE (\S+) (\S+)$", self.metrics(), re.M)
        self.assertEqual(sorted(described), sorted(served))

    def test_what_is_counted_is_what_happened(self):
        text = self.metrics()
        self.assertIn("\nps_pushes_total 3\n", text)
        self.assertIn("\nps_position 3\n", text)
        self.assertIn("\nps_parameters 1\n", text)
        self.assertIn("\nps_checkpoints_total 1\n", text)
        service = 'grpc_service="pserver.v1.ParameterServer",grpc_method="SendGrad"'
        self.assertIn(f"\ngrpc_server_started_total{{{service}}} 4\n", text)
        self.assertIn(f'\ngrpc_server_handled_total{{{service},grpc_code="OK"}} 3\n', text)
        self.assertIn(f'\ngrpc_server_handled_total{{{service},grpc_code="NotFound"}} 1\n', text)

    def test_the_process_is_measured(self):
        text = self.metrics()
        value = {name: float(number) for name, number in
                 re.findall(r"^(process_[a-z_]+) (\S+)$", text, re.M)}
        self.assertAlmostEqual(value["process_start_time_seconds"], time.time(), delta=600)
        self.assertGreater(value["process_resident_memory_bytes"], 1 << 20)
        self.assertGreater(value["process_open_fds"], 5)
        self.assertGreaterEqual(value["process_max_fds"], value["process_open_fds"])
        self.assertIn("process_cpu_seconds_total", value)

    def test_live_and_ready_say_why(self):
        status, text = self.server.get("/livez")
        self.assertEqual(status, 200)
        self.assertRegex(text, r"^ok: the coordinator came round \d+ ms ago\n$")
        self.assertEqual(self.server.get("/readyz"), (200, "ok: serving, ready\n"))

    def ask(self, method, path, body=None, headers=None):
        port = self.server.process.event("http listening")["port"]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.request(method, path, body, headers or {})
        return connection.getresponse()

    def test_other_requests_are_answered_and_change_nothing(self):
        for method, path, status in [("GET", "/", 200), ("HEAD", "/metrics", 200),
                                     ("GET", "/metrics?x=1", 200), ("GET", "/nope", 404),
                                     ("GET", "/../etc/passwd", 404), ("POST", "/metrics", 405),
                                     ("DELETE", "/", 405), ("PUT", "/readyz", 405)]:
            body = "x" * 1000 if method in ("POST", "PUT") else None
            self.assertEqual(self.ask(method, path, body).status, status, (method, path))
        self.assertGreaterEqual(self.ask("GET", "/", headers={"x": "y" * 100000}).status, 400)
        self.assertEqual(self.server.get("/readyz")[0], 200)

    def test_silent_and_broken_visitors_do_not_keep_others_out(self):
        port = self.server.process.event("http listening")["port"]
        visitors = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(40)]
        try:
            for i, visitor in enumerate(visitors):
                visitor.sendall([b"", b"GET /metr", b"\x00\xff" * 50, b"GET / HTTP/9.9\r\n"][i % 4])
            self.assertEqual(self.server.get("/livez")[0], 200)
        finally:
            for visitor in visitors:
                visitor.close()


class Ways(unittest.TestCase):
    """How many clients come which way."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "socket")
        self.server = Server("--listen-unix", self.path, http=True)
        self.addCleanup(self.server.__exit__)
        self.server.make_ready()

    def wait_for(self, **wanted):
        names = {"tcp": r'ps_rpc_connections{transport="tcp"}',
                 "unix": r'ps_rpc_connections{transport="unix"}',
                 "clients": "ps_shared_memory_clients", "segments": "ps_shared_memory_segments"}

        def numbers():
            text = self.server.get("/metrics")[1]
            return {way: int(re.search(rf"^{re.escape(names[way])} (\d+)$", text, re.M)[1])
                    for way in wanted}

        wait_until(lambda: numbers() == wanted, lambda: f"{wanted}; it says {numbers()}")

    def test_connections_are_counted_by_transport_while_they_last(self):
        self.wait_for(tcp=1, unix=0, clients=0, segments=0)
        host, port = self.server.address.rsplit(":", 1)
        with socket.create_connection((host, int(port))):
            with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
                one.connect(self.path)
                two.connect(self.path)
                self.wait_for(tcp=2, unix=2)
            self.wait_for(tcp=2, unix=0)
        self.wait_for(tcp=1, unix=0)

    def name_of_the_local_socket(self):
        """As the server tells it to a call that asks; this one is refused."""
        pull = self.server.calls.channel.unary_unary("/pserver.v1.ParameterServer/GetParam")
        call = pull.future(b"", timeout=PATIENCE, metadata=[("ps-shared-memory", "?")])
        self.assertEqual(call.code(), grpc.StatusCode.NOT_FOUND)
        return dict(call.initial_metadata())["ps-shared-memory"]

    def share(self, name):
        memory = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(memory, 1 << 20)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        way = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        way.settimeout(PATIENCE)
        way.connect(b"\0" + name.encode())
        socket.send_fds(way, [b"PSSHARE1" + (1 << 20).to_bytes(8, "little")], [memory])
        os.close(memory)
        self.assertEqual(way.recv(64)[:8], b"PSTAKEN1")
        return way

    def test_a_client_that_shares_two_memories_is_one_client(self):
        name = self.name_of_the_local_socket()
        with self.share(name):
            self.wait_for(clients=1, segments=1)
            with self.share(name):
                self.wait_for(clients=1, segments=2)
            self.wait_for(clients=1, segments=1)
        self.wait_for(clients=0, segments=0)


class GivenUp(unittest.TestCase):
    """A push in ranges whose client gives it up takes half of what may be staged."""
    COUNT = 128 * 1024  # elements: 512 KiB
    HALF = COUNT // 2

    def range(self, sequence, offset):
        """The reply; None when there is no room."""
        request_id = MESSAGES["pserver.v1.RequestId"]
        request = MESSAGES["pserver.v1.SendGradRequest"](
            name="w", element_type=4, content=struct.pack(f"<{self.HALF}f", *[1.0] * self.HALF),
            offset=offset, count=self.HALF,
            request=request_id(client_id=b"one client", session=1, sequence=sequence))
        try:
            reply = self.server.calls.call("SendGrad", request)
        except grpc.RpcError as error:
            self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            return None
        return MESSAGES["pserver.v1.SendGradResponse"].FromString(reply)

    def test_it_makes_room_for_the_next_long_before_it_expires(self):
        self.server = Server("--staging-bytes", "1MiB", http=True)
        self.addCleanup(self.server.__exit__)
        self.server.make_ready(values=[0.0] * self.COUNT)
        self.assertTrue(self.range(1, 0).staged)
        wait_until(lambda: self.range(2, 0) is not None, "a newer push gets room")
        self.assertEqual(self.range(2, self.HALF).version, 1)
        text = self.server.get("/metrics")[1]
        self.assertIn("\nps_staged_expired_requests_total 1\n", text)
        self.assertIn("\nps_staged_requests 0\n", text)


class Life(unittest.TestCase):
    """One shard and two servers with etcd: readiness from the first to the last moment."""

    def page(self, process, name):
        port = process.wait_event("http listening")["port"]
        return fetch(f"http://127.0.0.1:{port}{name}")

    def health(self, calls):
        """What gRPC's health service says: it is to agree with /readyz."""
        check = calls.channel.unary_unary("/grpc.health.v1.Health/Check")
        return {b"\x08\x01": "SERVING", b"\x08\x02": "NOT_SERVING"}[check(b"", timeout=PATIENCE)]

    def wait_page(self, process, wanted):
        wait_until(lambda: self.page(process, "/readyz") == wanted,
                   lambda: f"/readyz says {wanted}; it says {self.page(process, '/readyz')}")

    def test_readiness_through_a_life(self):
        with Cluster(shards=1, ttl="5s", interval="1h") as cluster:
            owner = cluster.pserver("pserver-owner", *HTTP, "--drain-delay", "1h")
            calls = Calls(owner.wait_event("listening")["address"])
            self.wait_page(owner, (200, "ok: serving, uninitialized\n"))
            self.assertEqual(self.health(calls), "SERVING")

            spare = cluster.pserver("pserver-spare", *HTTP, "--drain-delay", "1h")
            self.wait_page(spare, (503, "not ok: spare, starting\n"))
            self.assertEqual(self.page(spare, "/livez")[0], 200)

            calls.init("w", [0.0])
            calls.finish()
            self.wait_page(owner, (200, "ok: serving, ready\n"))

            self.going_away(self.etcd_away_beyond_the_lease(cluster, [owner, spare], calls))

    def etcd_away_beyond_the_lease(self, cluster, processes, calls):
        cluster.etcd.kill()
        self.wait_page(processes[0], (503, "not ok: serving, fenced\n"))
        self.assertEqual(self.health(calls), "NOT_SERVING")
        for process in processes:
            self.assertEqual(self.page(process, "/livez")[0], 200)
        with self.assertRaises(grpc.RpcError) as refused:
            calls.push("w", [-1.0])
        self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE)
        cluster.start_etcd()
        return wait_until(lambda: next((process for process in processes
                                        if self.page(process, "/readyz")[0] == 200), None),
                          "one server is ready again")

    def going_away(self, owner):
        calls = Calls(owner.event("listening")["address"])
        before = patiently(lambda: calls.push("w", [-1.0]))
        owner.signal(signal.SIGTERM)
        self.wait_page(owner, (503, "not ok: stopping\n"))
        self.assertEqual(self.health(calls), "NOT_SERVING")
        self.assertEqual(self.page(owner, "/livez")[0], 200)
        self.assertEqual(patiently(lambda: calls.push("w", [-1.0])), before + 1)
        owner.signal(signal.SIGTERM)
        self.assertEqual(owner.wait_exit(), 0, owner.log())

    def test_a_server_that_waits_for_etcd_is_live_and_not_ready(self):
        with Cluster(shards=1, etcd=False) as cluster:
            early = cluster.pserver("pserver-early", *HTTP, "--etcd", cluster.etcd_url, etcd=False)
            self.wait_page(early, (503, "not ok: learning, starting\n"))
            self.assertEqual(self.page(early, "/livez")[0], 200)
            early.signal(signal.SIGTERM)
            self.assertEqual(early.wait_exit(), 0, early.log())


class Manager(unittest.TestCase):
    """A stand-in for systemd at the other end of NOTIFY_SOCKET."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pserver-test-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "notify")
        self.heard = []

    def listen(self, name):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(listener.close)
        listener.bind(name)
        listener.settimeout(PATIENCE)
        return listener

    def hear_until(self, listener, wanted):
        """Reads messages up to the wanted one; each with the time at which it came."""
        while True:
            self.heard.append((listener.recv(4096).decode(), time.monotonic()))
            if self.heard[-1][0] == wanted:
                return self.heard

    def test_the_manager_learns_ready_status_signs_of_life_and_the_end(self):
        listener = self.listen(self.path)
        with Server(environment={"NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": "8000000"}) as server:
            self.hear_until(listener, "READY=1")
            self.hear_until(listener, "STATUS=serving")
            server.make_ready()
            self.heard.clear()
            for _ in range(3):
                self.hear_until(listener, "WATCHDOG=1")
            signs = [when for text, when in self.heard if text == "WATCHDOG=1"]
            self.assertLess(max(b - a for a, b in zip(signs, signs[1:])), 8.0)
            server.process.signal(signal.SIGTERM)
            self.hear_until(listener, "STOPPING=1")
            self.hear_until(listener, "STATUS=ended")
            self.assertEqual(server.process.wait_exit(), 0)

    def test_a_server_without_etcd_to_talk_to_still_gives_signs_of_life(self):
        listener = self.listen(self.path)
        with Cluster(shards=1, etcd=False) as cluster:
            server = cluster.pserver("pserver", "--etcd", cluster.etcd_url, etcd=False,
                                     environment={"NOTIFY_SOCKET": self.path,
                                                  "WATCHDOG_USEC": "2000000"})
            self.hear_until(listener, "READY=1")
            for _ in range(3):
                self.hear_until(listener, "WATCHDOG=1")
            server.signal(signal.SIGTERM)
            self.hear_until(listener, "STOPPING=1")
            self.assertEqual(server.wait_exit(), 0)

    def test_an_abstract_socket_is_told_too_and_another_process_dog_is_not_fed(self):
        name = f"pserver-test-{os.getpid()}"
        listener = self.listen("\0" + name)
        with Server(environment={"NOTIFY_SOCKET": "@" + name, "WATCHDOG_USEC": "1000",
                                 "WATCHDOG_PID": "1"}) as server:
            self.hear_until(listener, "READY=1")
            self.hear_until(listener, "STATUS=serving")
            server.process.signal(signal.SIGTERM)
            self.hear_until(listener, "STATUS=ended")
            self.assertNotIn("WATCHDOG=1", [text for text, _ in self.heard])
            self.assertEqual(server.process.wait_exit(), 0)

    def test_what_the_manager_had_no_room_for_comes_later(self):
        listener = self.listen(self.path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as crowd:
            crowd.setblocking(False)
            with self.assertRaises(BlockingIOError):
                for _ in range(10000):
                    crowd.sendto(b"x", self.path)
        with Server(environment={"NOTIFY_SOCKET": self.path}) as server:
            self.hear_until(listener, "READY=1")
            self.hear_until(listener, "STATUS=serving")
            server.process.signal(signal.SIGTERM)
            self.hear_until(listener, "STOPPING=1")
            self.assertEqual(server.process.wait_exit(), 0)

    def test_a_manager_that_is_gone_or_no_socket_is_no_trouble(self):
        with Server(environment={"NOTIFY_SOCKET": self.path}) as server:
            server.make_ready()
            server.process.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait_exit(), 0)

    def test_a_name_that_is_no_socket_is_refused(self):
        done = run("pserver", "--listen", "127.0.0.1:0",
                   environment={"NOTIFY_SOCKET": "nonsense"})
        self.assertEqual(done.returncode, 64)
        self.assertIn("NOTIFY_SOCKET=nonsense", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
