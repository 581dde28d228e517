"""`python -m benchmarks`: the standard benchmarks, or one of them by name.

Without a name, those that need nothing but this repository run one after another, in processes of
their own. With a name, `benchmarks.NAME` runs with the arguments that follow.
"""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec

PACKAGE = "benchmarks"
DEMO = str(files("service") / "demo")


@dataclass(frozen=True, slots=True)
class Standard:
    """A benchmark as `make bench` runs it.

    Attributes:
        name: Of the module.
        arguments: That make it take seconds rather than minutes.
    """

    name: str
    arguments: tuple[str, ...] = ()


STANDARD = (
    Standard("dense", ("--passages", "5000")),
    Standard("lexical", (DEMO,)),
    Standard("router", ("--questions", "400")),
    Standard("features", ("--rounds", "1")),
    Standard("crash", ("--moments", "5")),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the arguments name.

    Returns:
        How many benchmarks failed; 2 for a name that is none.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in ("-h", "--help"):
        print(usage())
        return 0
    if not arguments:
        return sum(_run(standard.name, standard.arguments) != 0 for standard in STANDARD)
    name, *rest = arguments
    if not name.isidentifier() or find_spec(f"{PACKAGE}.{name}") is None:
        print(f"There is no benchmark '{name}'.\n\n{usage()}", file=sys.stderr)
        return 2
    return _run(name, rest)


def usage() -> str:
    """What can be run, and how."""
    lines = ["python -m benchmarks                  these, one after another:"]
    lines += [f"    {' '.join((s.name, *s.arguments))}" for s in STANDARD]
    lines.append("python -m benchmarks NAME --help      how to run one on other data")
    return "\n".join(lines)


def _run(name: str, arguments: Sequence[str]) -> int:
    """Run one in a process of its own; its exit code."""
    command = [sys.executable, "-m", f"{PACKAGE}.{name}", *arguments]
    print(f"\n$ python {' '.join(command[1:])}", flush=True)
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
