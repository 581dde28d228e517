"""Lays the documents out as mkdocs wants them, for `make site`: python .ci/site.py FOLDER.

Documents link to each other, and to files of the repository, by paths in it. So the folder gets the
documents and what they link to at the same paths; docs/index.md becomes its first page.
"""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(\]\(|src(?:set)?=\")(?![a-z]+:|#)([^)\s#\"]+)")
PAGES = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "client/README.md",
    "docs/**/*.md",
    "models/*/**/CARD.md",
    "models/*/CARD.md",
)


def main(folder: Path) -> int:
    """Fill the folder; 1 if a link leads nowhere."""
    shutil.rmtree(folder, ignore_errors=True)
    dead = []
    pages = {
        path for pattern in PAGES for path in ROOT.glob(pattern) if "samples" not in path.parts
    }
    for path in sorted(pages):
        text = path.read_text(encoding="utf-8")
        for match in LINK.finditer(text):
            target = (path.parent / match[2]).resolve()
            if not target.exists():
                dead.append(f"{path.relative_to(ROOT)}: {match[2]}")
            elif target.is_file() and target.suffix != ".md":
                copy = folder / target.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(target, copy)
        page = folder / path.relative_to(ROOT)
        if path == ROOT / "docs" / "index.md":
            page = folder / "index.md"
            text = LINK.sub(lambda match: f"{match[1]}docs/{match[2]}", text)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text.replace("docs/index.md)", "index.md)"), encoding="utf-8")
    print("\n".join(f"{each} leads nowhere." for each in dead), end="\n" if dead else "")
    return bool(dead)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
