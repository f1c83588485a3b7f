#!/usr/bin/env python3
"""Which layout of a task's keys is cheapest for Redis? Starts a private redis-server, runs every variant under lua/ and a
raw consumer-group baseline in turn, and prints CPU, memory and commands per task as Markdown (docs/decisions/0001-layout.md).

    python3 bench/layout/run.py [--tasks 20000] [--rounds 5] [--only raw,A/key,E/inline] [--server redis-server]
"""
import argparse
import hashlib
import os
import pathlib
import random
import socket
import statistics
import struct
import subprocess
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).parent
PREFIX = "lh:{bench}"
INC = "0192f3c1d2e34f5a6b7c8d"
BATCH = 100
PHASES = ("enqueue", "claim", "finish")
PARTS = {"A": ("hash", "A"), "B": ("hash", "B"), "C": ("packed", "C"), "D": ("packed", "D"), "E": ("packed", "E"),
         "F": ("hash", "F", "B")}
# variant / what becomes of the result: a key of its own, a field of the record, or nothing is kept of the task
CONFIGS = ["raw", "A/key", "A/inline", "A/discard", "B/key", "B/inline", "F/inline", "F/discard", "C/key", "C/inline", "C/discard",
           "D/inline", "D/discard", "E/inline", "E/discard"]


class Redis:
    """RESP over a unix socket; commands are sent in one write, replies read in order."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.file = self.sock.makefile("rb", 1 << 20)

    def pipe(self, commands):
        out = []
        for args in commands:
            out.append(b"*%d\r\n" % len(args))
            for a in args:
                a = a if isinstance(a, bytes) else str(a).encode()
                out.append(b"$%d\r\n%b\r\n" % (len(a), a))
        self.sock.sendall(b"".join(out))
        return [self.read() for _ in commands]

    def __call__(self, *args):
        return self.pipe([args])[0]

    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest
        raise RuntimeError(line.decode())

    def info(self, section):
        text = self("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def cpu(self):
        i = self.info("cpu")
        return (float(i["used_cpu_user"]) + float(i["used_cpu_sys"])) * 1e6

    def commands(self):
        stats = self.info("commandstats")
        own = ("cmdstat_info", "cmdstat_evalsha", "cmdstat_config|resetstat")
        return sum(int(v.split(",")[0][6:]) for k, v in stats.items() if k not in own)

    def memory(self):
        """Used memory without the capped event stream, after the server has shrunk its tables."""
        time.sleep(0.2)
        return int(self.info("memory")["used_memory"]) - (self("MEMORY", "USAGE", f"{PREFIX}:events") or 0)


def head(digest, body):
    """The head of variant E's record as a client would pack it: a map16 announcing two pairs more than it holds."""
    pairs = [(b"st", b"q"), (b"dg", digest)] + ([(b"b", body)] if body else [])
    out = b"\xde" + struct.pack(">H", len(pairs) + 2)
    for key, value in pairs:
        out += bytes([0xA0 + len(key)]) + key
        out += bytes([0xA0 + len(value)]) if len(value) < 32 else b"\xd9" + bytes([len(value)]) if len(value) < 256 \
            else b"\xda" + struct.pack(">H", len(value))
        out += value
    return out


class Tasks:
    def __init__(self, count, size):
        rng = random.Random(1)
        self.ids = [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(count)]
        self.bodies = [rng.randbytes(size) for _ in range(count)]
        self.digests = [hashlib.blake2b(b, digest_size=16).digest() for b in self.bodies]
        self.body_of = dict(zip(self.ids, self.bodies))

    def batches(self):
        return (range(i, min(i + BATCH, len(self.ids))) for i in range(0, len(self.ids), BATCH))


def raw(db, tasks):
    """Three phases of plain streams: XADD, XREADGROUP, XACK + XDEL, in hundreds."""
    s, n = "raw", len(tasks.ids)
    db("XGROUP", "CREATE", s, "g", "0", "MKSTREAM")
    yield
    for batch in tasks.batches():
        db.pipe([("XADD", s, "*", "d", tasks.bodies[i]) for i in batch])
    yield
    got = []
    while len(got) < n:
        got += [e[0] for e in db("XREADGROUP", "GROUP", "g", "c", "COUNT", BATCH, "STREAMS", s, ">")[0][1]]
    yield
    for i in range(0, n, BATCH):
        db.pipe([c for e in got[i:i + BATCH] for c in (("XACK", s, "g", e), ("XDEL", s, e))])
    yield
    assert db("XLEN", s) == 0


