# SPDX-License-Identifier: Apache-2.0
"""Tables of every kind under random requests: one server is killed in the midst of them, saves
often, mostly increments, and has what a second one has, to which the same was sent and nothing
happened, and what a plain model has (table_model.py).

    test_python_table_model.py [--seed N] [--steps N] [--seeds N] [--large] [--sleep]
"""

import argparse
import sys
import time
import unittest

from table_world import World

OPTIONS = argparse.Namespace(seed=None, steps=60, seeds=2, large=False, sleep=False)


class TableModel(unittest.TestCase):
    def go(self, seed):
        print(f"seed {seed}", file=sys.stderr)
        with World(self, seed, OPTIONS) as world:
            world.begin()
            for _ in range(OPTIONS.steps):
                world.step()
            world.check_all()
            world.stopped()
            world.check_all()

    def test_a_server_that_is_killed_has_what_one_has_that_was_not(self):
        first = time.time_ns() % 1_000_000 if OPTIONS.seed is None else OPTIONS.seed
        for seed in range(first, first + OPTIONS.seeds):
            with self.subTest(seed=seed):
                self.go(seed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    parser.add_argument("--steps", type=int, default=OPTIONS.steps)
    parser.add_argument("--seeds", type=int, default=OPTIONS.seeds)
    parser.add_argument("--large", action="store_true", help="tables of 100,000 keys")
    parser.add_argument("--sleep", action="store_true",
                        help="servers that sleep through leases of a second")
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
