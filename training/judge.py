"""Success as a reader sees it: an endpoint answers from the context, and the answer is looked up.

The endpoint is any that speaks OpenAI's chat completions. Its answer succeeds when one of the
question's answers stands in it, word for word.
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
from training.data.replay import Replay, Replayed
from training.data.replaying import contains_any, words
from training.errors import JudgeError
from training.labels import CUTOFF

JUDGED = "judge"
"""Name of this --success."""
REPLIES = Path("answers", "replies.jsonl")
"""In a cache: what endpoints said."""
PROMPT = (
    "Answer the question from the passages alone, in a few words and without explanation. "
    'If they do not say, answer "unknown".'
)
LONGEST_BODY = 1_000_000
"""Bytes of a reply; whoever sends more is not listened to."""
Texts = Callable[[Replay, Sequence[str]], Mapping[str, str]]
"""Texts of passages of the index that a replay is of, by id."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Which endpoint reads, and how patiently it is asked.

    Attributes:
        url: Base of the API, such as http://localhost:8000/v1.
        key: Sent as a bearer token, if any.
        tries: Requests for one answer before giving up.
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
    """Answers questions from contexts; close it after use, or use it in a `with` block.

    Several threads may ask at once.

    Attributes:
        tokens: That the endpoint says it was paid for; it may not say.
        sent: Of these, those of requests.
        received: Those of replies.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        """Open a connection; nothing is sent yet."""
        self.tokens = self.sent = self.received = 0
        self._counting = Lock()
        self._settings = settings
        # The client would send what the environment says of an account at OpenAI to any endpoint.
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
        """Whose answers these are."""
        return f"{self._settings.url} {self._settings.model} {self._settings.tokens}"

    @property
    def model(self) -> str:
        """Its name at the endpoint."""
        return self._settings.model

    def __enter__(self) -> "JudgeClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def answer(self, question: str, context: Sequence[str]) -> str:
        """What the endpoint answers.

        Raises:
            JudgeError: It cannot be reached, refuses, or answers in another form.
        """
        passages = "\n\n".join(f"[{n}] {text}" for n, text in enumerate(context, start=1))
        return self.complete(PROMPT, f"{passages}\n\nQuestion: {question}")

    def complete(self, instructions: str, asked: str) -> str:
        """What the endpoint says to a message; what may pass by itself is tried again.

        Raises:
            JudgeError: It cannot be reached, refuses, takes too long, or answers in another form.
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
                f"{self._settings.url} answered {_short(text)!r}, which is no chat completion; "
                "check that it is the base of an OpenAI-compatible API."
            )
        usage = reply.get("usage")
        with self._counting:
            self.tokens += _count(usage, "total_tokens")
            self.sent += _count(usage, "prompt_tokens")
            self.received += _count(usage, "completion_tokens")
        return content

    def _body(self, instructions: str, asked: str) -> str:
        """The body of a completion, as far as it is neither too long nor too late."""
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
                    raise TimeoutError("its answer does not end")
        return body.decode(errors="replace")


def _count(usage: object, name: str) -> int:
    found = usage.get(name) if isinstance(usage, dict) else None
    return found if type(found) is int and 0 < found < 2**53 else 0


def _short(text: str) -> str:
    """The beginning of a reply, on one line."""
    return " ".join(text.split())[:80]


class KeptReplies:
    """Replies of an endpoint by what it was asked, in a file that grows by a line with each."""

    def __init__(self, client: JudgeClient, file: Path) -> None:
        """Read what is there; a line that a killed run left half is none."""
        self._client = client
        self._file = file
        self._known: dict[str, str] = {}
        if file.is_file():
            for line in file.read_text(encoding="utf-8").splitlines():
                if line.endswith("}"):
                    entry = json.loads(line)
                    self._known[entry["key"]] = entry["reply"]

    def ask(self, asked: Sequence[object], ask: Callable[[JudgeClient], str]) -> str:
        """The reply that is known, else the endpoint's, which is kept.

        Args:
            asked: All that the reply depends on beside the endpoint; JSON.

        Raises:
            JudgeError: It did not answer.
        """
        key = hashlib.sha256(json.dumps([self._client.identity, *asked]).encode()).hexdigest()
        if key not in self._known:
            reply = ask(self._client)
            self._known[key] = reply
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "reply": reply}) + "\n")
        return self._known[key]

    def answer(self, question: str, context: Sequence[str]) -> str:
        """The same of `JudgeClient.answer`."""
        asked = ["answer", question, list(context)]
        return self.ask(asked, lambda client: client.answer(question, context))


class LlmJudge:
    """Lets a judge read what arms found; answers are kept."""

    def __init__(
        self, replies: KeptReplies, texts: Texts, progress: Callable[[], Progress]
    ) -> None:
        """Nothing is asked yet."""
        self._replies = replies
        self._texts = texts
        self._progress = progress

    def succeeds(self, replays: Sequence[Replay], rankings: Sequence[Ranking]) -> Mask:
        """(n,) whether the answer from the first five passages of each ranking is right.

        Raises:
            JudgeError: A question has no answer to compare with, or the endpoint does not answer.
        """
        progress = self._progress()
        progress.start(len(rankings), "judging")
        found, start = [], 0
        try:
            for replay in replays:
                own = rankings[start : start + len(replay)]
                start += len(replay)
                ids = sorted({hit.id for ranking in own for hit in ranking.hits[:CUTOFF]})
                texts = self._texts(replay, ids)
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
        said = self._replies.answer(question, context)
        return contains_any(words(said), list(map(words, right)))
