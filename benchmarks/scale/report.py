"""Locks at the scale of an account, as a section of docs/performance.md."""

from __future__ import annotations

from typing import Any

from .prices import DATE, READ, WRITE, dollars
from .world import READS, WRITES


def section(result: dict[str, Any]) -> str:
    """The section, in Markdown. result: as `benchmarks.scale` writes it."""
    return "\n".join([*_hot(result), *_keys(result), *_outage(result)])


def _hot(result: dict[str, Any]) -> list[str]:
    ideal = 1 / (result["hold"] + 0.004)  # the release takes half a round trip, and so does the answer to a claim
    looked = 1 / (result["hold"] + 0.008)  # and so do the answer to a look, and the claim that follows
    lines = [
        "## At the scale of an account",
        "",
        "`python -m benchmarks.scale` simulates a table in virtual time. Our clients are the shipped code. The older "
        "ones follow their sources: they read, write if the lock is free, and else read again after 1 s (Java, Go) or "
        "5 s (Python). Powertools' idempotency does not wait: one call of a key is let in, and the others end with "
        "IdempotencyAlreadyInProgressError. A request takes 2 to 6 ms. Prices are those of DynamoDB on demand in "
        f"us-east-1 of {DATE}: ${WRITE} for a million writes, ${READ} for a million consistent reads.",
        "",
        "### One hot key",
        "",
        f"All clients ask for one key within a second, hold it for {result['hold']:.1f} s and wait at most "
        f"{result['hot'][0]['seconds']:.0f} s. One item serves {READS:,} reads and {WRITES:,} writes a second, and "
        f"throttles the rest. At best {ideal:.1f} locks a second are possible, and {looked:.1f} for a client "
        "that looks before it claims. Of thousands that look, the quickest one wins, in no order.",
        "",
        "| clients | | locks a second | wait, median | longest | reads a second | writes a second | throttled "
        "| dollars for a million locks |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for run in sorted(result["hot"], key=lambda run: run["crowd"]):
        seconds, refused = _busy(run), run["throttled_reads"] + run["throttled_writes"]
        cells = [
            f"{run['crowd']:,}",
            run["who"],
            f"{run['grants'] / seconds:.1f}",
            _seconds(run["wait_median"]),
            _seconds(run["wait_longest"]),
            f"{(run['reads'] + run['throttled_reads']) / seconds:,.0f}",
            f"{(run['writes'] + run['throttled_writes']) / seconds:,.0f}",
            f"{refused / max(refused + run['reads'] + run['writes'], 1):.0%}",
            _price(run),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _busy(run: dict[str, Any]) -> float:
    """Seconds until the last lock was released, or the end."""
    return float(run["seconds"]) if run["grants"] < run["crowd"] else float(run["wait_longest"] + 1)


def _keys(result: dict[str, Any]) -> list[str]:
    lines = [
        "### A million keys",
        "",
        "Without contention, the number of keys changes nothing: each lock is its own item, and items spread over "
        "partitions. What counts is the number of requests:",
        "",
        "| | writes a lock | reads a lock | dollars for a million locks | locks a second on a new table |",
        "|---|---|---|---|---|",
    ]
    for run in result["keys"]:
        reads, writes = run["reads"] / run["grants"], run["writes"] / run["grants"]
        lines.append(f"| {run['who']} | {writes:.1f} | {reads:.1f} | {_price(run)} | {4000 / writes:,.0f} |")
    return [
        *lines,
        "",
        "A new table on demand serves 4,000 writes a second, and more as it grows. A million locks held for an hour "
        f"on a lease of 20 s are 150,000 renewals a second: ${dollars(0, 1e6 * 3600 / (20 / 3)):,.0f}. On Lambda they "
        "cost nothing where the lease reaches to the invocation's deadline, because no renewal is needed then.",
        "",
    ]


def _outage(result: dict[str, Any]) -> list[str]:
    first = result["outage"][0]
    lines = [
        "### The end of an outage",
        "",
        f"DynamoDB refuses everything for {first['down']:.0f} s. Meanwhile {first['clients']:,} clients come, each for "
        "a key of its own, and wait. Then a table serves 12,000 reads and 4,000 writes a second.",
        "",
        "| | requests a second, at most during the outage | after it | locks granted | half of them after | all after "
        "| gave up |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in result["outage"]:
        cells = [
            run["who"],
            f"{run['peak_during']:,}",
            f"{run['peak_after']:,}",
            f"{run['grants']:,}",
            _seconds(run["half_after"]),
            _seconds(run["all_after"]),
            f"{sum(run['failed'].values()):,}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [
        *lines,
        "",
        "The other clients send a request again as their SDK does (8 times for Java, 10 times for Python and "
        "Powertools), and then raise its error: those calls gave up.",
        "",
    ]


def _price(run: dict[str, Any]) -> str:
    return f"{dollars(run['reads'], run['writes']) / run['grants'] * 1e6:,.2f}" if run["grants"] else ""


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"
