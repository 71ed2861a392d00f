# SPDX-License-Identifier: Apache-2.0
"""How each kind of fault is done to a world, and undone."""

import signal

SHIM_LETTERS = {"sync_fails": "s", "write_fails": "w", "slow_sync": "d", "checkpoint_fails": "c"}


class Faults:
    """Faults that last are in `active`: (when, what to do then)."""

    def __init__(self, world, note):
        self.world = world
        self.note = note
        self.active = []
        self.now = 0.0
        self.counts = {}
        self.haunted = False  # there is a zombie
        self.full = 0  # how many faults keep the disk full

    def count(self, kind, number=1):
        self.counts[kind] = self.counts.get(kind, 0) + number

    def kills(self):
        return sum(number for kind, number in self.counts.items() if kind.startswith("kill"))

    def pick_server(self, fault):
        """Mostly a server that owns a shard."""
        names = self.world.server_names()
        owners = sorted(name for name in set(self.world.owners.values()) if name in names)
        return owners[fault.other % len(owners)] if owners and fault.target % 5 else \
            names[fault.other % len(names)]

    def pick_trainer(self, fault):
        numbers = sorted(self.world.trainers)
        return numbers[fault.target % len(numbers)] if numbers else None

    def begin(self, fault, now):
        self.now = now
        undo = getattr(self, "do_" + fault.kind)(fault)
        if undo is not None:
            self.later(fault.seconds, undo)

    def later(self, seconds, step):
        self.active.append((self.now + seconds, step))

    def end_due(self, now):
        """Does what is due; that may add to what is to be done later."""
        self.now = now
        due = sorted((row for row in self.active if row[0] <= now), key=lambda row: row[0])
        self.active = [row for row in self.active if row[0] > now]
        for _, undo in due:
            undo()

    def end_all(self):
        while self.active:
            self.end_due(max(when for when, _ in self.active))

    # ---- Ends of processes ----

    def kill(self, process, kind):
        if process is None or not process.alive():
            return
        process.kill()
        self.count(kind)
        self.note(kind, process.name)

    def do_kill_server(self, fault):
        self.kill(self.world.servers[self.pick_server(fault)], "kill_server")

    def do_kill_slow_server(self, fault):
        """Killed while its disk is slow: with pushes that are written and not answered."""
        name = self.pick_server(fault)
        server = self.world.servers[name]
        self.world.set_shim(name, "d")

        def end():
            self.kill(server, "kill_server")
            self.world.set_shim(name, "0")
        self.later(0.1 + fault.target % 300 / 1000, end)

    def do_kill_all_servers(self, _fault):
        for server in self.world.servers.values():
            server.killed = True
            server.signal(signal.SIGKILL)
        for server in self.world.servers.values():
            self.kill_done(server)

    def kill_done(self, server):
        server.child.wait()
        self.count("kill_server")
        self.note("kill_server", server.name)

    def do_kill_trainer(self, fault):
        number = self.pick_trainer(fault)
        self.kill(self.world.trainers.get(number), "kill_trainer")

    def do_kill_etcd(self, _fault):
        self.kill(self.world.etcd, "kill_etcd")

    def do_end_server(self, fault):
        server = self.world.servers[self.pick_server(fault)]
        if server.stopped or not server.alive():
            return
        server.killed = True
        server.signal(signal.SIGTERM)
        self.count("end_server")
        self.note("end_server", server.name)

    def do_stop_server(self, fault):
        server = self.world.servers[self.pick_server(fault)]
        if server.stopped or not server.alive():
            return None
        self.count("stop_server")
        self.stop(server)
        return lambda: self.resume(server)

    def do_zombie(self, fault):
        """An owner applies pushes that its journal does not get, is stopped until another has
        taken over and acknowledged a few other pushes, and wakes up to save what it has. The new
        owner, which could not save, is killed. The third must not take the zombie's checkpoint for
        current: it is newer than any other and lacks what was acknowledged."""
        world, old = self.world, self.pick_server(fault)
        zombie = world.servers[old]
        shards = sorted(shard for shard, name in world.owners.items() if name == old)
        if self.haunted or zombie.stopped or not zombie.alive() or not shards:
            return
        self.haunted = True
        self.count("zombie")
        self.note("zombie", f"{old} applies what it cannot write")
        for name in world.server_names():
            world.set_shim(name, "z" if name == old else "c")

        def stop():
            self.stop(zombie)
            for number in sorted(world.trainers):
                self.kill(world.trainers[number], "kill_trainer")
        self.later(0.6, stop)
        self.later(0.8, lambda: self.wait_heir(zombie, shards[0], 400))

    def wait_heir(self, zombie, shard, tries):
        """Looks every 20 ms for the one that took over, lets it serve for a moment, kills it."""
        old, heir = zombie.name, self.world.owners.get(shard)
        if heir == old and tries > 0 and zombie.stopped:
            self.later(0.02, lambda: self.wait_heir(zombie, shard, tries - 1))
            return

        def end():
            if heir != old:
                self.kill(self.world.servers[heir], "kill_server")
            self.world.set_shim(old, "0")
            self.resume(zombie)
            self.later(1.0, self.lay_to_rest)
        self.later(0.03 + 0.01 * (tries % 8), end)

    def lay_to_rest(self):
        for name in self.world.server_names():
            self.world.set_shim(name, "0")
        self.haunted = False

    def stop(self, server):
        server.stopped = True
        server.signal(signal.SIGSTOP)
        self.note("stop_server", server.name)

    def resume(self, server):
        server.stopped = False
        server.signal(signal.SIGCONT)
        self.note("undo", f"{server.name} goes on")

    # ---- Disks ----

    def shim(self, name, letter, fault):
        self.world.set_shim(name, letter)
        self.count(fault.kind)
        self.note(fault.kind, f"{name} for {fault.seconds:.1f} s")

        def undo():
            self.world.set_shim(name, "0")
            self.note("undo", f"disk of {name}")
        return undo

    def do_sync_fails(self, fault):
        return self.shim(self.pick_server(fault), SHIM_LETTERS[fault.kind], fault)

    do_write_fails = do_sync_fails
    do_slow_sync = do_sync_fails
    do_checkpoint_fails = do_sync_fails

    def do_disk_full(self, fault):
        if not self.world.disk.real:
            return self.shim(self.pick_server(fault), "f", fault)
        self.world.disk.fill()
        self.full += 1
        self.count("disk_full")
        self.note("disk_full", f"for {fault.seconds:.1f} s")

        def undo():
            self.full -= 1
            if self.full == 0:
                self.world.disk.free()
                self.note("undo", "disk has room")
        return undo

    # ---- Networks ----

    def cut(self, node, peers, fault):
        for peer in peers:
            self.world.network.cut(node, peer, fault.cut)
        self.count(fault.kind)
        self.note(fault.kind, f"{node} {fault.cut} for {fault.seconds:.1f} s")

        def undo():
            self.world.network.heal(node)
            self.note("undo", f"network of {node}")
        return undo

    def do_cut_server_etcd(self, fault):
        return self.cut(self.pick_server(fault), ["etcd"], fault)

    def do_cut_server_all(self, fault):
        name = self.pick_server(fault)
        others = [f"trainer-{number}" for number in sorted(self.world.trainers)]
        return self.cut(name, ["etcd", "reader", *others], fault)

    def do_cut_trainer_server(self, fault):
        number = self.pick_trainer(fault)
        if number is None:
            return None
        return self.cut(f"trainer-{number}", [self.pick_server(fault)], fault)
