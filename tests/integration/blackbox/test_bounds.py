# SPDX-License-Identifier: Apache-2.0
"""What one connection, and then twenty, may take of a server with default options, while a trainer
pushes and pulls beside; the small form of tests/chaos/bounds. SECURITY.md, "Bounds"."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "chaos"))

import bounds_attacks as attacks  # noqa: E402
from blackbox import Server, wait_until  # noqa: E402

SECONDS = 2


def refused(server, reason):
    for line in server.get("/metrics")[1].splitlines():
        if line.startswith(f'ps_refused_total{{reason="{reason}"}}'):
            return float(line.split()[1])
    raise AssertionError(f"no row of {reason}")


class Bounds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(http=True)
        cls.addClassCleanup(cls.server.__exit__)
        for name, elements in (("w", 1024), ("honest", 1024), ("large", attacks.LARGE // 4)):
            attacks.init(cls.server, name, elements)
        cls.server.calls.finish()

    def attack(self, name, connections, scale):
        """How far it came; no call of the trainer beside failed."""
        trainer = attacks.Honest(self.server, SECONDS)
        got = attacks.ATTACKS[name](self.server, connections, scale)
        self.assertEqual(trainer.end()["failed"], 0)
        return got

    def test_a_range_does_not_keep_what_nobody_reads_of_its_message(self):
        for connections in 1, 20:
            self.assertLess(self.attack("staged_padding", connections, 0.5), 200)  # of 300 MiB

    def test_a_batch_makes_no_encoding_that_has_no_room(self):
        # A hundred encodings of 64 MiB took three seconds each and more, made for nothing.
        for connections in 1, 4:
            self.attack("encoded_pulls", connections, 1)

    def test_a_connection_begins_with_so_many_clients(self):
        before = refused(self.server, "sessions")
        self.assertLess(self.attack("fresh_clients", 1, 0.02), 400)
        self.assertGreater(refused(self.server, "sessions"), before)
        self.assertIn("refused; more of this kind are only counted", self.server.process.log())

    def test_checkpoints_that_are_asked_for_have_a_pace(self):
        for _ in range(70):
            attacks.spread(self.server, 1, 1, lambda i: b"", "SaveCheckpoint")
        wait_until(lambda: refused(self.server, "saves") > 0, "a save is refused")


class Alone(unittest.TestCase):
    def test_tiny_parameters_count_what_they_take(self):
        self.assertLess(attacks.tiny_parameters(1, 0.2), 60)

    def test_a_server_with_few_descriptors_is_idle_when_nobody_calls(self):
        self.assertLess(attacks.few_descriptors(1, 1), 10)

    def test_tensors_of_an_imported_file_do_not_overlap(self):
        self.assertLess(attacks.overlapping_import(1, 1), 200)

    def test_a_pipe_in_the_place_of_a_checkpoint_hangs_nobody(self):
        self.assertLess(attacks.pipe_as_checkpoint(1, 1), 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
