"""A redis-server of our own under callgrind, on a unix socket in a folder of its own; and a client for it."""
import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PATIENCE = 60.0
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Unusable(Exception):
    """What is needed is not there, or does not do what it should."""


class Redis:
    """RESP over a unix socket; commands are sent in one write, replies read in order."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(path))
        self.file = self.sock.makefile("rb", 1 << 20)

    def pipe(self, commands):
        out = []
        for words in commands:
            out.append(b"*%d\r\n" % len(words))
            for word in words:
                word = word if isinstance(word, bytes) else str(word).encode()
                out.append(b"$%d\r\n%b\r\n" % (len(word), word))
        self.sock.sendall(b"".join(out))
        replies = [self.read() for _ in commands]
        for reply in replies:
            if isinstance(reply, Unusable):
                raise reply
        return replies

    def __call__(self, *words):
        return self.pipe([words])[0]

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise Unusable("redis-server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest
        return Unusable(f"redis-server answered {rest.decode(errors='replace')}")

    def info(self, section):
        lines = self("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)


def die_with_parent():
    """For a child: nothing else ends it where this process is killed."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class CountedServer:
    """`with CountedServer() as server`: `server.db` is connected, `server.count(work)` tells what `work` cost.

    The process is ours alone and ends with the block, however that is left.
    """

    def __init__(self, binary=None):
        names = [binary] if binary else [os.environ.get("REDIS_SERVER"), "redis-server", "valkey-server"]
        self.binary = next((found for name in names if name and (found := shutil.which(name))), None)
        if not self.binary:
            raise Unusable("no redis-server (7.0 or later) was found: `make redis` helps")
        for tool in ("valgrind", "callgrind_control"):
            if not shutil.which(tool):
                raise Unusable(f"{tool} is not on the PATH: install valgrind")
        self.process = None
        self.dir = None
        self.db = None

    def __enter__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="leasehold-instructions-"))
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        self._end()

    def _start(self):
        path = self.dir / "redis.sock"
        # Whatever Redis does by the clock is kept off the counts: one tick a second, no rehashing in idle time.
        settings = {"port": 0, "unixsocket": path, "dir": self.dir, "save": "", "appendonly": "no", "hz": 1,
                    "dynamic-hz": "no", "activerehashing": "no", "logfile": self.dir / "redis.log"}
        callgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--log-file={self.dir}/valgrind.log",
                     f"--callgrind-out-file={self.dir}/counts", f"--vgdb-prefix={self.dir}/vgdb"]
        words = [str(word) for name, value in settings.items() for word in (f"--{name}", value)]
        self.process = subprocess.Popen([*callgrind, self.binary, *words], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                                        preexec_fn=die_with_parent)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.db = Redis(path)
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise Unusable(f"redis-server does not come up under valgrind:\n{self._said()}") from None
                time.sleep(0.05)
        if self.db("PING") != b"PONG":
            raise Unusable("redis-server does not answer PING")
        self._control("--instr=on")

    def _said(self):
        logs = [self.dir / "valgrind.log", self.dir / "redis.log"]
        return "\n".join(log.read_text(errors="replace")[-2000:] for log in logs if log.exists())

    def _end(self):
        if self.db:
            self.db.sock.close()
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        if self.process:
            self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def _control(self, what):
        done = subprocess.run(["callgrind_control", f"--vgdb-prefix={self.dir}/vgdb", what, str(self.process.pid)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode != 0:
            raise Unusable(f"callgrind_control {what}: {done.stdout}{done.stderr}")

    def count(self, work):
        """Instructions of redis-server while `work` runs, and what `work` returns."""
        self._control("--zero")
        before = set(self.dir.glob("counts*"))
        result = work()
        self._control("--dump")
        dumps = set(self.dir.glob("counts*")) - before
        if len(dumps) != 1:
            raise Unusable(f"callgrind wrote {len(dumps)} dumps instead of one:\n{self._said()}")
        with open(dumps.pop(), encoding="utf-8") as dump:
            totals = [int(line.split()[1]) for line in dump if line.startswith("totals:")]
        if len(totals) != 1 or totals[0] == 0:
            raise Unusable(f"a dump of callgrind tells the totals {totals}")
        return totals[0], result

    def identity(self):
        """What counts depend on beside the scripts."""
        info = self.db.info("server")
        valgrind = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout.strip()
        return {"redis": info["redis_version"], "build": info["redis_build_id"], "machine": os.uname().machine,
                "valgrind": valgrind}