def variant(db, tasks, name, mode, limit=1024):
    n = len(tasks.ids)
    sha = {}
    for phase in PHASES:
        parts = ("lib",) + PARTS[name] + (phase,)
        sha[phase] = db("SCRIPT", "LOAD", "\n".join((HERE / "lua" / f"{p}.lua").read_text() for p in parts))
    db("HSET", f"{PREFIX}:config", "format", 1)
    yield
    for batch in tasks.batches():
        args = []
        for i in batch:
            digest, body = tasks.digests[i], tasks.bodies[i]
            if name == "E":
                inline = len(body) <= limit
                digest, body = head(digest, body if inline else b""), b"" if inline else body
            args += [tasks.ids[i], digest, body]
        assert db("EVALSHA", sha["enqueue"], 0, PREFIX, limit, *args) == len(batch)
    yield
    got = []
    for number in range(1, n // BATCH + 1):
        answer = db("EVALSHA", sha["claim"], 0, PREFIX, limit, INC, number, "worker-1", BATCH)
        ids, runs, bodies = answer[1::4], answer[2::4], answer[4::4]
        assert len(ids) == BATCH and all(tasks.body_of[i.decode()] == b for i, b in zip(ids, bodies)), answer[:5]
        got += zip(ids, runs)
    yield
    for i in range(0, n, BATCH):
        args = [x for id, run in got[i:i + BATCH] for x in (id, run, b"result-of-20-bytes-x")]
        assert db("EVALSHA", sha["finish"], 0, PREFIX, limit, INC, mode, *args) == BATCH
    yield
    assert db("ZCARD", f"{PREFIX}:running") == 0 and db("XLEN", f"{PREFIX}:ready:normal") == 0
    assert db("ZCARD", f"{PREFIX}:gone" if mode == "discard" else f"{PREFIX}:done:completed") == n
    if mode == "discard":
        assert db("DBSIZE") < 10


def measure(db, steps, tasks):
    """Runs the phases of one variant; per phase: CPU us, inner commands and bytes held afterwards, per task."""
    db("FLUSHALL", "SYNC")
    db("SCRIPT", "FLUSH", "SYNC")
    next(steps)
    base, out, n = db.memory(), {}, len(tasks.ids)
    for phase in PHASES:
        db("CONFIG", "RESETSTAT")
        before = db.cpu()
        next(steps)
        cpu, commands = db.cpu() - before, db.commands()
        out[phase] = (cpu / n, commands / n, (db.memory() - base) / n)
    for _ in steps:
        pass
    return out


def compare(db, configs, tasks, rounds, limit=1024):
    results = {c: [] for c in configs}
    for _ in range(rounds):
        for c in configs:
            steps = raw(db, tasks) if c == "raw" else variant(db, tasks, *c.split("/"), limit)
            results[c].append(measure(db, steps, tasks))
    return results


def table(results):
    total = lambda r: sum(r[p][0] for p in PHASES)
    med = lambda values: statistics.median(values)
    print("| variant/result | CPU us/task (range) | ratio to raw (range) | enqueue | claim | finish | B queued | B kept | commands/task |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, rounds in results.items():
        cpu = [total(r) for r in rounds]
        ratio = [c / total(r) for c, r in zip(cpu, results["raw"])]
        phases = " | ".join(f"{med(r[p][0] for r in rounds):.1f}" for p in PHASES)
        commands = " + ".join(f"{rounds[0][p][1]:.2f}" for p in PHASES)
        print(f"| {name} | {med(cpu):.1f} ({min(cpu):.1f}-{max(cpu):.1f}) | {med(ratio):.2f} ({min(ratio):.2f}-{max(ratio):.2f}) | "
              f"{phases} | {med(r['enqueue'][2] for r in rounds):.0f} | {med(r['finish'][2] for r in rounds):.0f} | {commands} |", flush=True)


RECORD = """local r = {st='r',rev=2,at=1,fl=0,rc=0,en=1732989600000,run='n:1732989600000-17',lv='n',dg='0123456789abcdef',ma=5,rt=86400000,
 inc='0192f3c1d2e34f5a6b7c8d',tok=1732989600000017,cl=1732989600123,wk='worker-1'}
local call, pack, un = redis.call, cmsgpack.pack, cmsgpack.unpack
local packed = pack(r); r.b = string.rep('x', 200); local full = pack(r); local N = tonumber(ARGV[1]) """
MICRO = [  # (what, how many things one pass handles, body of the loop over i)
    ("HMGET, 10 fields", 1, "call('HMGET', 'h'..i, 'st','run','rev','at','fl','rc','ma','rt','dl','stop')"),
    ("HGETALL, 15 fields", 1, "call('HGETALL', 'h'..i)"),
    ("GET", 1, "call('GET', 'p'..i)"),
    ("GET + unpack, 15 fields", 1, "un(call('GET', 'p'..i))"),
    ("GET + unpack, 15 fields + 200 B body", 1, "un(call('GET', 'f'..i))"),
    ("unpack, 15 fields + 200 B body", 1, "un(full)"),
    ("pack, 15 fields + 200 B body", 1, "pack(r)"),
    ("HSET, 8 fields (existing record)", 1,
     "call('HSET', 'h'..i, 'st','r','rev','3','at','2','inc','0192f3c1d2e34f5a6b7c8d','tok','1732989600000019','cl','1732989600123','wk','worker-2','fl','1')"),
    ("HSET, 11 fields (new record)", 1,
     "call('HSET', 'n'..i, 'st','q','rev','1','at','0','fl','0','rc','0','en','1732989600000','run','n:1732989600000-17','lv','n','dg','0123456789abcdef','ma','5','rt','86400000')"),
    ("pack + SET, 15 fields", 1, "local b = r.b; r.b = nil; call('SET', 'p'..i, pack(r)); r.b = b"),
    ("pack + SET, 15 fields + 200 B body", 1, "call('SET', 'f'..i, pack(r))"),
    ("SET, 330 B", 1, "call('SET', 'f'..i, full)"),
    ("SET PX, 40 B", 1, "call('SET', 'l'..i, 'n:1732989600000-17 0192f3c1d2e34f5a6b7c8d', 'PX', '15000')"),
    ("EXISTS, absent", 1, "call('EXISTS', 'x'..i)"),
    ("EXISTS, present", 1, "call('EXISTS', 'f'..i)"),
    ("EXISTS of 100 keys, per key", 100, "local k = {} for j = 1, 100 do k[j] = 'x'..(i*100+j) end call('EXISTS', unpack(k))"),
    ("MGET of 100 records, per record", 100, "local k = {} for j = 1, 100 do k[j] = 'f'..(i*100-100+j) end call('MGET', unpack(k))"),
    ("MSET of 100 records of 330 B, per record", 100,
     "local k = {} for j = 1, 100 do k[2*j-1] = 'f'..(i*100-100+j); k[2*j] = full end call('MSET', unpack(k))"),
    ("DEL of 100 leases, per key", 100, "local k = {} for j = 1, 100 do k[j] = 'l'..(i*100-100+j) end call('DEL', unpack(k))"),
    ("XADD, id only", 1, "call('XADD', 's', '*', 'i', '0192f3c1-d2e3-4f5a-8b7c-8d0192f3c1d2')"),
    ("XADD, id + 200 B body", 1, "call('XADD', 't', '*', 'i', '0192f3c1-d2e3-4f5a-8b7c-8d0192f3c1d2', 'b', r.b)"),
]


def micro(db, rounds, n=20000):
    db("FLUSHALL", "SYNC")
    fields = "'rev','2','at','1','fl','0','rc','0','en','1732989600000','run','n:1732989600000-17','lv','n','dg','0123456789abcdef','ma','5'," \
             "'rt','86400000','inc','0192f3c1d2e34f5a6b7c8d','tok','1732989600000017','cl','1732989600123','wk','worker-1'"
    db("EVAL", RECORD + f"for i = 1, N do call('HSET', 'h'..i, 'st','r',{fields}); call('SET', 'p'..i, packed); call('SET', 'f'..i, full) end", 0, n)
    cost = {}
    for _ in range(rounds):
        for what, per, body in [("empty loop", 1, "local k = 'x'..i")] + MICRO:
            if what.startswith("DEL"):
                db("EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'l'..i, 'x', 'PX', '15000') end", 0, n)
            db("DEL", "s", "t")
            before = db.cpu()
            db("EVAL", RECORD + f"for i = 1, N do {body} end", 0, n // per)
            cost.setdefault(what, []).append((db.cpu() - before) / n)
    empty = statistics.median(cost.pop("empty loop"))
    print("\n| inside a script | us |\n|---|---|")
    for what, values in cost.items():
        print(f"| {what} | {statistics.median(values) - empty:.2f} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tasks", type=int, default=20000, help="tasks per round, a multiple of 100")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", default=",".join(CONFIGS))
    p.add_argument("--server", default="redis-server")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "redis.sock")
        server = subprocess.Popen([a.server, "--port", "0", "--unixsocket", path, "--dir", tmp, "--save", "", "--appendonly", "no"],
                                  stdout=subprocess.DEVNULL)
        try:
            while not os.path.exists(path):
                time.sleep(0.05)
            db = Redis(path)
            print(f"Redis {db.info('server')['redis_version']}, {a.tasks} tasks a round, {a.rounds} rounds, median (range)\n\n200 bytes:\n")
            configs = ["raw"] + [c for c in a.only.split(",") if c != "raw"]
            table(compare(db, configs, Tasks(a.tasks, 200), a.rounds))
            big = Tasks(max(BATCH, a.tasks // 10 // BATCH * BATCH), 10240)
            for limit, title in ((1024, "a body over 1 KiB in its own key"), (1 << 20, "every body in the record (C, E)")):
                print(f"\n10 KiB, {len(big.ids)} tasks, {title}:\n")
                table(compare(db, ["raw", "A/key", "F/inline", "C/inline", "D/inline", "E/inline"], big, a.rounds, limit))
            micro(db, a.rounds)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
