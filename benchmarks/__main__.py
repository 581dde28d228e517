"""`python -m benchmarks NAME [options]` runs a benchmark; without a name, the quick ones run."""

import argparse
import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.harness import BenchmarkError
from wye.backends.errors import BackendError
from wye.featurizer.errors import FeaturizerError
from wye.router.errors import RouterError
from wye.training.errors import TrainingError

QUICK = ("crash", "--kills", "25")
"""What runs without a name: less than a minute, with nothing but this repository."""
BENCHMARKS = sorted({path.stem for path in Path(__file__).parent.glob("[!_]*.py")} - {"harness"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run the named benchmark, or the quick one.

    Returns:
        Its exit code; 2 if it cannot run or the name is unknown.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    name, *options = arguments or QUICK
    if name in ("-h", "--help"):
        print(usage())
        return 0
    if name not in BENCHMARKS:
        print(f"There is no benchmark '{name}'.\n\n{usage()}", file=sys.stderr)
        return 2
    print(f"\n$ python -m benchmarks {' '.join((name, *options))}", flush=True)
    module = import_module(f"benchmarks.{name}")
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of everything drawn at random")
    module.add_options(parser)
    try:
        return int(module.run(parser.parse_args(options)) or 0)
    except (BackendError, BenchmarkError, FeaturizerError, RouterError, TrainingError) as error:
        print(error, file=sys.stderr)
        return 2


def usage() -> str:
    """The help text: all benchmarks with what they measure."""
    lines = ["python -m benchmarks NAME [options]; NAME --help tells the options.", ""]
    for name in BENCHMARKS:
        source = Path(__file__).with_name(f"{name}.py").read_text("utf-8")
        title = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
        lines.append(f"{name:<16}{title}")
    return "\n".join([*lines, "", f"Without NAME: {' '.join(QUICK)}"])


if __name__ == "__main__":
    sys.exit(main())
