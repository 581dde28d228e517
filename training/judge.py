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
        model: Name of the model there.
        key: Sent as a bearer token, if any.
        seconds: Longest wait for an answer.
        tries: Requests for one answer before giving up.
        tokens: Longest answer.
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

    def succeeds(self, question: str, context: Sequence[str], answers: Sequence[str]) -> bool:
        """Whether the endpoint's answer contains one of the right ones.

        Args:
            question: As asked.
            context: Texts of the passages it is to be answered from, best first.
            answers: Any of them is right.

        Raises:
            JudgeError: There are no answers to compare with, or the endpoint did not answer.
        """
        if not answers:
            raise JudgeError(
                f"Question {question!r} has no answer in its metadata; a judged success needs one."
            )
        return contains_any(words(self.answer(question, context)), list(map(words, answers)))

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


class LlmJudge:
    """Lets a judge read what arms found.

    Answers are kept, so a run that is killed, and the next run over the same questions, asks only
    what was not asked before.
    """

    def __init__(
        self, judge: JudgeClient, texts: Texts, kept: Path, progress: Callable[[], Progress]
    ) -> None:
        """Read the answers that are known already.

        Args:
            texts: Where passages are.
            kept: File of answers, made when it is missing.
            progress: Makes what long work is shown with.
        """
        self._judge = judge
        self._texts = texts
        self._kept = kept
        self._progress = progress
        self._known: dict[str, bool] = {}
        if kept.is_file():
            for line in kept.read_text(encoding="utf-8").splitlines():
                # A run that was killed may have left half a line.
                if line.endswith("}"):
                    entry = json.loads(line)
                    self._known[entry["key"]] = entry["right"]

    def succeeds(self, replays: Sequence[Replay], rankings: Sequence[Ranking]) -> Mask:
        """(n,) whether the answer from the first five passages of each ranking is right.

        Args:
            replays: Of n questions, one after the other.
            rankings: One for each question.

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
        question = one.question
        asked = [self._judge.identity, question.text, list(context), list(question.answers)]
        key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        if key not in self._known:
            right = self._judge.succeeds(question.text, context, question.answers)
            self._known[key] = right
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            with self._kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "right": right}) + "\n")
        return self._known[key]
