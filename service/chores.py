"""Chores that a chat client has a model do beside a conversation: titles, tags, what to ask next.

Open WebUI sends each as a message of its own to the model that the conversation is with: it begins
with "### Task:", says what to write, and ends with the conversation in `<chat_history>`. To search
for that would find what the conversation is about over again, and a title with citations is none.
"""

from collections.abc import Sequence

from service.generator import Message

_BEGINS = "### Task:"
_HOLDS = "<chat_history>"


def is_chore(turns: Sequence[Message]) -> bool:
    """Whether the turns of a conversation are a chore and no question.

    A prompt by which a client puts passages of its own before a question has no `<chat_history>`,
    and stays a question.

    Args:
        turns: Of user and assistant, those with text; the last is the user's.
    """
    if len(turns) != 1:
        return False
    text = turns[0].content.lstrip()
    return text.startswith(_BEGINS) and _HOLDS in text
