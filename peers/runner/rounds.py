"""Rounds: every program runs once in each, in an order that depends on the round's number."""

import datetime
import json
import os
import platform
import random
import signal
import subprocess
import time
from pathlib import Path

from .build import say
from .catalogue import chosen

# Three mutexes as one are measured together with the mutex.
WITH_ANOTHER = {"latchwork-multi-3": "latchwork-mutex"}
RECIPES = {"latchwork-mutex": "mutex", "latchwork-rw-write": "rw-write", "latchwork-semaphore": "semaphore"}


def play(wanted, servers, built, peers, file):
    """Plays all rounds, and writes their lines into a file."""
    environment = os.environ | servers.environment | {
        "BENCH_SECS": str(wanted.secs), "BENCH_W": wanted.contenders,
    }
    runs = _runs([peer for peer in peers if peer.program in built and peer.server in servers.urls], wanted.measures)
    _warm_up(built, servers, environment)
    with open(file, "w", encoding="utf-8") as out:
        out.write(json.dumps({"run": _run(wanted, servers)}) + "\n")
        for number in range(1, wanted.rounds + 1):
            order = list(runs)
            random.Random(number).shuffle(order)
            for place, (peer, measures) in enumerate(order, 1):
                lines = _play_one(peer, measures, built[peer.program], environment, wanted.secs)
                for line in lines["lines"]:
                    out.write(json.dumps(line | {"round": number, "cpu_share": lines["cpu_share"]}) + "\n")
                out.flush()
                say(f"round {number} of {wanted.rounds}, {place} of {len(order)}: {peer.name} on {peer.server}: "
                    f"{lines['told']}")


def _runs(peers, measures):
    """Returns the runs of the programs, each as a peer and its measures."""
    names = {(peer.name, peer.server): peer for peer in chosen(None, {peer.server for peer in peers}, measures)}
    runs = {}
    for peer in peers:
        with_another = WITH_ANOTHER.get(peer.name)
        measured = names.get((with_another, peer.server), peer) if with_another else peer
        of = runs.setdefault(measured, [])
        of += [measure for measure in peer.measures(measures) if measure not in of]
    return list(runs.items())


def _play_one(peer, measures, program, environment, secs):
    command = list(program.command)
    if peer.is_ours:
        command += ["--backend", peer.server, "--recipes", RECIPES.get(peer.name, "mutex")]
    else:
        command.append(peer.name)
    share, started = _cpu_share(), time.monotonic()
    # Enough for a dozen measurements, their clients and a virtual machine's warm-up, so a longer run hangs.
    limit = 240 + 15 * secs
    text, error = _output(command, environment | {"BENCH_MEASURES": ",".join(measures)}, limit)
    lines = []
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            # Output of a library itself.
            continue
    if error:
        lines.append({"peer": peer.name, "server": peer.server, "measure": "program", "error": error})
    told = f"{len(lines)} lines, {time.monotonic() - started:.0f} s" + (f", {error}" if error else "")
    return {"lines": lines, "cpu_share": share, "told": told}


def _output(command, environment, limit):
    """Returns the output and the error of a program. After a timeout it kills the program with its children."""
    program = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
    error = None
    try:
        text, said = program.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        text, said = program.communicate()
        error = f"not done after {limit:.0f} s"
    except BaseException:
        os.killpg(program.pid, signal.SIGKILL)
        raise
    if program.returncode and not error:
        last = said.strip().splitlines()[-1:] or ["it said nothing"]
        error = f"exit status {program.returncode}: {last[0]}"
    return text, error


def _warm_up(built, servers, environment):
    """Warms up: ZooKeeper's virtual machine compiles frequently called code, and earlier results do not count."""
    names = [f"raw-{server}" for server in servers.urls]
    if "rust" in built:
        environment = environment | {"BENCH_MEASURES": "M1,M2", "BENCH_SECS": "3"}
        _output([*built["rust"].command, *names], environment, 60)


def _cpu_share():
    """Returns the share of a core that a busy loop gets now: 1.0 on an idle machine."""
    wall, own = time.perf_counter(), time.process_time()
    while time.process_time() - own < 0.03:
        pass
    return round((time.process_time() - own) / (time.perf_counter() - wall), 2)


def _run(wanted, servers):
    """Returns the facts that a reader of the results needs."""
    here = Path(__file__).resolve().parent
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": _first_line("git", "-C", here, "describe", "--always", "--dirty"),
        "machine": {"cores": os.cpu_count(), "processor": _processor(), "system": platform.platform()},
        "servers": servers.versions(), "data": str(servers.data or "disk"),
        "languages": {
            "rust": _first_line("rustc", "--version"), "java": _first_line("java", "--version"),
            "go": _first_line("go", "version"), "python": platform.python_version(),
        },
        "rounds": wanted.rounds, "secs": wanted.secs, "contenders": wanted.contenders,
    }


def _first_line(*command):
    try:
        told = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, check=False).stdout
    except OSError:
        return None
    return (told.splitlines() or [None])[0]


def _processor():
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in told.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def load(files):
    """Returns the lines of stored results, each with its file."""
    lines = []
    for file in files:
        for line in Path(file).read_text(encoding="utf-8").splitlines():
            if line.strip():
                lines.append(json.loads(line) | {"file": str(file)})
    return lines
