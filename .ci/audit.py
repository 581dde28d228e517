"""Asks PyPI, by pip-audit, for known vulnerabilities of the packages that constraints.txt pins.

If PyPI cannot answer (no network, or a mirror without this service), nothing is checked, and the
last line says so. With AUDIT=strict in the environment, that is a failure too.
"""

import json
import os
import subprocess
import sys
from typing import Any


def main() -> int:
    """Run the audit; 0 if no pin has a known vulnerability."""
    command = [sys.executable, "-m", "pip_audit", "--format=json", "--progress-spinner=off"]
    command += ["--disable-pip", "--no-deps", "--requirement=constraints.txt"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        reason = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        return _unchecked(f"pip-audit gave no result ({reason})")
    known = [(package, fault) for package in packages for fault in package.get("vulns", [])]
    for package, fault in known:
        fixed = ", ".join(fault["fix_versions"]) or "no version yet"
        print(f"{package['name']} {package['version']}: {fault['id']}, fixed in {fixed}.")
    checked = [package for package in packages if "skip_reason" not in package]
    if known:
        print(f"{len(known)} known vulnerabilities. Raise the pins in constraints.txt.")
        return 1
    if len(checked) < len(packages):
        return _unchecked(f"{len(packages) - len(checked)} of {len(packages)} pins were not found")
    print(f"None of {len(checked)} pins has a known vulnerability.")
    return 0


def _unchecked(why: str) -> int:
    print(f"NOT AUDITED: {why}. Run `make audit` where PyPI can be reached.")
    return int(os.environ.get("AUDIT") == "strict")


if __name__ == "__main__":
    sys.exit(main())
