# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments, again and again, under clients that push: the server always starts,
and what it loads is a state that existed.
"""

import os
import random
import time
import unittest

from blackbox import Server
from cluster import wait_until
from pushers import Crowd

ROUNDS = int(os.environ.get("PS_ROUNDS", "20"))
FLAGS = ([], ["--lanes", "3"], ["--no-tune-malloc"], ["--checkpoint-interval", "100ms"],
         ["--checkpoint-interval", "1h"])


class KillLoop(unittest.TestCase):
    def test_what_is_loaded_after_kill_9_existed(self):
        seed = int(os.environ.get("PS_SEED", random.randrange(2**32)))
        dice = random.Random(seed)
        print(f"seed {seed} (PS_SEED={seed} throws the same dice)", end=" ", flush=True)
        lost = pushed = 0
        with Server(interval="150ms") as server:
            crowd = Crowd(4)
            crowd.initialise(server.calls)
            for number in range(ROUNDS):
                loaded = dict(crowd.floor)
                crowd.start(server.address)
                wait_until(lambda: crowd.acknowledged() > 20, "clients push")
                time.sleep(dice.uniform(0, 0.4))
                server.process.kill()
                self.assertEqual(crowd.end(), [], f"seed {seed}, round {number}")
                acknowledged = dict(crowd.floor)
                if dice.random() < 0.2:
                    self.die_at_start(server, dice)
                server.flags = dice.choice(FLAGS)
                server.start()
                crowd.check(self, server.calls, floor=loaded)
                lost += sum(acknowledged[name] - min(acknowledged[name], crowd.floor[name])
                            for name in crowd.names)
                pushed += sum(acknowledged[name] - loaded[name] for name in crowd.names)
        print(f"{ROUNDS} rounds, {pushed} pushes acknowledged, {lost} lost", end=" ")

    def die_at_start(self, server, dice):
        """Once more, before it serves or just after."""
        process = server.start(wait=False)
        time.sleep(dice.uniform(0, 1.2))
        self.assertTrue(process.alive(), process.log())
        process.kill()

    def test_a_server_alone_does_not_wait_for_the_lease_of_the_one_that_was_killed(self):
        with Server(ttl="1h") as server:
            server.make_ready()
            server.calls.push("w", [-1.0, -2.0, -3.0, -4.0])
            server.process.kill()
            server.start()
            self.assertEqual(server.calls.pull("w")[0], [1.0, 2.0, 3.0, 4.0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
