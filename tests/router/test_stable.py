from router.model_files import stable_json


def test_json_is_sorted_and_rounded() -> None:
    text = stable_json({"b": 0.12345678, "a": [1, {"d": 2.0, "c": "é"}]})
    assert text == stable_json({"a": (1, {"c": "é", "d": 2.0}), "b": 0.12345681})
    assert '"é"' in text
    assert "0.123457" in text


def test_one_line() -> None:
    assert stable_json({"a": [1, 2]}, indent=None) == '{"a": [1, 2]}'
