# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, when: a list of faults made from a seed, before anything starts.

Equal seeds and options give equal plans. What the processes do between two faults is theirs; a
plan that found something finds it again often, not always.
"""

import dataclasses
import random

# (kind, weight, needs). Kinds that begin with "kill" are kills.
KINDS = [
    ("kill_server", 32, None),
    ("kill_slow_server", 8, None),
    ("kill_trainer", 18, None),
    ("kill_etcd", 8, None),
    ("kill_all_servers", 3, None),
    ("stop_server", 6, None),
    ("end_server", 4, None),
    ("sync_fails", 4, None),
    ("write_fails", 4, None),
    ("slow_sync", 3, None),
    ("checkpoint_fails", 2, None),
    ("zombie", 3, None),
    ("disk_full", 5, None),
    ("cut_server_etcd", 6, "network"),
    ("cut_trainer_server", 5, "network"),
    ("cut_server_all", 3, "network"),
]

# Which half of a connection a cut drops, as seen by the one that is cut off.
CUTS = ["both", "both", "in", "out"]


@dataclasses.dataclass
class Fault:
    at: float  # seconds after the first push
    kind: str
    target: int  # any number; taken modulo what there is
    other: int  # a second one
    seconds: float  # how long it lasts; 0: no end of its own
    cut: str = ""

    def words(self):
        length = f" for {self.seconds:.1f} s" if self.seconds else ""
        return self.kind + (f" ({self.cut})" if self.cut else "") + length


def duration(dice, kind, ttl):
    if kind.startswith("kill") or kind in ("end_server", "zombie"):
        return 0
    if kind == "stop_server":
        return ttl + dice.uniform(0.5, 3)
    if kind.startswith("cut"):
        return dice.choice([dice.uniform(0.3, ttl * 0.6), ttl + dice.uniform(0.5, 4)])
    return dice.uniform(0.2, 2.5)


def make_plan(seed, seconds, every, ttl, abilities, only=()):
    """Faults from second 1 until `seconds`, one every `every` seconds on average, of the kinds in
    `only` (none named: of all)."""
    dice = random.Random(f"storm {seed}")
    kinds = [(kind, weight) for kind, weight, needs in KINDS
             if (needs is None or needs in abilities) and (not only or kind in only)]
    if not kinds:
        return []
    faults = []
    at = 1.0
    while at < seconds:
        kind = dice.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        faults.append(Fault(at, kind, dice.randrange(1 << 30), dice.randrange(1 << 30),
                            duration(dice, kind, ttl),
                            dice.choice(CUTS) if kind.startswith("cut") else ""))
        at += every * dice.uniform(0.4, 1.6)
    return faults


def kills_in(plan, servers):
    return sum(servers if fault.kind == "kill_all_servers" else 1
               for fault in plan if fault.kind.startswith("kill"))


def raise_kills(plan, servers, kills_min):
    """Turns other faults into kills of servers, from the last on, until there are enough."""
    for fault in reversed(plan):
        if kills_in(plan, servers) >= kills_min:
            return
        if not fault.kind.startswith("kill"):
            fault.kind, fault.seconds, fault.cut = "kill_server", 0, ""
