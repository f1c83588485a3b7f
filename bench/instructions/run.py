#!/usr/bin/env python3
"""Counts the instructions of redis-server for a fixed workload, and holds them against a stored baseline.

Time on a shared machine wavers by a tenth and more; instructions under callgrind of valgrind by about one percent. They
say nothing of caches and system calls: the last word on speed has `make bench`.

    python3 bench/instructions/run.py             # exit 1 when a figure is off by more than 3 % (raw: 6 %)
    python3 bench/instructions/run.py --update    # the figures of now become the baseline

Exit 2: nothing could be compared, for something is missing or the baseline was counted with another Redis or valgrind.
"""
import argparse
import json
import pathlib
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
from server import CountedServer, Unusable
from workload import ALONE, BATCH, STEPS, TASKS, measure

BASELINE = pathlib.Path(__file__).with_name("baseline.json")
LUA = pathlib.Path(__file__).resolve().parents[2] / "lua"
TOLERANCE = 0.03
# Redis keeps what a consumer group has not acknowledged in a tree by entry times: that wavers by 2 % with the hour.
RAW_TOLERANCE = 0.06

# group, what it is held against, and what it is
GROUPS = (
    ("raw", None, "raw stream, in hundreds"),
    ("kept", "raw", "tasks in hundreds, result kept"),
    ("discarded", "raw", "tasks in hundreds, discarded"),
    ("raw alone", None, "raw stream, one entry a call"),
    ("alone", "raw alone", "one task a call, result kept"),
    ("idle", None, "a claim that finds nothing"),
    ("beat", None, "a heartbeat of a hundred runs, per run"),
)


def steps_of(figures, group):
    return {name.split(".")[1]: value for name, value in figures.items() if name.split(".")[0] == group}


def with_sums(figures):
    """Adds what all steps of a task cost together."""
    sums = {f"{group}.all": sum(steps_of(figures, group).values())
            for group, _, _ in GROUPS if set(STEPS) <= set(steps_of(figures, group))}
    return {**figures, **sums}


def change(now, before):
    return (now - before) / before


def table(figures, baseline):
    lines = [f"{'instructions per task':<42}{'now':>10}{'/ raw':>8}{'baseline':>12}{'change':>10}"]
    for group, against, title in GROUPS:
        lines.append(title)
        for step, now in steps_of(figures, group).items():
            ratio = f"{now / figures[f'{against}.{step}']:.2f}" if against else ""
            before = baseline.get(f"{group}.{step}")
            then = f"{before:>12,}{change(now, before):>+10.1%}" if before else ""
            lines.append(f"    {step:<38}{now:>10,}{ratio:>8}{then}".rstrip())
    return "\n".join(lines)


def tolerance(name):
    return RAW_TOLERANCE if name.startswith("raw") else TOLERANCE


def offences(figures, baseline):
    told = [f"{name}: {now:,} instead of {baseline[name]:,} ({change(now, baseline[name]):+.1%})"
            for name, now in figures.items() if name in baseline and abs(change(now, baseline[name])) > tolerance(name)]
    return told + [f"{name}: only in one of both" for name in sorted(figures.keys() ^ baseline.keys())]


def stored():
    if not BASELINE.exists():
        return None, {}
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    return baseline["counted_with"], with_sums(baseline["figures"])


def judge(identity, figures, counted_with, baseline):
    if counted_with is None:
        print("\nnot compared: there is no baseline; --update writes one", file=sys.stderr)
        return 2
    if counted_with != identity:
        print(f"\nnot compared: the baseline was counted with {counted_with}, this with {identity}", file=sys.stderr)
        return 2
    off = offences(figures, baseline)
    if not off:
        print(f"\nall within {TOLERANCE:.0%} of the baseline, raw streams within {RAW_TOLERANCE:.0%}")
        return 0
    heading = f"more than {TOLERANCE:.0%} (raw streams {RAW_TOLERANCE:.0%}) off the baseline:"
    print("\n" + "\n  ".join([heading, *off]), file=sys.stderr)
    print("if that is what the change is for, `make bench-instructions INSTRUCTIONS=--update` takes it over", file=sys.stderr)
    return 1


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--update", action="store_true", help="write the baseline instead of holding against it")
    options.add_argument("--server", help="binary of redis-server; $REDIS_SERVER or what the PATH has otherwise")
    options.add_argument("--lua", type=pathlib.Path, default=LUA, help="folder of the scripts, by default those beside this")
    options = options.parse_args()
    # A server is ended by leaving its block, so a request to stop has to be an exception.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    try:
        with CountedServer(options.server) as server:
            identity = server.identity()
            measured = measure(server, options.lua, lambda text: print(text, file=sys.stderr))
    except (Unusable, OSError, subprocess.SubprocessError) as problem:
        print(f"nothing was counted: {problem}", file=sys.stderr)
        return 2
    figures, (counted_with, baseline) = with_sums(measured), stored()
    comparable = counted_with == identity
    print(f"redis-server {identity['redis']} under {identity['valgrind']}; {TASKS:,} tasks in calls of {BATCH}, "
          f"{ALONE} one by one\n")
    print(table(figures, baseline if comparable else {}))
    if options.update:
        text = json.dumps({"counted_with": identity, "figures": measured}, indent=2)
        BASELINE.write_text(text + "\n", encoding="utf-8")
        print(f"\nwritten to {BASELINE.name}")
        return 0
    return judge(identity, figures, counted_with, baseline)


if __name__ == "__main__":
    sys.exit(main())
