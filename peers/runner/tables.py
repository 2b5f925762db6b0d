"""Tables of the stored lines: Latchwork compared with each peer, and the promises that the peers lack."""

import statistics
from collections import defaultdict

from .catalogue import GROUPS, PEERS, SERVERS, named

INTRO = """\
Medians over rounds; [lowest..highest] of the rounds. **x**: ours is so many times as fast; below 1 it is slower.
*lacks* is what ours promises and the peer does not: a turn for each who waits, a fencing token, a change that is applied at
most once, and so on. Where it is empty, the promise is the same; elsewhere the ratio has the price of what is lacking in it.
"""

# The figure of a measure in a row: its field, unit and divisor, and whether more is better.
RATE, TIME = ("value", 1, True), ("p50", 1, False)
COLUMNS = {
    "lock": [("M1", "1 task", "pair µs", TIME), ("M2", None, "64 at once, pairs/s", RATE)],
    "several locks": [("M1", "1 task", "three and back µs", TIME)],
    "counter": [("COUNTER", "1 task", "add µs", TIME), ("COUNTER_adds", None, "16 clients, adds/s", RATE)],
    "latch": [("LATCH", None, "until the last of 16 has heard, µs", TIME)],
    "value": [("VALUE", None, "until the last of 16 has heard, µs", TIME)],
    "election": [("ELECTION_grants", None, "16 candidates, hand-overs/s", RATE),
                 ("ELECTION_handoff", None, "hand-over µs", TIME)],
    # Latchwork is measured with three clients of one server, Redisson with three servers.
    "quorum": [("QUORUM", "1 task", "a majority of three and back µs", TIME)],
}


class Figures:
    """The figures of all rounds, by peer."""

    def __init__(self, lines):
        self.by_row = defaultdict(list)
        self.contenders = set()
        for line in lines:
            peer = named(line.get("peer", ""), line.get("server"))
            if peer is None or line.get("error"):
                continue
            figure = _figure(line)
            if figure is not None:
                measure, param = line["measure"], line.get("param")
                self.by_row[peer, measure, param].append(figure)
                self.by_row[peer, measure, None].append(figure)
                if measure == "M3_grants":
                    self.contenders.add(int(param.removeprefix("W=")))

    def peers(self, server, group):
        """Returns the peers of a group on a server that have a figure."""
        measured = {peer for peer, _, _ in self.by_row}
        return [peer for peer in PEERS if peer.server == server and peer.group == group and peer in measured]

    def of(self, peer, measure, param):
        """Returns the figures of the rounds."""
        return self.by_row.get((peer, measure, param), [])

    def ratio(self, peer, column):
        """Returns how many times as fast Latchwork is."""
        measure, param, _, (_, _, more_is_better) = column
        ours = named(peer.beside, peer.server)
        figures, beside = self.of(peer, measure, param), self.of(ours, measure, param)
        if peer.is_ours or ours is None or not figures or not beside:
            return None
        theirs, own = statistics.median(figures), statistics.median(beside)
        if not theirs or not own:
            return None
        return own / theirs if more_is_better else theirs / own

    def cell(self, peer, column):
        """Returns a figure with its range, and its ratio to Latchwork."""
        measure, param, _, _ = column
        figures = self.of(peer, measure, param)
        if not figures:
            return "–"
        text = _short(statistics.median(figures))
        if len(figures) > 1:
            text += f" [{_short(min(figures))}..{_short(max(figures))}]"
        ratio = self.ratio(peer, column)
        return text if ratio is None else f"{text} **x {_times(ratio)}**"


def _figure(line):
    """Returns the one figure of a line that is shown; for grants, only those to another contender."""
    if line.get("measure", "").endswith("_grants"):
        if not line.get("n") or line.get("value") is None:
            return None
        return line["value"] * (1 - line.get("self_regrants", 0) / line["n"])
    return line.get("p50") if line.get("unit") == "us" else line.get("value")


