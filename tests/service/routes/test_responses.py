"""With OpenAI's own client: responses with its file search, and files of vector stores."""

from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.responses import ResponseFileSearchToolCall, ResponseOutputMessage
from starlette.testclient import TestClient

from router.types import Route
from service.settings import GeneratorSettings
from tests.service.fakes import Endpoint, Library, Serve

QUESTION = "What river flows into the Adriatic?"


def official(client: TestClient) -> OpenAI:
    return OpenAI(base_url="http://localhost/v1", api_key="none", http_client=client, max_retries=0)


def search(**options: Any) -> Any:  # noqa: ANN401 - a tool
    return {"type": "file_search", "vector_store_ids": ["default"]} | options


def test_a_response_cites_what_it_found(client: TestClient, library: Library) -> None:
    reply = official(client).responses.create(
        model="wye-graph",
        input=QUESTION,
        tools=[search(max_num_results=2)],
        include=["file_search_call.results"],
    )
    call, message = reply.output
    assert isinstance(call, ResponseFileSearchToolCall)
    assert isinstance(message, ResponseOutputMessage)
    assert call.queries == [QUESTION]
    assert call.results is not None
    assert call.results[0].file_id == "neretva"
    assert len(call.results) == 2
    assert reply.output_text.startswith("It flows into the Adriatic. [1]")
    (part,) = message.content
    assert part.type == "output_text"
    marks = [part.text[each.index] for each in part.annotations if each.type == "file_citation"]
    assert marks
    assert set(marks) == {"["}
    assert part.annotations[0].file_id == "neretva"  # type: ignore[union-attr]
    assert (reply.status, reply.model) == ("completed", "wye-graph")
    assert library.batches[-1] == (Route.GRAPH, [QUESTION])
    assert (reply.model_extra or {})["wye"]["route"]["path"] == "graph"


def test_without_the_tool_the_models_collection_is_searched(serve: Serve) -> None:
    main, other = Library(), Library()
    client = official(serve(engines={"main": main, "other": other}))
    reply = client.responses.create(model="wye-dense:other", input=QUESTION)
    assert (len(main.batches), len(other.batches)) == (0, 1)
    assert reply.output[0].results is None  # type: ignore[union-attr]
    client.responses.create(
        model="wye-dense", input=QUESTION, tools=[search(vector_store_ids=["other"])]
    )
    assert (len(main.batches), len(other.batches)) == (0, 2)


def test_filters_and_thresholds_hold(client: TestClient) -> None:
    old = {"type": "eq", "key": "y", "value": 1566}
    reply = official(client).responses.create(
        model="wye-lexical",
        input="the river Neretva",
        tools=[search(filters=old)],
        include=["file_search_call.results"],
    )
    results = reply.output[0].results  # type: ignore[union-attr]
    assert [each.file_id for each in results] == ["mostar"]  # type: ignore[union-attr]
    reply = official(client).responses.create(
        model="wye-lexical",
        input="the river Neretva",
        tools=[search(ranking_options={"score_threshold": 1.0})],
        include=["file_search_call.results"],
    )
    assert reply.output[0].results == []  # type: ignore[union-attr]


