"""Judged success: a language model answers from an arm's passages, and its answer is checked.

Any endpoint with OpenAI's chat completions will do. A reply is right if it contains one of the
question's answers, word for word.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import httpx2
import numpy as np
import openai

from backends.progress import Progress
from backends.types import Mask, Ranking
from training.data.json_lines import keep_line, kept_lines
from training.data.replay import Replay, Replayed
from training.data.replaying import contains_any, words
from training.errors import JudgeError
from training.labels import CUTOFF

JUDGED = "judge"
"""The value of --success."""
REPLIES = Path("answers", "replies.jsonl")
"""File of endpoints' replies, within a cache."""
PROMPT = (
    "Answer the question from the passages alone, in a few words and without explanation. "
    'If they do not say, answer "unknown".'
)
LONGEST_BODY = 1_000_000
"""Most bytes of a reply; a longer one is an error."""
Texts = Callable[[Replay, Sequence[str]], Mapping[str, str]]
"""Gives the texts, by id, of passages of a replay's index."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """An endpoint, and its limits.

    Attributes:
        url: Base of the API, such as http://localhost:8000/v1.
        key: Sent as a bearer token; "" for none.
        seconds: Longest wait for one request.
        tries: Most requests for one answer.
        tokens: Most tokens of a reply.
    """

    url: str
    model: str
    key: str = ""
    seconds: float = 60.0
    tries: int = 3
    tokens: int = 64

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")) or self.tries < 1:
            raise JudgeError(
                f"The model's url is '{self.url}' with {self.tries} tries; give an http(s) "
                "url and at least one try."
            )


class JudgeClient:
    """Client of an endpoint; close it after use, or use it in a `with` block.

    Several threads may use it at once.

    Attributes:
        tokens: Tokens used, as the endpoint reports them; 0 if it does not.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        """Create the client, without connecting."""
        self.tokens = 0
        self._counting = Lock()
        self._settings = settings
        # The client would send any endpoint the OpenAI account that the environment names.
        keyless = () if settings.key else ("authorization",)
        unsaid = ("OpenAI-Organization", "OpenAI-Project", *keyless)
        self._headers = dict.fromkeys(unsaid, openai.omit)
        self._client = openai.OpenAI(
            base_url=settings.url,
            api_key=settings.key or "none",
            timeout=settings.seconds,
            max_retries=settings.tries - 1,
            http_client=openai.DefaultHttpxClient(follow_redirects=False),
        )

    @property
    def identity(self) -> str:
        """Identifies what the replies depend on: address, model and longest reply."""
        return f"{self._settings.url} {self._settings.model} {self._settings.tokens}"

    def __enter__(self) -> "JudgeClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def answer(self, question: str, context: Sequence[str]) -> str:
        """Ask a question about passages.

        Raises:
            JudgeError: The endpoint cannot be reached, refuses, or replies in another form.
        """
        passages = "\n\n".join(f"[{n}] {text}" for n, text in enumerate(context, start=1))
        return self.complete(PROMPT, f"{passages}\n\nQuestion: {question}")

    def complete(self, instructions: str, asked: str) -> str:
        """The endpoint's reply to a message; passing failures are tried again.

        Raises:
            JudgeError: The endpoint cannot be reached, refuses, takes too long, or replies in
                another form.
        """
        try:
            text = self._body(instructions, asked)
        except openai.APIStatusError as error:
            failure = f"status {error.status_code}: {_short(error.response.text)}"
        except openai.APIConnectionError as error:
            failure = str(error.__cause__ or error) or type(error).__name__
        except (httpx2.HTTPError, TimeoutError) as error:
            failure = str(error) or type(error).__name__
        else:
            return self._content(text)
        raise JudgeError(
            f"{self._settings.url} did not answer ({failure}); check the url, the model's name "
            "and the key."
        )

    def _content(self, text: str) -> str:
        try:
            reply = json.loads(text)
            content = reply["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            content = None
        if not isinstance(content, str):
            raise JudgeError(
                f"{self._settings.url} answered {_short(text)!r}, which is not a chat completion; "
                "check that it is the base of an OpenAI-compatible API."
            )
        usage = reply.get("usage")
        with self._counting:
            self.tokens += _count(usage, "total_tokens")
        return content

    def _body(self, instructions: str, asked: str) -> str:
        """The body of a completion."""
        end, body = time.monotonic() + self._settings.seconds * self._settings.tries, bytearray()
        with self._client.chat.completions.with_streaming_response.create(
            model=self._settings.model,
            temperature=0,
            max_tokens=self._settings.tokens,
            messages=[
                {"role": "system", "content": instructions},
                {"role": "user", "content": asked},
            ],
            extra_headers=self._headers,
        ) as reply:
            for part in reply.iter_bytes():
                body += part
                if len(body) > LONGEST_BODY or time.monotonic() > end:
                    raise TimeoutError("its answer was cut off")
        return body.decode(errors="replace")


def _count(usage: object, name: str) -> int:
    found = usage.get(name) if isinstance(usage, dict) else None
    return found if type(found) is int and 0 < found < 2**53 else 0


def _short(text: str) -> str:
    """The beginning of a reply, on one line."""
    return " ".join(text.split())[:80]


class KeptReplies:
    """An endpoint's replies by request, in a file to which each adds a line."""

    def __init__(self, client: JudgeClient, file: Path) -> None:
        """Read the file; lines that cannot be read are skipped."""
        self._client = client
        self._file = file
        self._known: dict[str, str] = {row["key"]: row["reply"] for row in kept_lines(file)}

    def ask(self, asked: Sequence[object], ask: Callable[[JudgeClient], str]) -> str:
        """The kept reply, or else the endpoint's, which is then kept.

        Args:
            asked: All that the reply depends on beside the endpoint, as JSON values.

        Raises:
            JudgeError: The endpoint did not answer.
        """
        key = hashlib.sha256(json.dumps([self._client.identity, *asked]).encode()).hexdigest()
        if key not in self._known:
            self._known[key] = ask(self._client)
            keep_line(self._file, {"key": key, "reply": self._known[key]})
        return self._known[key]

    def answer(self, question: str, context: Sequence[str]) -> str:
        """`JudgeClient.answer`, with kept replies."""
        asked = ["answer", question, list(context)]
        return self.ask(asked, lambda client: client.answer(question, context))


@dataclass(frozen=True, slots=True)
class LlmJudge:
    """Judges success on questions by a language model's answers."""

    replies: KeptReplies
    texts: Texts
    progress: Callable[[], Progress]

    def succeeds(self, replays: Sequence[Replay], rankings: Sequence[Ranking]) -> Mask:
        """(n,) whether the answer from the first five passages of each ranking is right.

        Raises:
            JudgeError: A question has no right answer, or the endpoint does not answer.
        """
        progress = self.progress()
        progress.start(len(rankings), "judging")
        found, start = [], 0
        try:
            for replay in replays:
                own = rankings[start : start + len(replay)]
                start += len(replay)
                ids = sorted({hit.id for ranking in own for hit in ranking.hits[:CUTOFF]})
                texts = self.texts(replay, ids)
                for one, ranking in zip(replay.questions, own, strict=True):
                    found.append(self._right(one, [texts[h.id] for h in ranking.hits[:CUTOFF]]))
                    progress.advance(1)
        finally:
            progress.close()
        return np.array(found, dtype=bool)

    def _right(self, one: Replayed, context: Sequence[str]) -> bool:
        question, right = one.question.text, one.question.answers
        if not right:
            raise JudgeError(
                f"Question {question!r} has no answer in its metadata; a judged success needs one."
            )
        said = self.replies.answer(question, context)
        return contains_any(words(said), list(map(words, right)))