def _short(figure):
    if figure >= 10_000:
        return f"{figure / 1000:.0f}k"
    if figure >= 1_000:
        return f"{figure / 1000:.1f}k"
    return f"{figure:.0f}" if figure >= 100 else f"{figure:.1f}"


def _times(ratio):
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2f}"


def _row(cells):
    return "| " + " | ".join(cells) + " |"


def report(lines):
    """Returns all tables as Markdown."""
    figures = Figures(lines)
    parts = [*_runs(lines), INTRO]
    for server in SERVERS:
        for group in GROUPS:
            parts += _table(figures, server, group)
    parts += _troubles(lines)
    return "\n".join(parts)


def _columns(figures, group):
    columns = list(COLUMNS[group])
    if group == "lock":
        columns += [("M3_grants", f"W={count}", f"{count} contend, hand-offs/s", RATE)
                    for count in sorted(figures.contenders)]
    return columns


def _table(figures, server, group):
    peers = figures.peers(server, group)
    columns = [column for column in _columns(figures, group)
               if any(figures.of(peer, column[0], column[1]) for peer in peers)]
    if not columns:
        return []
    rows = [f"\n### {server}: {group}\n", _row(["", *(column[2] for column in columns), "lacks"]),
            _row(["---"] * (len(columns) + 2))]
    for peer in peers:
        rows.append(_row([peer.name, *(figures.cell(peer, column) for column in columns), peer.lacks]))
    return [*rows, *_verdicts(figures, peers, columns)]


def _verdicts(figures, peers, columns):
    """For each column, compares Latchwork with the fastest peer with the same promise, and with the other peers."""
    told = []
    for column in columns:
        beside = []
        for words, of in (("the same promise", [peer for peer in peers if not peer.lacks]),
                          ("barer ones", [peer for peer in peers if peer.lacks and not peer.name.startswith("raw-")]),
                          ("raw requests", [peer for peer in peers if peer.name.startswith("raw-")])):
            ratios = [(ratio, peer) for peer in of if (ratio := figures.ratio(peer, column)) is not None]
            if ratios:
                ratio, peer = min(ratios, key=lambda one: one[0])
                beside.append(f"{words}: {_times(ratio)} ({peer.name})")
        if beside:
            told.append(f"- {column[2]}: ours beside the fastest with {'; with '.join(beside)}")
    return ["", *told] if told else []


def _runs(lines):
    told = []
    for run in (line["run"] for line in lines if "run" in line):
        machine = run["machine"]
        servers = ", ".join(f"{kind} {version}" for kind, version in run["servers"].items())
        languages = "; ".join(str(version) for version in run["languages"].values() if version)
        told.append(f"{run['date']}, {run['commit']}: {run['rounds']} rounds of {run['secs']} s on {machine['cores']} cores of "
                    f"{machine['processor']} ({machine['system']}); {servers}, data in {run['data']}; {languages}.\n")
    return told


def _troubles(lines):
    """Returns the errors, and the load of the machine by other programs."""
    told = sorted({f"- {line.get('peer')} {line.get('measure')} {line.get('param', '')}: "
                   + (line.get("error") or f"{line['overlaps']} times two held at once")
                   for line in lines if line.get("error") or line.get("overlaps")})
    shares = [line["cpu_share"] for line in lines if "cpu_share" in line]
    parts = ["\n### What went wrong\n", *told] if told else []
    if shares:
        parts.append(f"\nShare of a core that a busy loop got before a program: median {statistics.median(shares):.2f}, "
                     f"least {min(shares):.2f} (1.0: an idle machine).")
    return parts


def catalogue():
    """Returns every peer with the promises that it lacks."""
    rows = [_row(["server", "recipe", "peer", "in", "lacks"]), _row(["---"] * 5)]
    rows += [_row([peer.server, peer.group, peer.name, peer.program, peer.lacks]) for peer in PEERS]
    return "\n".join(rows)
