"""Has a language model write judged questions for a corpus that has none.

The model sees one passage, or two that share a name, and writes a question that they answer; so the
relevant passages are known. The questions are kept in a folder in BEIR's layout, for a person to
check and for `wye train`. The same passages are not asked about twice: `asked.jsonl` keeps every
reply and why it was rejected, and a line that was deleted from `queries.jsonl` is not written
again.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import openai

from wye.backends.files import write_atomically
from wye.backends.types import Progress
from wye.router.snapshot import Snapshot
from wye.training.data import contains_any, json_line, keep_line, read_objects, words
from wye.training.errors import DatasetError, EndpointError, TrainingError

REPLIES, QUERIES, CORPUS = "asked.jsonl", "queries.jsonl", "corpus.jsonl"
SINGLE, BRIDGE = "single", "bridge"
ANSWER_TOKENS = 200
PASSAGE_CHARACTERS = 4_000  # how much of a passage the model sees
FEWEST_WORDS = 12  # passages with fewer words are skipped
LONGEST = 300  # most characters of a question, and of an answer
LOGGED = 1_000  # how many characters of a reply are kept
WIDEST = 10  # a name joins two passages only if at most this many have it
PATIENCE = 20  # writing stops after this many useless replies in a row
DEV_EVERY = 3  # every third question goes to dev, the others to train

_FORM = (
    'Reply with JSON alone: {"question": "…", "answer": "…"}. The question is one sentence of at '
    "most 30 words that ends with a question mark, as somebody would ask it who has never seen "
    "the text: it does not speak of a text or a passage, and it does not contain the answer. The "
    "answer is a few words, copied from the passage."
)
PROMPTS = {
    SINGLE: "Write a question that the passage answers and that says which thing it is about. "
    + _FORM,
    BRIDGE: "Both passages speak of {name}. Write a question that only both passages together "
    "answer. Never write {name}: describe it by what the first passage says of it, and ask for "
    "something that the second passage says of it. " + _FORM,
}


@dataclass(frozen=True, slots=True)
class Chain:
    """The passages, one or two, that a question is written from; the last has the answer.

    `name` is what two passages share, as they spell it.
    """

    passages: tuple[str, ...]
    name: str = ""

    @property
    def kind(self) -> str:
        """The kind of question."""
        return BRIDGE if self.name else SINGLE

    @property
    def id(self) -> str:
        """The question's id, a digest of the passages' ids."""
        return f"{self.kind}-{_digest(*self.passages)}"


def candidates(snapshot: Snapshot) -> Iterator[Chain]:
    """Yield single passages and pairs in turn, each once, in the order of a digest.

    A pair shares a name of the graph that few passages have. Pairs come first in which the name
    is the title of the second passage.
    """
    singles = (Chain((id_,)) for id_ in sorted(snapshot.ids, key=_order))
    for pair in zip_longest(singles, _bridges(snapshot)):
        yield from (chain for chain in pair if chain is not None)


def _bridges(snapshot: Snapshot) -> Iterator[Chain]:
    arm, corpus = snapshot.graph, snapshot.corpus
    graph, filtered = arm.graph, arm.batch(()).filtered
    titles = filtered.titles(np.arange(len(graph)))[1]
    is_narrow = (graph.degrees >= 2) & (graph.degrees <= WIDEST) & ~graph.is_phrase
    narrow = is_narrow.nonzero()[0].tolist()
    for entity in sorted(narrow, key=lambda row: (not titles[row], _order(graph.keys[row]))):
        one = np.array([entity])
        rows = sorted(filtered.mentions(one)[0].tolist(), key=lambda r: _order(corpus.ids[r]))
        last = next(iter(filtered.titles(one)[0].tolist()), rows[0])
        first = [row for row in rows if corpus.documents[row] != corpus.documents[last]]
        if first:
            yield Chain((corpus.ids[first[0]], corpus.ids[last]), graph.display_names.of(entity))


def fault_of(question: str, answer: str, name: str, passage: str) -> str:
    """Why a question is rejected, in words; "" if it is not.

    It must not contain `name`, unless that is "", and `passage` has to contain the answer.
    """
    question_words, answer_words = words(question), words(answer)
    faults = {
        "no question, or no answer": not question_words.strip() or not answer_words.strip(),
        f"over {LONGEST} characters": max(len(question), len(answer)) > LONGEST,
        "not a question": not question.endswith("?") or "\n" in question,
        "speaks of the passage": contains_any(question_words, [" passage ", " passages "]),
        "names its answer": contains_any(question_words, [answer_words]),
        "names what joins its passages": contains_any(question_words, [words(name)]),
        "the passage lacks its answer": not contains_any(words(passage), [answer_words]),
    }
    return next((why for why, holds in faults.items() if holds), "")


class ChatClient:
    """Client of an endpoint with OpenAI's chat completions, to be used in a `with` block.

    Attributes:
        tokens: Tokens used, as the endpoint reports them; 0 if it does not.
    """

    def __init__(
        self, url: str, model: str, key: str = "", *, seconds: float = 60.0, tries: int = 3
    ) -> None:
        """Create the client, without connecting; an `EndpointError` if the url is none.

        `key` is sent as a bearer token. Each reply is asked for at most `tries` times.
        """
        if not url.startswith(("http://", "https://")):
            raise EndpointError(f"The model's url is '{url}'; give an http(s) url.")
        self._url, self._model, self.tokens = url, model, 0
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

    def __enter__(self) -> "ChatClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def complete(self, instructions: str, message: str) -> str:
        """The reply to a message; an `EndpointError` if it fails again or has another form."""
        text = ""
        try:
            text = self._client.chat.completions.with_raw_response.create(
                model=self._model,
                temperature=0,
                max_tokens=ANSWER_TOKENS,
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
        raise EndpointError(f"{self._url} {failure}; check the url, the model's name and the key.")


def _short(text: str) -> str:
    return " ".join(text.split())[:80]


class QuestionWriter:
    """Has a model write questions, and keeps them in a folder."""

    def __init__(self, folder: Path, snapshot: Snapshot, model: ChatClient) -> None:
        """Read what earlier runs left; a `DatasetError` if anything else is there."""
        self._folder, self._snapshot, self._model = folder, snapshot, model
        self.replies = _lines(folder / REPLIES)
        self.questions = _lines(folder / QUERIES)
        for line in self.questions:
            metadata = line.get("metadata")
            if not isinstance(metadata, dict) or not {"passages", "split"} <= metadata.keys():
                raise DatasetError(
                    f"Question '{line.get('_id')}' of '{folder}' was not written here; name a "
                    "folder of its own for written questions. --questions may be repeated."
                )

    def __str__(self) -> str:
        tokens = sum(line["tokens"] for line in self.replies)
        return (
            f"'{self._folder}' has {len(self.questions)} questions of {len(self.replies)} replies, "
            f"which took {f'{tokens:,}' if tokens else 'an unknown number of'} tokens. Look at "
            f"{self._folder / QUERIES}, delete bad ones, and run this again; then train."
        )

    def write(self, count: int, progress: Progress) -> None:
        """Write questions until the folder has `count`; each is saved at once.

        An `EndpointError` if the endpoint does not answer, a `TrainingError` if no passages are
        left or too many replies in a row were useless.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        progress.start(count, "writing questions")
        progress.advance(len(self.questions))
        try:
            self._write(count, progress)
        finally:
            progress.close()
            self._judge()
        if len(self.questions) < count:
            raise TrainingError(
                f"No passages are left to ask about: '{self._folder}' has {len(self.questions)} "
                f"questions, and {count} were wanted. Ask for fewer, or index more."
            )

    def _write(self, count: int, progress: Progress) -> None:
        done = {line["id"] for line in self.replies} | {line["_id"] for line in self.questions}
        earlier = {words(line["text"]) for line in self.questions}
        useless = 0
        for chain in candidates(self._snapshot):
            if len(self.questions) >= count:
                return
            texts = [
                f"{title}\n{text}".strip() for title, text in self._snapshot.texts(chain.passages)
            ]
            if chain.id in done or min(len(text.split()) for text in texts) < FEWEST_WORDS:
                continue
            before = self._model.tokens
            parts = [f"[{n}] {text[:PASSAGE_CHARACTERS]}" for n, text in enumerate(texts, start=1)]
            prompt = PROMPTS[chain.kind].replace("{name}", chain.name)
            reply = self._model.complete(prompt, "\n\n".join(parts))
            question, answer = parse(reply)
            fault = fault_of(question, answer, chain.name, texts[-1])
            if not fault and words(question) in earlier:
                fault = "a duplicate"
            if not fault:
                earlier.add(words(question))
                self._keep(chain, question, answer)
            line: dict[str, Any] = {"id": chain.id, "passages": chain.passages}
            line |= {"said": reply[:LOGGED], "fault": fault, "tokens": self._model.tokens - before}
            keep_line(self._folder / REPLIES, line)
            self.replies.append(line)
            progress.advance(not fault)
            useless = useless + 1 if fault else 0
            if useless == PATIENCE:
                raise TrainingError(
                    f"{PATIENCE} replies in a row were unusable, the last one because: {fault}. "
                    f"See {self._folder / REPLIES}, or use another model."
                )

    def _keep(self, chain: Chain, question: str, answer: str) -> None:
        split = "dev" if len(self.questions) % DEV_EVERY == DEV_EVERY - 1 else "train"
        metadata = {"answers": [answer], "type": chain.kind, "passages": chain.passages}
        line = {"_id": chain.id, "text": question, "metadata": {**metadata, "split": split}}
        keep_line(self._folder / QUERIES, line)
        self.questions.append(line)

    def _judge(self) -> None:
        """Rewrite the judgements and the passages of the questions that are there."""
        (self._folder / "qrels").mkdir(exist_ok=True)
        pairs = [(q, id_) for q in self.questions for id_ in q["metadata"]["passages"]]
        for split in ("train", "dev"):
            judged = (pair for pair in pairs if pair[0]["metadata"]["split"] == split)
            rows = [f"{question['_id']}\t{id_}\t1\n" for question, id_ in judged]
            with write_atomically(self._folder / "qrels" / f"{split}.tsv") as file:
                file.write(("query-id\tcorpus-id\tscore\n" + "".join(rows)).encode())
        with write_atomically(self._folder / CORPUS) as file:
            for passage in self._snapshot.corpus.passages(sorted({id_ for _, id_ in pairs})):
                row = {"_id": passage.id, "title": passage.title, "text": passage.text}
                file.write(json_line(row))


def parse(reply: str) -> tuple[str, str]:
    """Question and answer in a reply; both empty if it has another form."""
    try:
        fields = json.loads(reply[reply.index("{") : reply.rindex("}") + 1])
    except (ValueError, RecursionError):
        return "", ""
    pair = fields.get("question"), fields.get("answer")
    if not all(isinstance(text, str) for text in pair):
        return "", ""
    return pair[0].strip(), pair[1].strip()


def _lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON objects, one a line; half a line that a killed run left is removed."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    if lines[-1]:  # an editor left out the last line's end, or a killed run left half a line
        del lines[len(lines) - (not lines[-1].endswith("}")) :]
        with write_atomically(path) as file:
            file.writelines(f"{line}\n".encode() for line in lines)
    return [row for _, row in read_objects(path)]


def _order(key: str) -> str:
    return _digest("0", key)


def _digest(*texts: str) -> str:
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=8).hexdigest()
