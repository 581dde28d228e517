"""Attacks `wye serve` and its commands, and says what held and what broke.

Attacks come from outside, over HTTP, sockets, signals, files and commands, on a small index that
the attacked program makes. Name the `wye` of several commits to compare them:
`--wye one/bin/wye --wye other/bin/wye`. The exit code is 1 if the last one did not hold.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks import harness
from benchmarks.attacks import answers, disk, documents, edge
from benchmarks.attacks.target import AttackOutcome, Target, attacked
from benchmarks.harness import WYE, BenchmarkError

ATTACKS: dict[str, Callable[[Target], AttackOutcome]] = {
    attack.__name__: attack
    for attack in (*documents.ATTACKS, *edge.ATTACKS, *disk.ATTACKS, *answers.ATTACKS)
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for programs and attacks."""
    parser.add_argument("--wye", action="append", default=[], help="a `wye`; several are compared")
    parser.add_argument("--only", action="append", choices=ATTACKS, metavar="NAME", default=[])


def run(given: argparse.Namespace) -> int:
    """Attack every program, and print the outcomes; returns 1 if the last did not hold."""
    harness.print_header("Attacks", seed=None, data="a dozen made-up documents")
    commands = [[path] for path in given.wye] or [list(WYE)]
    for number, command in enumerate(commands):
        print(f"# {chr(ord('A') + number):<9}{command[0]}")
    held = True
    with ExitStack() as stack:
        targets = []
        for command in commands:
            folder = Path(tempfile.mkdtemp(prefix="wye-attacks-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            targets.append(stack.enter_context(attacked(command, folder)))
        for name in given.only or ATTACKS:
            print(f"\n{name}: {(ATTACKS[name].__doc__ or '').strip()}", flush=True)
            outcomes = [attempt(name, target) for target in targets]
            held &= outcomes[-1].held
            for number, outcome in enumerate(outcomes):
                word = "held" if outcome.held else "BROKEN"
                print(f"  {chr(ord('A') + number)} {word:<7}{outcome.seen}", flush=True)
    return 0 if held else 1


def attempt(name: str, target: Target) -> AttackOutcome:
    """The outcome of one attack, with its seconds; an attack that cannot run counts as not held."""
    started = time.monotonic()
    try:
        outcome = ATTACKS[name](target)
    except (BenchmarkError, OSError, ValueError, LookupError) as error:
        outcome = AttackOutcome(False, f"{type(error).__name__}: {error}")
    taken = time.monotonic() - started
    return AttackOutcome(outcome.held, f"{outcome.seen} ({taken:.0f} s)")
