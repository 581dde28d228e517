"""Write the golden files again, all of them or those of the named collectors.

    python tests/golden/freeze.py [COLLECTOR ...]

Do so only for a change of behaviour that is intended and in the changelog: a new setting, another
field in a reply, a better ranking. Run the test first and read its differences. Freeze only the
collector that they belong to, and commit the new files with the change. Moving, renaming or merging
code is no reason: if a golden file differs then, the code is wrong.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from pathlib import Path
from tests.golden.collect import COLLECTORS, index_demo, main
from tests.golden.store import FOLDER
index = index_demo(Path(sys.argv[1]))
for name in sys.argv[2:] or COLLECTORS:
    print(name, flush=True)
    main(name, str(index), str(FOLDER))
"""


def freeze(collectors: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, folder, *collectors],
            cwd=ROOT,
            env={"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
    return done.returncode


if __name__ == "__main__":
    sys.exit(freeze(sys.argv[1:]))
