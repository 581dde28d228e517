"""As a pipeline of Haystack asks."""

import pytest
from haystack import Pipeline
from haystack.utils import Secret
from wye_client.haystack import WyeRetriever, wye_filter

OLD = {
    "operator": "AND",
    "conditions": [
        {"field": "meta.year", "operator": "<", "value": 1900},
        {"field": "meta.topic", "operator": "==", "value": "bridges"},
    ],
}


def test_in_a_pipeline_that_was_stored(url: str) -> None:
    pipeline = Pipeline()
    pipeline.add_component("wye", WyeRetriever(url, top_k=2, options={"route": "fusion"}))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["wye_client.haystack"])
    found = again.run({"wye": {"query": "Who designed the Iron Bridge?"}})["wye"]["documents"]
    assert len(found) == 2
    assert "Iron Bridge" in found[0].content
    assert found[0].meta["wye_route"] == "fusion"
    assert 1 >= found[0].score >= found[1].score >= 0


def test_filters_hold(url: str) -> None:
    found = WyeRetriever(url).run("bridge", filters=OLD, top_k=50)["documents"]
    assert found
    assert all(each.meta["year"] < 1900 for each in found)
    assert all(each.meta["topic"] == "bridges" for each in found)


async def test_it_can_be_awaited(url: str) -> None:
    found = await WyeRetriever(url, top_k=1).run_async("Who designed the Iron Bridge?")
    assert len(found["documents"]) == 1


def test_a_key_is_stored_by_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "wye_secret")
    made = WyeRetriever("http://127.0.0.1:1", Secret.from_env_var("MY_KEY"))
    assert "wye_secret" not in str(made.to_dict())
    assert WyeRetriever.from_dict(made.to_dict()).key == made.key


def test_a_filter_without_an_equal_is_refused() -> None:
    for operator in ("NOT", "contains", None):
        with pytest.raises(ValueError, match="Wye has no filter"):
            wye_filter({"field": "meta.a", "operator": operator, "value": 1, "conditions": []})
