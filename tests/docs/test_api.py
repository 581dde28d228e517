"""Every example of the OpenAPI schema is sent to a server, which answers as the schema says."""

import ast
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from tests.docs.conftest import Curl
from tests.docs.examples import ROOT, Block, Command, blocks, python
from tests.live import PATIENCE, Live

Node = dict[str, Any]

# What stands in an address for a parameter of it.
NAMES = {"store": "default", "document": "notes/mostar"}
JSON = "application/json"


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Live]:
    shutil.copytree(folder / "demo-index", folder / "served-index")
    log = {"WYE_SERVE__REQUEST_LOG": str(folder / "requests.jsonl")}
    made = Live(["serve", "--index", "served-index"], log, folder=folder)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def schema(server: Live) -> Node:
    found: Node = httpx.get(f"{server.url}/openapi.json", timeout=PATIENCE).json()
    return found


def nodes(value: object) -> Iterator[Node]:
    if isinstance(value, dict):
        yield value
        value = [*value.values()]
    for part in value if isinstance(value, list) else ():
        yield from nodes(part)


def described(schema: Node) -> list[Block]:
    texts = [node["description"] for node in nodes(schema) if "description" in node]
    return [block for text in texts if isinstance(text, str) for block in blocks("openapi", text)]


class Bodies:
    """Values that a schema's examples make, those of its parts put in their places."""

    def __init__(self, schema: Node) -> None:
        self.used: set[int] = set()
        self._parts: Node = schema["components"]["schemas"]

    def of(self, node: Node) -> Iterator[Any]:
        """Examples of a node: its own, and those with an example of a property in its place."""
        if "$ref" in node:
            yield from self.of(self._parts[node["$ref"].rpartition("/")[2]])
            return
        own = node.get("examples", [])
        if own:
            self.used.add(id(node))
        yield from own
        for choice in [*node.get("anyOf", []), *node.get("allOf", [])]:
            yield from self.of(choice)
        if "items" in node:
            yield from ([value] for value in self.of(node["items"]))
        for name, part in node.get("properties", {}).items():
            start = next((one for one in own if name in one), own[0] if own else {})
            yield from ({**start, name: value} for value in self.of(part))


def test_every_example_of_a_request_is_answered(server: Live, schema: Node) -> None:
    bodies, sent = Bodies(schema), 0
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        form = {"files": {"file": ("notes.md", b"Notes.")}, "data": {"purpose": "assistants"}}
        file = client.post("/v1/files", **form).json()["id"]  # type: ignore[arg-type]
        client.post("/v1/retrieve", json={"question": "?a"}, headers={"x-request-id": "0f3a5c"})
        for path, methods in schema["paths"].items():
            for method, operation in methods.items():
                content = operation.get("requestBody", {}).get("content", {})
                if JSON not in content:
                    continue
                examples = [*bodies.of(content[JSON]["schema"])]
                assert len(examples) >= 2, path
                for example in examples:
                    body = json.loads(re.sub("file-[0-9a-f]+", file, json.dumps(example)))
                    reply = client.request(method, path.format(**NAMES), json=body)
                    assert reply.is_success, (path, body, reply.text)
                    assert str(reply.status_code) in operation["responses"], (path, body)
                    sent += 1
    assert sent > 20
    # Nor is there an example anywhere else, of which nobody would know whether it works.
    marked = [node for node in nodes(schema) if {"example", "examples"} & {*node}]
    unused = [node for node in marked if id(node) not in bodies.used]
    assert unused == []


def test_every_block_described_runs(server: Live, schema: Node, folder: Path, curl: Curl) -> None:
    found = described(schema)
    assert {block.language for block in found} == {"bash", "python"}
    for block in found:
        if block.language == "bash":
            assert curl(Command(block.place, block.text), server.url), block
            continue
        assert block.language == "python", f"Nothing here knows how to run {block}"
        assert python(block, server.url, folder).strip(), block


def test_every_block_of_a_docstring_is_in_a_description(schema: Node) -> None:
    known = {block.text for block in described(schema)}
    for path in sorted((ROOT / "service").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                for block in blocks(f"{path}:{getattr(node, 'lineno', 1)}", text):
                    assert block.text in known, f"{block.place}: nothing runs this block"


def test_every_address_is_in_the_reference(schema: Node) -> None:
    text = (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
    paths: dict[str, Node] = schema["paths"]
    addresses = [f"`{method.upper()} {path}`" for path, of in paths.items() for method in of]
    assert len(addresses) > 20
    assert [address for address in addresses if address not in text] == []
