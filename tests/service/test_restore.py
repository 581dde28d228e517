"""The drill of docs/guides/operate.md: back up under a running server, lose all, restore."""

import random
import shutil
from pathlib import Path

from starlette.testclient import TestClient

import wye
from tests.live import until
from tests.service.fakes import Serve
from wye.service.cli import run

NAMES = [f"{a}{b}" for a in ("Al", "Ber", "Cor", "Dun", "El") for b in ("den", "mouth", "stead")]
ROUTES = ("dense", "lexical", "graph", "fusion")


def passages(folder: Path) -> dict[str, tuple[str, str, dict[str, object]]]:
    with wye.open(folder) as index:
        snapshot = index._session.snapshot
        rows = snapshot.passages(snapshot.corpus.ids)
    return {id_: (row.title, row.text, dict(row.metadata)) for id_, row in rows.items()}


def rankings(client: TestClient) -> list[list[tuple[str, float]]]:
    replies = [
        client.post(
            "/v1/retrieve",
            json={"question": f"Who sailed from {a} to {b}?", "route": route, "k": 10},
        ).json()
        for route in ROUTES
        for a in NAMES[:10]
        for b in NAMES[10:]
    ]
    return [[(hit["id"], hit["score"]) for hit in reply["passages"]] for reply in replies]


def test_everything_is_back(start: Serve, folder: Path, tmp_path: Path) -> None:
    client, draw = start(), random.Random(0)
    for number in range(300):
        a, b = draw.sample(NAMES, 2)
        text = f"Captain {a} {number} sailed from {a} to {b}. {b} is {draw.choice(NAMES)}'s port."
        document = {"title": a, "text": text, "metadata": {"n": number}}
        assert client.put(f"/v1/documents/d{number}", json=document).status_code in {200, 201}
    assert client.delete("/v1/documents/d7").status_code == 200
    backup = tmp_path / "backup"
    assert run(["index", str(folder), "--index", str(backup)]) == 0
    stored, ranked = passages(folder), until(lambda: rankings(client))
    assert (len(stored), len(ranked)) == (301, 200)
    client.close()
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    assert passages(folder) == stored
    assert rankings(start()) == ranked
