"""Lines of JSON, percentiles, and the parameters of the run."""

import json
import os


def setting(name, otherwise):
    """Returns a variable of the environment, or a default."""
    return os.environ.get(name) or otherwise


def seconds(name, otherwise):
    """Returns a variable that is a number of seconds."""
    return float(setting(name, otherwise))


def show(peer, measure, param, unit, **figures):
    """Prints one result."""
    line = {
        "peer": peer.name, "version": peer.version, "lang": "python", "server": peer.server,
        "measure": measure, "param": param, "unit": unit,
    }
    print(json.dumps(line | figures), flush=True)


def timed(times):
    """Returns p50, p99, the longest time in microseconds, and the number, from times in seconds."""
    times = sorted(times)
    n = len(times)
    if n == 0:
        return {"p50": None, "p99": None, "max": None, "n": 0}

    def at(share):
        return times[min(int(n * share), n - 1)] * 1e6

    return {"p50": at(0.5), "p99": at(0.99), "max": at(1.0), "n": n}
