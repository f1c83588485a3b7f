"""The fixed workload: what a task costs through the scripts and through plain streams, in bulk and alone."""
import hashlib
import random
import struct
import uuid

from server import Unusable

INCLUDE = "-- INCLUDE "
SCRIPTS = ("register", "enqueue", "claim", "heartbeat", "finish")

TASKS, BATCH, ALONE, BEATS = 3000, 100, 200, 30
# A raw command is so cheap that Redis's own ticks would show beside fewer.
RAW_ALONE = 1000
PAYLOAD, RESULT = 200, b"result-of-20-bytes-x"
LEASE_MS, KEPT_MS = 15000, 604800000
CLAIM_BYTES = 1 << 20
INCARNATION, WORKER = "0192f3c1d2e34f5a6b7c8d", "worker-1"
# A record begins with a head of so many bytes, then the length of the run and the run (docs/redis-data-model.md).
HEAD_BYTES = 36

STEPS = ("enqueue", "claim", "finish")


def script(lua, name):
    """The text that Redis gets: each INCLUDE replaced by the parts that it names."""
    lines = []
    for line in (lua / f"{name}.lua").read_text(encoding="utf-8").splitlines():
        if line.strip().startswith(INCLUDE):
            lines += [(lua / "lib" / f"{part}.lua").read_text(encoding="utf-8")
                      for part in line.strip()[len(INCLUDE):].split()]
        else:
            lines.append(line)
    return "\n".join(lines)


def batches(items, size):
    return [items[first:first + size] for first in range(0, len(items), size)]


class Tasks:
    """The same ids and payloads in every run."""

    def __init__(self, count):
        rng = random.Random(1)
        self.ids = [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(count)]
        self.payloads = [rng.randbytes(PAYLOAD) for _ in range(count)]

    def items(self):
        """As `enqueue` takes them: id, level, and what never changes: length, digest, default policy, body."""
        for task, payload in zip(self.ids, self.payloads):
            # What MessagePack puts around a payload; scripts do not look inside.
            body = b"\x98\x01\xa4noop\xc0\xc4\xc8" + payload + b"\xc0\xc0\xc0\x80"
            fixed = struct.pack(">H", 9 + len(body)) + hashlib.sha256(payload).digest()[:8] + b"\0" + body
            yield task, "normal", fixed


class Ours:
    """A queue behind the scripts."""

    def __init__(self, db, lua, tasks, kept_ms):
        self.db, self.tasks, self.number = db, tasks, 0
        db("FLUSHALL", "SYNC")
        self.sha = {name: db("SCRIPT", "LOAD", script(lua, name)) for name in SCRIPTS}
        self.call("register", LEASE_MS, kept_ms, *[KEPT_MS] * 3)

    def call(self, name, *args):
        prefix = "lh:{bench}:"
        reply = self.db("EVALSHA", self.sha[name], 2, prefix + "config", prefix + "never", 1, *args)
        if reply[0] != b"ok":
            raise Unusable(f"{name} answered {reply[:2]}")
        return reply

    def enqueue(self, size):
        for batch in batches(list(self.tasks.items()), size):
            reply = self.call("enqueue", "now", *[field for item in batch for field in item])
            if reply[2:] != [b"created", b"queued"]:
                raise Unusable(f"enqueue answered {reply[2:4]}")

    def claim_once(self, want):
        """One claim: the ids and runs that it hands out."""
        self.number += 1
        reply = self.call("claim", INCARNATION, WORKER, self.number, want, CLAIM_BYTES, "open", 0)
        at = HEAD_BYTES + 1
        return [(task, record[at:at + record[HEAD_BYTES]]) for task, record in zip(reply[4::2], reply[5::2])]

    def claim(self, size):
        return [run for _ in range(len(self.tasks.ids) // size) for run in self.claim_once(size)]

    def finish(self, runs, size):
        if len(runs) != len(self.tasks.ids):
            raise Unusable(f"{len(runs)} of {len(self.tasks.ids)} tasks were claimed")
        for batch in batches(runs, size):
            ends = [field for task, run in batch for field in (task, run, "completed", RESULT)]
            self.expect_ok(self.call("finish", INCARNATION, *ends))

    def beat(self, runs):
        self.expect_ok(self.call("heartbeat", INCARNATION, *[field for run in runs for field in run]), at=3)

    @staticmethod
    def expect_ok(reply, at=2):
        if reply[at] != b"ok":
            raise Unusable(f"a run was answered {reply[at:at + 2]}")


class Raw:
    """The same entries through a plain stream with a consumer group."""

    def __init__(self, db, tasks):
        self.db, self.tasks = db, tasks
        db("FLUSHALL", "SYNC")
        db("XGROUP", "CREATE", "raw", "g", "0", "MKSTREAM")

    def enqueue(self, size):
        for batch in batches(self.tasks.payloads, size):
            self.db.pipe([("XADD", "raw", "*", "d", payload) for payload in batch])

    def claim(self, size):
        def read():
            return self.db("XREADGROUP", "GROUP", "g", "c", "COUNT", size, "STREAMS", "raw", ">")[0][1]
        return [entry[0] for _ in range(len(self.tasks.ids) // size) for entry in read()]

    def finish(self, runs, size):
        for batch in batches(runs, size):
            self.db.pipe([c for entry in batch for c in (("XACK", "raw", "g", entry), ("XDEL", "raw", entry))])
        if self.db("XLEN", "raw") != 0:
            raise Unusable("entries are left in the raw stream")


def measure(server, lua, say):
    """Instructions per task or call, by `group.step`, of the scripts in the folder `lua`."""
    figures = {}

    def count(name, divisor, work):
        total, result = server.count(work)
        figures[name] = round(total / divisor)
        return result

    def through(group, make, tasks, size):
        say(f"{group}: {len(tasks.ids)} tasks in calls of {size}")
        # What happens once (memory taken from the system, scripts compiled) is not counted.
        warm = make(Tasks(BATCH))
        warm.enqueue(size)
        warm.finish(warm.claim(size), size)
        way = make(tasks)
        count(f"{group}.enqueue", len(tasks.ids), lambda: way.enqueue(size))
        runs = count(f"{group}.claim", len(tasks.ids), lambda: way.claim(size))
        count(f"{group}.finish", len(tasks.ids), lambda: way.finish(runs, size))
        return way

    def raw(tasks):
        return Raw(server.db, tasks)

    def kept(tasks):
        return Ours(server.db, lua, tasks, KEPT_MS)

    def discarded(tasks):
        return Ours(server.db, lua, tasks, 0)

    many, few = Tasks(TASKS), Tasks(ALONE)
    through("raw", raw, many, BATCH)
    through("kept", kept, many, BATCH)
    through("discarded", discarded, many, BATCH)
    through("raw alone", raw, Tasks(RAW_ALONE), 1)
    idle = through("alone", kept, few, 1)
    count("idle.claim", ALONE, lambda: [idle.claim_once(BATCH) for _ in range(ALONE)])
    say(f"beat: {BATCH} runs, {BEATS} times")
    held = kept(Tasks(BATCH))
    held.enqueue(BATCH)
    runs = held.claim(BATCH)
    count("beat.run", BATCH * BEATS, lambda: [held.beat(runs) for _ in range(BEATS)])
    return figures
