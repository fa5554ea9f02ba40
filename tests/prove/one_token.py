"""Changes one token of lambda_lock at a time, and runs the tests of its module: ``python -m tests.prove.one_token``.

    python -m tests.prove.one_token                                # 40 mutations, drawn by a seed that is printed
    python -m tests.prove.one_token --seed 7 --count 300           # the same again, as long as the source is equal
    python -m tests.prove.one_token --only transport/              # of the files whose names contain this
    python -m tests.prove.one_token --only transport/http1.py#41   # this one, and #410 and so on

Each is planted in processes of its own, which run one folder of tests after another (RINGS) until a test fails. What no
test notices is printed last: it needs a test, or it changes nothing that anybody can see. So the exit status is 0 with
survivors, too.
"""

import argparse
import os
import random
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from rig.engine import ROOT

from . import bench, tokens
from .programs import Programs
from .tokens import Mutation

# The tests that concern a package, the nearest first. A module has those of the longest beginning of its name here.
RINGS: dict[str, tuple[str, ...]] = {
    "": ("table", "with_lock"),
    "batch/": ("batch",),
    "cdk/": ("cdk",),
    "cli/": ("cli", "rig"),
    "client/": ("with_lock", "handover", "transactions", "holds", "several", "client"),
    "client/async": ("aio", "drivers", "several"),
    "core/": ("core", "handover", "transactions", "several", "simulation"),
    "core/rate": ("rates", "core"),
    "core/sleepers": ("core", "waking"),
    "decorators/": ("with_lock", "deduplicate", "refusals", "changes", "rates", "batch"),
    "durable/": ("durable",),
    "keys/": ("with_lock", "deduplicate", "refusals"),
    "observe/": ("observe", "with_lock"),
    "runtime/": ("with_lock", "observe", "transactions", "runtime", "races", "client"),
    "runtime/drive_async": ("aio", "drivers", "client"),
    "runtime/threads": ("aio", "client"),
    "testing/": ("testing", "expressions"),
    "transport/": ("transport",),
    "waker/": ("waking", "simulation"),
    "web/": ("web", "refusals"),
    "stopping.py": ("stopping", "refusals"),
}
_MINUTES = 4  # for one folder
_MARKED = ("-m", "not slow and not planted and not prove")  # the long ones too: many a case is theirs alone
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def rings(file: str) -> tuple[str, ...]:
    return RINGS[max((start for start in RINGS if file.startswith(start)), key=len)]


def noticed(mutation: Mutation, programs: Programs) -> str:
    """The first test that fails with this mutation, and passes without. "" if none does, also for lack of time."""
    for folder in rings(mutation.file):
        why, said = _run(programs, f"tests/{folder}", mutation.name)
        failed = _FAILED.search(said)
        if failed and not _FAILED.search(_run(programs, failed[1].partition("[")[0])[1]):  # it passes without
            return failed[1]
        if (
            why.startswith("it ended") and not failed
        ):  # a test that hangs has failed; where all tests take too long, nothing is said
            return f"{folder}: {why}"
    return ""


def _run(programs: Programs, tests: str, mutation: str = "") -> tuple[str, str]:
    """Run tests until one fails. Returns how that ended, and what it said."""
    options = ["-p", "no:cacheprovider", "--quiet", "--exitfirst", "--tb=no", *_MARKED]
    # The SDK of durable functions has an environment of its own.
    python = str(ROOT / ".venv-durable/bin/python") if tests.startswith("tests/durable") else sys.executable
    pytest = [python, "-m", "pytest", *options, tests]
    planting = ["env", f"{tokens.VARIABLE}={mutation}", *pytest, "-p", "tests.prove.tokens"] if mutation else pytest
    with tempfile.TemporaryFile() as output:
        why = programs.run(planting, 60 * _MINUTES, output)
        output.seek(0)
        return why, output.read().decode(errors="replace")


def run(options: argparse.Namespace) -> bench.Figures:
    everywhere = (each for file in tokens.files() for each in tokens.mutations(file))
    found = [each for each in everywhere if options.only is None or options.only in each.name]
    if not found:
        raise bench.CannotRunError(f"no file's name contains {options.only!r}")
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    drawn = random.Random(seed).sample(found, min(options.count, len(found)))
    bench.say(f"{len(drawn)} of {len(found):,} mutations, seed {seed}")
    killers, survivors = {}, []
    with ThreadPoolExecutor(options.processes) as pool, Programs() as programs:
        for number, (mutation, killer) in enumerate(
            zip(drawn, pool.map(lambda each: noticed(each, programs), drawn), strict=True), start=1
        ):
            bench.say(f"{number:4} {mutation}: {killer or 'NOT NOTICED'}")
            killers[str(mutation)] = killer
            survivors += [] if killer else [mutation]
    if survivors:
        bench.say("\n".join(["", "no test notices:", *map(str, survivors)]))
    return {
        "seed": seed,
        "mutations": len(drawn),
        "noticed": len(drawn) - len(survivors),
        "survivors": [str(each) for each in survivors],
        "killers": killers,
        "good": True,
    }


def main(arguments: list[str]) -> int:
    made = bench.parser("tests.prove.one_token", __doc__, only=None, seed=None, processes=min(2, os.cpu_count() or 1))
    made.add_argument("--count", type=int, default=40, metavar="N", help="how many mutations (default: 40)")
    return bench.conduct(made, run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
