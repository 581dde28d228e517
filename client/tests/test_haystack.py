"""As a pipeline of Haystack asks."""

import pytest
from haystack import Pipeline
from haystack.utils import Secret
from wye_client.haystack import WyeHaystackRetriever, wye_filter

OLD = {
    "operator": "AND",
    "conditions": [
        {"field": "meta.year", "operator": "<", "value": 1900},
        {"field": "meta.topic", "operator": "==", "value": "bridges"},
    ],
}


def test_in_a_pipeline_that_was_stored(url: str) -> None:
    pipeline = Pipeline()
    pipeline.add_component("wye", WyeHaystackRetriever(url, top_k=2, options={"route": "fusion"}))
    Pipeline.loads(pipeline.dumps(), allowed_modules=["wye_client.haystack"])
    former = pipeline.dumps().replace("WyeHaystackRetriever", "WyeRetriever")
    again = Pipeline.loads(former, allowed_modules=["wye_client.haystack"])
    documents = again.run({"wye": {"query": "Who designed the Iron Bridge?"}})["wye"]["documents"]
    assert len(documents) == 2
    assert "Iron Bridge" in documents[0].content
    assert documents[0].meta["wye_route"] == "fusion"
    assert 1 >= documents[0].score >= documents[1].score >= 0


def test_filters_hold(url: str) -> None:
    documents = WyeHaystackRetriever(url).run("bridge", filters=OLD, top_k=50)["documents"]
    assert documents
    assert all(each.meta["year"] < 1900 for each in documents)
    assert all(each.meta["topic"] == "bridges" for each in documents)


def test_a_key_is_stored_by_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "wye_secret")
    retriever = WyeHaystackRetriever("http://127.0.0.1:1", Secret.from_env_var("MY_KEY"))
    assert "wye_secret" not in str(retriever.to_dict())
    assert WyeHaystackRetriever.from_dict(retriever.to_dict()).key == retriever.key


def test_a_filter_without_an_equal_is_refused() -> None:
    for operator in ("NOT", "contains", None):
        with pytest.raises(ValueError, match="Wye has no filter"):
            wye_filter({"field": "meta.a", "operator": operator, "value": 1, "conditions": []})
