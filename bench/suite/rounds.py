"""Rounds: ours and the peers' in turn, so that slow minutes of a machine slow all of them alike; and a result's line.

A contestant is a function that runs a program once and gives {case: {figure: number}}.
"""
import statistics

from suite.programs import say

SMALLER_IS_BETTER = ("us", "ms", "s", "GiB")


def in_rounds(contestants, rounds):
    """{name: {case: {figure: [a number a round]}}} of {name: contestant}; every other round runs them backwards."""
    found = {name: {} for name in contestants}
    for number in range(rounds):
        for name in list(contestants) if number % 2 == 0 else reversed(contestants):
            say(f"round {number + 1} of {rounds}: {name}")
            for case, figures in contestants[name]().items():
                for figure, value in figures.items():
                    found[name].setdefault(case, {}).setdefault(figure, []).append(value)
    return found


def line(bench, case, unit, ours, limit=(), peer_name=None, peer=()):
    """A result. `ours` and `peer` are the values of the rounds, whose medians count; `limit` those of what bounds ours, of
    which the best counts: what was reached once can be reached."""
    smaller = unit in SMALLER_IS_BETTER
    middle, of_peer = statistics.median(ours), statistics.median(peer) if peer else None
    ratio = None if of_peer is None else of_peer / middle if smaller else middle / of_peer
    return {"bench": bench, "case": case, "unit": unit, "ours": middle, "peer_name": peer_name, "peer": of_peer,
            "ratio": ratio, "limit": (min if smaller else max)(limit) if limit else None,
            "ours_range": [min(ours), max(ours)], "peer_range": [min(peer), max(peer)] if peer else None}


def lines(bench, case, unit, found, figure, limit=None):
    """A line for each peer that was in the rounds, or one without: the figure `figure` of ours and theirs in `case`, and
    ours of `limit`."""
    ours = found["ours"][case]
    bound = ours.get(limit, ()) if limit else ()
    names = [name for name in found if name != "ours" and figure in found[name].get(case, {})]
    for name in names:
        yield line(bench, case, unit, ours[figure], bound, name, found[name][case][figure])
    if not names:
        yield line(bench, case, unit, ours[figure], bound)
