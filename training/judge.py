"""A client of endpoints with OpenAI's chat completions, which answer, judge and write questions."""

import json
from pathlib import Path

import openai
from joblib import Memory

from wye.training.errors import JudgeError


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
        cache: Path | None = None,
    ) -> None:
        """Create the client, without connecting.

        Args:
            url: Base of the API, such as http://localhost:8000/v1.
            key: Sent as a bearer token; "" for none.
            longest: Most tokens of a reply.
            seconds: Longest wait for the endpoint.
            tries: Most requests for one reply.
            cache: Folder of replies that are not asked for again; None to keep none.

        Raises:
            JudgeError: The url is none.
        """
        if not url.startswith(("http://", "https://")):
            raise JudgeError(f"The model's url is '{url}'; give an http(s) url.")
        self._asked = url, model, longest
        self._reply = Memory(cache, verbose=0).cache(_reply, ignore=["client"])
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
        reply: str = self._reply(*self._asked, instructions, message, self)
        return reply

    def ask(self, instructions: str, message: str) -> str:
        """The endpoint's reply; errors are those of `complete`."""
        url, model, longest = self._asked
        text = ""
        try:
            text = self._client.chat.completions.with_raw_response.create(
                model=model,
                temperature=0,
                max_tokens=longest,
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
        raise JudgeError(f"{url} {failure}; check the url, the model's name and the key.")


def _reply(
    _url: str, _model: str, _longest: int, instructions: str, message: str, client: JudgeClient
) -> str:
    """An endpoint's reply, whose key in the cache is all but the client."""
    return client.ask(instructions, message)


def _short(text: str) -> str:
    """The beginning of a reply, on one line."""
    return " ".join(text.split())[:80]
