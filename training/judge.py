"""Success as a reader sees it: an endpoint answers from the context, and the answer is looked up.

The endpoint is any that speaks OpenAI's chat completions. Its answer succeeds when one of the
question's answers stands in it, word for word.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import httpx2 as httpx

from training.answers import contains_any, words
from training.errors import JudgeError

PROMPT = (
    "Answer the question from the passages alone, in a few words and without explanation. "
    'If they do not say, answer "unknown".'
)


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
                f"The judge's url is '{self.url}' with {self.tries} tries; give an http(s) url "
                "and at least one try."
            )


class Judge:
    """Answers questions from contexts; close it after use, or use it in a `with` block."""

    def __init__(self, settings: JudgeSettings) -> None:
        """Open a connection; nothing is sent yet."""
        self._settings = settings
        headers = {"Authorization": f"Bearer {settings.key}"} if settings.key else {}
        self._client = httpx.Client(
            base_url=settings.url, headers=headers, timeout=settings.seconds
        )

    @property
    def identity(self) -> str:
        """Whose answers these are."""
        return f"{self._settings.url} {self._settings.model} {self._settings.tokens}"

    def __enter__(self) -> "Judge":
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
        body = {
            "model": self._settings.model,
            "temperature": 0,
            "max_tokens": self._settings.tokens,
            "messages": [
                {"role": "system", "content": PROMPT},
                {"role": "user", "content": f"{passages}\n\nQuestion: {question}"},
            ],
        }
        reply = self._post(body)
        try:
            content = reply.json()["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError):
            content = None
        if not isinstance(content, str):
            raise JudgeError(
                f"{self._settings.url} answered {_short(reply)!r}, which is no chat completion; "
                "check that it is the base of an OpenAI-compatible API."
            )
        return content

    def _post(self, body: dict[str, object]) -> httpx.Response:
        """One completion; what may pass by itself is tried again."""
        failure = ""
        for _ in range(self._settings.tries):
            try:
                reply = self._client.post("chat/completions", json=body)
            except httpx.TransportError as error:
                failure = str(error) or type(error).__name__
                continue
            if reply.is_success:
                return reply
            failure = f"status {reply.status_code}: {_short(reply)}"
            if reply.status_code < 500 and reply.status_code != httpx.codes.TOO_MANY_REQUESTS:
                break
        raise JudgeError(
            f"{self._settings.url} did not answer ({failure}); check the url, the model's name "
            "and the key."
        )


def _short(reply: httpx.Response) -> str:
    """The beginning of a reply, on one line."""
    return " ".join(reply.text.split())[:80]
