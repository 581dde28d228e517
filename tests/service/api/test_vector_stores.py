import openai
import pytest
from openai import OpenAI

from tests.service.fakes import Library, Serve
from wye.backends.types import Passage
from wye.router.types import Route


def test_a_search(ai: OpenAI, library: Library) -> None:
    page = ai.vector_stores.search(
        "default",
        query="What river is it?",
        max_num_results=2,
        ranking_options={"ranker": "wye-graph"},  # type: ignore[arg-type]
    )
    first = page.data[0]
    assert (first.file_id, first.filename, first.score) == ("neretva", "Neretva", 0.9)
    assert first.attributes == {"y": 1}
    assert first.content[0].text.startswith("The Neretva")
    assert len(page.data) == 2
    assert library.batches == [(Route.GRAPH, ["What river is it?"])]


def test_a_filter_and_a_threshold(ai: OpenAI) -> None:
    page = ai.vector_stores.search(
        "default",
        query="the river Neretva",
        filters={"type": "gt", "key": "y", "value": 1500},
        ranking_options={"score_threshold": 0.85},
    )
    assert [(result.file_id, result.score) for result in page.data] == [("mostar", 0.9)]


def test_several_queries_are_fused(ai: OpenAI) -> None:
    page = ai.vector_stores.search("default", query=["river", "London"])
    scores = {result.file_id: result.score for result in page.data}
    # The best relevance in any of the rankings, in the order of ranks.
    assert scores == pytest.approx({"neretva": 0.9, "tower": 0.9, "mostar": 0.81})
    assert [*scores] == ["neretva", "tower", "mostar"]


def test_lists_and_nothings_in_metadata(serve: Serve) -> None:
    odd = Passage("p", "", "A river.", {"tags": ["a", "b"], "none": None, "yes": True})
    client = serve(Library([odd]))
    body = client.post("/v1/vector_stores/default/search", json={"query": "river"}).json()
    (result,) = body["data"]
    assert result["attributes"] == {"tags": "a, b", "yes": True}
    assert result["filename"] == "p"


def test_collections_are_listed(ai: OpenAI) -> None:
    (store,) = ai.vector_stores.list().data
    assert (store.id, store.status, store.file_counts.completed) == ("default", "completed", 3)
    assert ai.vector_stores.retrieve("default").metadata == store.metadata
    with pytest.raises(openai.NotFoundError, match="There is no collection 'nope'"):
        ai.vector_stores.search("nope", query="x")


def test_mistakes(ai: OpenAI) -> None:
    for query in ("", [], [""], ["x"] * 9):
        with pytest.raises(openai.UnprocessableEntityError):
            ai.vector_stores.search("default", query=query)
    with pytest.raises(openai.UnprocessableEntityError, match=r"filter\.type"):
        ai.vector_stores.search("default", query="x", filters={"type": "like"})  # type: ignore[arg-type]
