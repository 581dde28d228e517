"""A client of endpoints with OpenAI's chat completions, which answer, judge and write questions."""

import hashlib
import json
from pathlib import Path

import openai

from wye.training.data import keep_line, readable_lines
from wye.training.errors import JudgeError

REPLIES = Path("answers", "replies.jsonl")
"""File of endpoints' replies, within a cache."""


class JudgeClient:
    """Client of an endpoint, to be used in a `with` block.

    Attributes:
        tokens: Tokens used, as the endpoint reports them; 0 if it does not.
    """

    def __init__(
        self,
        url: str,
        model: str,
        key: str = "",
        *,
        longest: int = 64,
        seconds: float = 60.0,
        tries: int = 3,
        file: Path | None = None,
    ) -> None:
        """Create the client, without connecting.

        Args:
            url: Base of the API, such as http://localhost:8000/v1.
            key: Sent as a bearer token; "" for none.
            longest: Most tokens of a reply.
            seconds: Longest wait for the endpoint.
            tries: Most requests for one reply.
            file: JSON lines of replies that are not asked for again; each new one adds a line, and
                lines that cannot be read are skipped. None to keep none.

        Raises:
            JudgeError: The url is none.
        """
        if not url.startswith(("http://", "https://")):
            raise JudgeError(f"The model's url is '{url}'; give an http(s) url.")
        self._url, self._model, self._longest, self._file = url, model, longest, file
        self._replies: dict[str, str] = {}
        if file is not None:
            self._replies = {row["key"]: row["reply"] for row in readable_lines(file)}
        self.tokens = 0
        # The client would send any endpoint the OpenAI account that the environment names.
        unsaid = ("OpenAI-Organization", "OpenAI-Project", *(() if key else ("authorization",)))
        self._headers = dict.fromkeys(unsaid, openai.omit)
        self._client = openai.OpenAI(
            base_url=url,
            api_key=key or "none",
            timeout=seconds,
            max_retries=tries - 1,
            http_client=openai.DefaultHttpxClient(follow_redirects=False),
        )

    def __enter__(self) -> "JudgeClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def complete(self, instructions: str, message: str) -> str:
        """The kept reply to a message, or else the endpoint's; passing failures are tried again.

        Raises:
            JudgeError: The endpoint cannot be reached, refuses, or replies in another form.
        """
        inputs = [self._url, self._model, self._longest, instructions, message]
        key = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()
        if key not in self._replies:
            reply = self._ask(instructions, message)
            if self._file is None:
                return reply
            keep_line(self._file, {"key": key, "reply": reply})
            self._replies[key] = reply
        return self._replies[key]

    def _ask(self, instructions: str, message: str) -> str:
        text = ""
        try:
            text = self._client.chat.completions.with_raw_response.create(
                model=self._model,
                temperature=0,
                max_tokens=self._longest,
                messages=[
                    {"role": "system", "content": instructions},
                    {"role": "user", "content": message},
                ],
                extra_headers=self._headers,
            ).text
            # The client's own types would require more of an endpoint than is used.
            reply = json.loads(text)
            content = reply["choices"][0]["message"]["content"]
            if not isinstance(content, str):
                raise TypeError
            self.tokens += (reply.get("usage") or {}).get("total_tokens", 0)
        except openai.APIStatusError as error:
            failure = f"did not answer (status {error.status_code}: {_short(error.response.text)})"
        except openai.APIConnectionError as error:
            failure = f"did not answer ({str(error.__cause__ or error) or type(error).__name__})"
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            failure = f"answered {_short(text)!r}, which is not a chat completion"
        else:
            return content
        raise JudgeError(f"{self._url} {failure}; check the url, the model's name and the key.")


def _short(text: str) -> str:
    """The beginning of a reply, on one line."""
    return " ".join(text.split())[:80]
