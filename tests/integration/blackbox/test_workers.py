# SPDX-License-Identifier: Apache-2.0
"""JoinWorkers, LeaveWorkers, ListWorkers and psctl workers as any client sees them: at a server
that is alone, and at two that share an etcd."""

import concurrent.futures
import json
import time
import unittest

import grpc

from blackbox import Server, run, run_until
from calls import MESSAGES, Calls
from cluster import PATIENCE, Cluster, wait_until

LONG_MS = 60000


def ask(calls, method, **fields):
    request = MESSAGES[f"pserver.v1.{method}Request"](**fields)
    return MESSAGES[f"pserver.v1.{method}Response"].FromString(
        calls.call(method, request, timeout=PATIENCE))


class Alone(unittest.TestCase):
    """One server in memory for all tests of the class; each has a group of its own."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--job", "mine"))
        cls.calls = cls.server.calls

    def join(self, client, ttl_ms=LONG_MS, **fields):
        return ask(self.calls, "JoinWorkers", group=self.id()[-40:].replace(" ", "_"),
                   client=client, ttl_ms=ttl_ms, **fields)

    def group(self):
        return self.id()[-40:]

    def refused(self, code, method, **fields):
        with self.assertRaises(grpc.RpcError) as refused:
            ask(self.calls, method, **fields)
        self.assertEqual(refused.exception.code(), code)
        return refused.exception.details()

    def test_requests_that_make_no_sense_are_refused(self):
        good = {"group": "g", "client": 1, "ttl_ms": 1000}
        for wrong in ({"client": 0}, {"ttl_ms": 999}, {"ttl_ms": 3600001}, {"group": "a/b"},
                      {"group": "servers"}, {"group": "all"}, {"group": "x" * 65},
                      {"name": "x" * 65}, {"name": "a b"}, {"role": "x" * 33}, {"host": "\n"},
                      {"size": 4097}, {"size": 2, "rank": 3}, {"rank": 4097},
                      {"incarnation": 5}):
            self.refused(grpc.StatusCode.INVALID_ARGUMENT, "JoinWorkers", **(good | wrong))
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "LeaveWorkers", group="g", client=0)
        for method, fields in (("JoinWorkers", good), ("LeaveWorkers", {"client": 1}),
                               ("ListWorkers", {})):
            self.refused(grpc.StatusCode.NOT_FOUND, method, job="yours", **fields)
        self.assertEqual(len(ask(self.calls, "ListWorkers", group="g").members), 0)

    def test_a_place_is_kept_by_its_incarnation_and_nothing_else(self):
        first = self.join(1)
        again = self.join(1, rank=1, incarnation=first.incarnation)
        self.assertEqual((again.turn, again.rank, again.incarnation), (1, 0, first.incarnation))
        for client, incarnation in ((1, first.incarnation + 1), (2, first.incarnation)):
            self.refused(grpc.StatusCode.FAILED_PRECONDITION, "JoinWorkers", group=self.group(),
                         client=client, ttl_ms=LONG_MS, rank=1, incarnation=incarnation)

    def test_a_full_group_is_waited_for(self):
        self.assertEqual(self.join(1, size=1).turn, 1)
        self.assertEqual(self.join(2, wait_ms=100).turn, 0)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(self.join, 3, size=1, wait_ms=LONG_MS)
            ask(self.calls, "LeaveWorkers", group=self.group(), client=1)
            joined = waiting.result()
        self.assertEqual((joined.turn, joined.rank, joined.size), (1, 0, 1))
        self.assertIn("a size of 1", self.refused(
            grpc.StatusCode.FAILED_PRECONDITION, "JoinWorkers", group=self.group(), client=4,
            ttl_ms=LONG_MS, size=2))

    def test_a_former_life_is_waited_for(self):
        self.assertEqual(self.join(1, ttl_ms=1000, name="a").rank, 0)
        self.assertEqual(self.join(2, wait_ms=LONG_MS, name="a").rank, 0)
        text = self.refused(grpc.StatusCode.ALREADY_EXISTS, "JoinWorkers", group=self.group(),
                            client=3, ttl_ms=LONG_MS, name="a", wait_ms=300)
        self.assertIn("is held by a on", text)

    def test_a_list_waits_for_who_goes_by_silence(self):
        def joined():
            self.join(1, ttl_ms=3000, name="short", role="trainer", host="node-1")
            listed = ask(self.calls, "ListWorkers", group=self.group())
            return listed if listed.members else None
        listed = wait_until(joined, "a list within three seconds of the joining")
        row = listed.members[0]
        self.assertEqual((row.rank, row.name, row.role, row.host, row.heard, row.ttl_ms),
                         (0, "short", "trainer", "node-1", True, 3000))
        self.assertLess(abs(row.joined_unix_ms / 1000 - time.time()), PATIENCE)
        while listed.members:
            listed = ask(self.calls, "ListWorkers", group=self.group(), wait_ms=LONG_MS,
                         known_revision=listed.revision)
        begun = time.monotonic()
        same = ask(self.calls, "ListWorkers", group=self.group(), wait_ms=200,
                   known_revision=listed.revision + 1000000)
        self.assertGreaterEqual(time.monotonic() - begun, 0.2)
        self.assertEqual(len(same.members), 0)

    def test_psctl_shows_who_is_missing(self):
        self.join(1, name="a", size=3)
        self.join(2, rank=3, role="trainer")
        words = ["psctl", "workers", "--servers", self.server.address, "--job", "mine", "--group",
                 self.group()]
        rows = [line.split() for line in run(*words).stdout.splitlines()]
        self.assertEqual(rows[0][:4], ["GROUP", "RANK", "NAME", "ROLE"])
        self.assertEqual([row[1:3] for row in rows[1:]], [["0", "a"], ["1", "-"], ["2", "-"]])
        self.assertEqual([row[5] == "missing" for row in rows[1:]], [False, True, False])
        document = json.loads(run(*words, "--output", "json").stdout)
        group = document["groups"][0]
        self.assertEqual((group["name"], group["size"]), (self.group(), 3))
        self.assertEqual([row["rank"] for row in group["workers"]], [0, 2])
        self.assertIn("silent_ms", group["workers"][0])


class Together(unittest.TestCase):
    """Two servers with one etcd."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(shards=2, interval="1h")
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.servers = cls.cluster.start_servers()
        cls.where = ["--etcd", cls.cluster.etcd_url, "--timeout", f"{PATIENCE // 2}s"]
        members = run_until(lambda done: done.stdout.count("serving") == 2, "psctl", *cls.where,
                            "health", "--output", "json")
        cls.calls = [Calls(row["address"]) for row in json.loads(members.stdout)]

    def test_all_who_join_at_once_have_ranks_of_their_own(self):
        def join(client):
            return ask(self.calls[client % 2], "JoinWorkers", client=client, ttl_ms=LONG_MS,
                       size=48, wait_ms=LONG_MS, name=f"w{client % 24}" if client > 24 else "")

        with concurrent.futures.ThreadPoolExecutor(48) as pool:
            places = list(pool.map(join, range(1, 48)))
        self.assertEqual(sorted(place.rank for place in places), list(range(47)))
        self.assertEqual(len({place.incarnation for place in places}), 47)
        for calls in self.calls:
            listed = ask(calls, "ListWorkers", group="workers")
            self.assertEqual([row.rank for row in listed.members], list(range(47)))
            self.assertEqual(sum(row.heard for row in listed.members), 24 if calls is
                             self.calls[1] else 23)
        document = json.loads(run("psctl", "workers", *self.where, "--output", "json").stdout)
        self.assertTrue(all("silent_ms" in row for row in document["groups"][0]["workers"]))
        servers = ask(self.calls[0], "ListWorkers", group="servers").members
        self.assertEqual([(row.rank, row.role) for row in servers], [(0, "server"), (1, "server")])
        both = ask(self.calls[0], "ListWorkers", group="all").members
        self.assertEqual(len(both), 49)


if __name__ == "__main__":
    unittest.main()