def test_a_conversation_reaches_the_model(
    serve: Serve, library: Library, endpoint: Endpoint, with_model: GeneratorSettings
) -> None:
    client = official(serve(library, generator=with_model))
    reply = client.responses.create(
        model="wye-dense",
        instructions="Speak like a sailor.",
        input=[
            {"role": "user", "content": "Which bridge is in Mostar?"},
            {"role": "assistant", "content": "Stari Most [1]."},
            {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        ],
        temperature=0,
        max_output_tokens=50,
    )
    assert reply.output_text == "It crosses the Neretva [1] . "
    assert reply.usage is not None
    assert reply.usage.total_tokens == 10
    sent = endpoint.seen[0][0]
    assert [message["role"] for message in sent["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert sent["messages"][0]["content"].endswith("Speak like a sailor.")
    assert (sent["temperature"], sent["max_tokens"]) == (0, 50)
    assert library.batches[-1][1] == [QUESTION]


def test_a_stream_says_the_same_in_order(
    serve: Serve, library: Library, with_model: GeneratorSettings
) -> None:
    client = official(serve(library, generator=with_model))
    whole = client.responses.create(model="wye-graph", input=QUESTION, tools=[search()])
    events = list(
        client.responses.create(model="wye-graph", input=QUESTION, tools=[search()], stream=True)
    )
    assert [event.sequence_number for event in events] == [*range(len(events))]
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert kinds.index("response.file_search_call.completed") < kinds.index(
        "response.output_text.delta"
    )
    texts = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(texts) > 1
    assert "".join(texts) == whole.output_text
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == whole.output_text
    with client.responses.stream(model="wye-graph", input=QUESTION) as stream:
        stream.until_done()
        assert stream.get_final_response().output_text == whole.output_text


def test_a_model_that_breaks_off_is_told(
    serve: Serve, library: Library, endpoint: Endpoint, with_model: GeneratorSettings
) -> None:
    client = official(serve(library, generator=with_model))
    endpoint.script = ["break"]
    with pytest.raises(openai.APIStatusError) as error:
        client.responses.create(model="wye-dense", input=QUESTION)
    assert error.value.status_code == 502
    endpoint.script = ["break"]
    events = list(client.responses.create(model="wye-dense", input=QUESTION, stream=True))
    assert events[-1].type == "response.failed"
    assert events[-1].response.error is not None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tools": [{"type": "web_search"}]}, "'web_search' is not offered"),
        ({"tools": [search(), search()]}, "one collection"),
        ({"tools": [search(vector_store_ids=["default", "b"])]}, "one collection"),
        ({"previous_response_id": "resp_1"}, "replies are not stored here"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "No message of the role user"),
        ({"input": ""}, " body.input: String should have at least 1 character. See"),
        ({"input": 5}, " body.input: Input should be a valid string or a valid list. See"),
        (
            {"input": [{"role": "user", "content": 5}]},
            " body.input[0].content: Input should be a valid string or a valid list. See",
        ),
        ({"input": "\u200b\u2060"}, "No message of the role user"),
        ({"tools": [search(filters={"type": "near"})]}, "filter"),
    ],
)
def test_what_is_not_offered_is_refused(
    client: TestClient, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match=r"(?s).*") as error:
        official(client).responses.create(**{"model": "wye-auto", "input": QUESTION, **options})
    assert said.lower() in str(error.value).lower()


def test_what_there_is_not(client: TestClient) -> None:
    own = official(client)
    with pytest.raises(openai.NotFoundError, match="no model 'gpt-5'"):
        own.responses.create(model="gpt-5", input=QUESTION)
    with pytest.raises(openai.NotFoundError, match="no collection 'nope'"):
        own.responses.create(
            model="wye-auto", input=QUESTION, tools=[search(vector_store_ids=["nope"])]
        )
    for asked in (
        lambda: own.responses.retrieve("resp_1"),
        own.batches.list,
        lambda: own.embeddings.create(model="x", input="x"),
    ):
        with pytest.raises(openai.NotFoundError, match="nothing at this address"):
            asked()


def test_documents_are_files(start: Any) -> None:  # noqa: ANN401
    own = official(start())
    page = own.vector_stores.files.list("default", limit=1)
    assert [one.id for one in page.data] == ["mostar"]
    assert [one.id for one in page] == ["mostar", "tower"], "page by page"
    one = own.vector_stores.files.retrieve("tower", vector_store_id="default")
    assert (one.status, one.attributes) == ("completed", {"y": 1894})
    (text,) = own.vector_stores.files.content("tower", vector_store_id="default")
    assert text.text == "Tower Bridge crosses the Thames in London."
    assert own.vector_stores.files.delete("tower", vector_store_id="default").deleted
    assert not own.vector_stores.files.delete("tower", vector_store_id="default").deleted
    with pytest.raises(openai.NotFoundError, match="no document 'tower'"):
        own.vector_stores.files.retrieve("tower", vector_store_id="default")
