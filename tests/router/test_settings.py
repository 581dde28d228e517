import pytest

from backends.dense import DenseSettings
from backends.trigraph.retriever import PRESETS
from router.errors import SettingsError
from router.settings import Settings, load_settings


def test_defaults_are_each_parts_own() -> None:
    settings = load_settings()
    assert settings.dense == DenseSettings()
    assert settings.graph == PRESETS["default"]
    assert settings.index is None


def test_the_environment_reaches_every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYE_INDEX", "/somewhere")
    monkeypatch.setenv("WYE_GRAPH__DAMPING", "0.25")
    monkeypatch.setenv("WYE_GRAPH__SEEDS__VOCABULARY", "false")
    monkeypatch.setenv("WYE_ANALYSER__ENCODER__DTYPE", "float32")
    settings = load_settings()
    assert str(settings.index) == "/somewhere"
    assert settings.graph.damping == 0.25
    assert settings.graph.seeds.vocabulary is False
    assert settings.analyser.encoder.dtype == "float32"


def test_lists_are_written_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYE_FUSION__LISTS", "dense, lexical")
    monkeypatch.setenv("WYE_LEXICAL__STOPWORDS", "a,the")
    settings = load_settings()
    assert settings.fusion.lists == ("dense", "lexical")
    assert settings.lexical.stopwords == ("a", "the")


def test_a_preset_is_where_the_graph_starts_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYE_GRAPH__STEPS", "2")
    settings = load_settings(preset="published")
    assert settings.graph.steps == 2
    assert settings.graph.threshold == PRESETS["published"].threshold
    assert settings.graph.seeds == PRESETS["published"].seeds
    assert settings.analyser.sentence_vectors == "plain"
    assert settings.analyser.title_in_text
    assert settings.ingest.entity_vectors


def test_an_argument_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYE_PRESET", "published")
    assert load_settings(preset="default").graph == PRESETS["default"]
    assert load_settings(preset=None).graph == PRESETS["published"]


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("WYE_DENSE__KINDD", "exact", "did you mean WYE_DENSE__KIND"),
        ("WYE_DENSE", "{}", "no such setting"),
        ("WYE_QQQQQQQQ", "1", "SETTINGS.md lists them all"),
        ("WYE_DENSE__KIND", "flat", "WYE_DENSE__KIND is 'flat'"),
        ("WYE_FUSION__DEPTH", "many", "WYE_FUSION__DEPTH is 'many'"),
        ("WYE_FUSION__DEPTH", "0", "WYE_FUSION__DEPTH is 0; use 1 or more"),
        ("WYE_FUSION__S", "2", "from 0 to 1"),
        ("WYE_FUSION__METHOD", "borda", "take adaptive, convex, rrf"),
        ("WYE_FUSION__METHOD", "trust", "is trust, which was renamed; take adaptive"),
        ("WYE_FUSION__METHOD", "blend", "is blend, which was renamed; take convex"),
        ("WYE_FUSION__GRAPH_SCALE", "-1", "WYE_FUSION__GRAPH_SCALE is -1"),
        ("WYE_FUSION__GRAPH_WEIGHT__BIAS", "inf", "WYE_FUSION__GRAPH_WEIGHT__BIAS is inf"),
        (
            "WYE_FUSION__GRAPH_WEIGHT__GRAPH_MARGIN_5",
            "-0.1",
            "GRAPH_MARGIN_5 is -0.1; .* 0 or more",
        ),
        ("WYE_FUSION__LISTS", "dense,fusion", "name some of dense, lexical, graph"),
        ("WYE_FUSION__LISTS", "dense,dense", "each once"),
        ("WYE_FUSION__LISTS", "", "is empty"),
        ("WYE_LEXICAL__B", "2", "0 <= b <= 1"),
        ("WYE_INGEST__BATCH_PASSAGES", "0", "use 1 or more"),
        ("WYE_PRESET", "paper", "take default or published"),
    ],
)
def test_mistakes_name_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=says):
        load_settings()


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().preset = "published"
