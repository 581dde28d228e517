"""Serves a base model in GGUF over OpenAI's chat protocol, with a prompt of examples.

A model that was not trained to chat cannot answer messages. Here it completes a text: two questions
with their answers, then the last message, in the form of `wye eval --answers`. The program runs in
any interpreter with llama-cpp-python, and imports nothing of Wye:

    python benchmarks/base_model_server.py MODEL.gguf PORT

Answers are one line and greedy, so runs are repeatable.
"""

import importlib
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

EXAMPLES = """\
[1] The Lantern House. The Lantern House is a museum in Porvik. It was designed by Ida Morn.
[2] Ida Morn. Ida Morn (2 May 1871 - 1940) was an architect. She was born in Tallhaven.

Question: Where was the designer of the Lantern House born?
Answer: Tallhaven

[1] Grey Ferry. Grey Ferry is a song by The Sallows, released in 1984.
[2] The Sallows. The Sallows were a band from Osmere, founded by Piet Lund.

Question: Who founded the band that released Grey Ferry?
Answer: Piet Lund

"""
TOKENS = 24
CONTEXT = 4096


class Handler(BaseHTTPRequestHandler):
    """Answers requests one after another."""

    model: ClassVar[Any]

    def do_POST(self) -> None:
        """Answer a chat completion without streaming."""
        size = int(self.headers["content-length"])
        messages = json.loads(self.rfile.read(size))["messages"]
        tokens = self.model.tokenize(f"{messages[-1]['content']}\nAnswer:".encode(), add_bos=False)
        before = self.model.tokenize(EXAMPLES.encode())
        # A prompt that is too long loses the start of its passages, not the question.
        room = CONTEXT - len(before) - TOKENS
        said = self.model([*before, *tokens[-room:]], max_tokens=TOKENS, stop=["\n"], temperature=0)
        message = {"role": "assistant", "content": said["choices"][0]["text"].strip() or "unknown"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = json.dumps({"object": "chat.completion", "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(model: str, port: int) -> None:
    """Serve until interrupted."""
    llama_cpp = importlib.import_module("llama_cpp")  # of the interpreter that runs this
    Handler.model = llama_cpp.Llama(model, n_ctx=CONTEXT, verbose=False)
    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
