"""LightRAG's server as it is, with a language model that reads by rule.

The server needs an environment of its own; `LIGHTRAG` names its folder:

    python -m venv .venv-lightrag
    .venv-lightrag/bin/pip install 'lightrag-hku[api]==1.5.7'
"""

import base64
import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import numpy.typing as npt

from tests.live import PATIENCE, until

ROOT = Path(__file__).parents[3]
SERVER = Path(os.environ.get("LIGHTRAG", ROOT / ".venv-lightrag")) / "bin" / "lightrag-server"
KEY = "lightrag-secret"

Encode = Callable[[Sequence[str]], npt.NDArray[np.float32]]
"""(n, d) vectors of n texts."""

_PART, _END = "<|#|>", "<|COMPLETE|>"
_NAME = re.compile(r"[A-Z][\w'-]+(?: (?:of |the )*[A-Z][\w'-]+)*")


class Model(ThreadingHTTPServer):
    """Speaks OpenAI's protocol: chats that find names by their capitals, and embeddings."""

    daemon_threads = True

    def __init__(self, encode: Encode) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.encode = encode
        self.chats = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Answering(BaseHTTPRequestHandler):
    server: Model
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = self._vectors(body) if self.path.endswith("/embeddings") else self._said(body)
        content = json.dumps({"model": body["model"], **reply}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _vectors(self, body: Mapping[str, Any]) -> dict[str, Any]:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        is_base64 = body.get("encoding_format") == "base64"
        data = [
            {
                "object": "embedding",
                "index": place,
                "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode()
                if is_base64
                else vector.tolist(),
            }
            for place, vector in enumerate(self.server.encode(texts))
        ]
        return {"object": "list", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}

    def _said(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self.server.chats += 1
        message = {"role": "assistant", "content": completion(body["messages"][-1]["content"])}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return {
            "id": "chat",
            "object": "chat.completion",
            "created": 0,
            "choices": [choice],
            "usage": usage,
        }

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own word
        pass


def completion(prompt: str) -> str:
    """To LightRAG's prompts: names with their relations, keywords, or else what was asked."""
    if "User Query: " in prompt:
        query = prompt.rpartition("User Query: ")[2].partition("\n\n---Output---")[0]
        words = re.findall(r"\b[a-z]{4,}\b", query)
        return json.dumps({"high_level_keywords": words, "low_level_keywords": names(query)})
    if "---Input Text---" in prompt:
        text = prompt.rpartition("---Input Text---")[2].partition("---Output---")[0].strip("`\n ")
        entities = names(text)
        rows = [f"entity{_PART}{name}{_PART}Other{_PART}{name} is told of." for name in entities]
        rows += [
            f"relation{_PART}{one}{_PART}{other}{_PART}told together{_PART}{one} and {other}."
            for one, other in pairwise(entities)
        ]
        return "\n".join([*rows, _END])
    return prompt[-200:]


def names(text: str) -> list[str]:
    """Runs of capitalised words, each once; the first word of a sentence may be one."""
    return list(dict.fromkeys(_NAME.findall(text)))


@contextmanager
def lightrag(
    folder: Path, documents: Mapping[str, str], encode: Encode, port: int = 0
) -> Iterator[str]:
    """The address of a server that has read documents, by the names of their files."""
    port = port or _free_port()
    url = f"http://127.0.0.1:{port}"
    with Model(encode) as model:
        thread = threading.Thread(target=model.serve_forever, args=(0.01,))
        thread.start()
        log = folder / "server.log"
        try:
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [SERVER, "--host", "127.0.0.1", "--port", str(port)],
                    cwd=folder,
                    env=_environment(folder, model.url, encode(["a"]).shape[1]),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            try:
                until(lambda: _is_up(url, process, log))
                _insert(url, documents)
                yield url
            finally:
                process.terminate()
                process.wait(PATIENCE)
        finally:
            model.shutdown()
            thread.join()


def _environment(folder: Path, model: str, dimension: int) -> dict[str, str]:
    env = {
        "LLM_BINDING": "openai",
        "LLM_BINDING_HOST": model,
        "LLM_BINDING_API_KEY": "none",
        "LLM_MODEL": "by-rule",
        "EMBEDDING_BINDING": "openai",
        "EMBEDDING_BINDING_HOST": model,
        "EMBEDDING_BINDING_API_KEY": "none",
        "EMBEDDING_MODEL": "ours",
        "EMBEDDING_DIM": str(dimension),
        "LIGHTRAG_API_KEY": KEY,
        "MAX_GLEANING": "0",
        "WORKING_DIR": str(folder / "storage"),
        "INPUT_DIR": str(folder / "inputs"),
        "LOG_DIR": str(folder),
    }
    # Its tokenizer would be fetched; LlamaIndex brings the same files.
    spec = find_spec("llama_index.core") if find_spec("llama_index") else None
    if spec is not None and spec.origin:
        env["TIKTOKEN_CACHE_DIR"] = str(Path(spec.origin).parent / "_static" / "tiktoken_cache")
    return {**os.environ, **env}


def _is_up(url: str, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert process.poll() is None, log.read_text(errors="replace")[-2_000:]
    try:
        return httpx2.get(f"{url}/health", timeout=PATIENCE).is_success
    except httpx2.TransportError:
        return False


def _insert(url: str, documents: Mapping[str, str]) -> None:
    headers = {"X-API-Key": KEY}
    body = {"texts": [*documents.values()], "file_sources": [*documents]}
    with httpx2.Client(base_url=url, headers=headers, timeout=PATIENCE) as client:
        client.post("/documents/texts", json=body).raise_for_status()

        def counts() -> dict[str, int]:
            reply = client.get("/documents/status_counts").json()
            return {state.lower(): count for state, count in reply["status_counts"].items()}

        until(lambda: counts().get("processed", 0) + counts().get("failed", 0) >= len(documents))
        assert counts().get("failed", 0) == 0, counts()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
