from inspect import getdoc
from pathlib import Path

import pytest

from wye.backends.dense import DenseSettings
from wye.backends.papers.settings import ZoomSettings
from wye.backends.trigraph.settings import TriGraphSettings
from wye.router.errors import ModelFileError, SettingsError
from wye.router.presets import PRESETS
from wye.router.settings import (
    DEFAULT_ROUTER,
    MODELS,
    RoutingSettings,
    Settings,
    attribute_docs,
    load_settings,
    markdown,
    variables,
)


def test_defaults_are_each_parts_own() -> None:
    settings = load_settings()
    assert (settings.dense, settings.graph) == (DenseSettings(), TriGraphSettings())
    assert (settings.router, settings.index) == (RoutingSettings(DEFAULT_ROUTER, ""), None)


def test_the_environment_reaches_every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYE_INDEX", "/somewhere")
    monkeypatch.setenv("WYE_GRAPH__DAMPING", "0.25")
    monkeypatch.setenv("WYE_GRAPH__ASSEMBLY__NOUN_PHRASES", "on")
    monkeypatch.setenv("WYE_ANALYSER__ENCODER__DTYPE", "float32")
    monkeypatch.setenv("WYE_FUSION__LISTS", "dense, lexical")
    monkeypatch.setenv("WYE_ROUTER__MODEL", "mine/v2")
    monkeypatch.setenv("WYE_ROUTER__THRESHOLDS", "reviewed.json")
    settings = load_settings()
    assert str(settings.index) == "/somewhere"
    assert (settings.graph.damping, settings.graph.assembly.noun_phrases) == (0.25, "on")
    assert settings.analyser.encoder.dtype == "float32"
    assert settings.fusion.lists == ("dense", "lexical")
    assert settings.router == RoutingSettings("mine/v2", "reviewed.json")


def test_what_is_set_goes_on_top_of_a_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYE_GRAPH__STEPS", "2")
    monkeypatch.setenv("WYE_DUPLICATES", "fold")
    monkeypatch.setenv("WYE_ROUTER__THRESHOLDS", "reviewed.json")
    settings = load_settings(preset="linearrag")
    assert (settings.graph.steps, settings.graph.damping) == (2, 0.85)
    assert settings.graph.seeds.nearest
    assert settings.duplicates == "fold"
    assert settings.router == RoutingSettings(thresholds="reviewed.json", route="graph")


def test_an_argument_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYE_PRESET", "linearrag")
    assert load_settings(preset="").graph == TriGraphSettings()
    assert load_settings(preset="zoom-rag").router.route == "zoom"
    assert load_settings(preset=None).graph.activation == "eq5"


def test_presets_are_the_published_systems() -> None:
    """The equations and numbers of the papers, as far as settings have them."""
    ea, linear, clue, zoom = (load_settings(preset=name) for name in PRESETS)
    assert ea.router == RoutingSettings("router-syntax-en/v1")
    assert (ea.fusion.method, ea.fusion.lists, ea.fusion.rrf_k) == ("rrf", ("dense", "graph"), 60)
    assert (ea.fusion.rank_weight("graph", 0.3), ea.fusion.rank_weight("dense", 0.3)) == (0.3, 0.7)
    walk = ea.graph  # restarts at entities alone: equation 6
    assert (walk.activation, walk.passage_weight, walk.title_weight) == ("facts", 0, 0)
    assert (walk.promotion, walk.candidates) == (0, 0)
    walk = linear.graph
    assert (walk.activation, walk.similarity_weight, walk.damping) == ("eq5", 0.05, 0.85)
    assert (linear.analyser.sentence_vectors, linear.ingest.entity_vectors) == ("plain", True)
    own = clue.clue
    assert (clue.router.route, own.nearest, own.rounds, own.sets) == ("clue", 3, 3, 5)
    assert (zoom.router.route, zoom.zoom) == ("zoom", ZoomSettings(deviations=3, neighbours=64))
    assert {one.duplicates for one in (ea, linear, clue, zoom)} == {"keep"}


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("WYE_DENSE__KINDD", "exact", "Did you mean WYE_DENSE__KIND"),
        ("WYE_DENSE", "{}", "no such setting"),
        ("WYE_QQQQQQQQ", "1", "docs/reference/settings.md lists them all"),
        ("WYE_DENSE__KIND", "flat", "WYE_DENSE__KIND is 'flat'"),
        ("WYE_FUSION__DEPTH", "many", "WYE_FUSION__DEPTH is 'many'"),
        ("WYE_FUSION__DEPTH", "0", "WYE_FUSION__DEPTH is '0'; use 1 or more"),
        ("WYE_FUSION__S", "2", "use 1 or less"),
        ("WYE_FUSION__METHOD", "borda", "use adaptive, convex or rrf"),
        ("WYE_GRAPH__SEEDS__NEAREST", "true", "there is no such setting"),
        ("WYE_GRAPH__DAMPING", "1", "WYE_GRAPH__DAMPING is '1'; use a number below 1"),
        ("WYE_GRAPH__STEPS", "0", "WYE_GRAPH__STEPS is '0'; use 1 or more"),
        ("WYE_FUSION__LISTS", "dense,fusion", "use some of dense, lexical, graph"),
        ("WYE_FUSION__LISTS", "dense,dense", "each once"),
        ("WYE_FUSION__LISTS", "", "is empty"),
        ("WYE_LEXICAL__B", "2", "WYE_LEXICAL__…: .*0 <= b <= 1"),
        ("WYE_PRESET", "x", "no preset 'x'; use one of ea-graphrag, linearrag, clue-rag, zoom-rag"),
        ("WYE_ROUTER__ROUTE", "both", "WYE_ROUTER__ROUTE: There is no route 'both'"),
        ("WYE_ANALYSER__ENCODER__DTYPE", "float16", "is 'float16'; use auto or float32"),
        ("WYE_ANALYSER__SENTENCE_VECTORS", "mean", "is 'mean'; use pooled, contextual or plain"),
        ("WYE_CLUE__SETS", "0", "WYE_CLUE__SETS is '0'; use 1 or more"),
        ("WYE_ZOOM__RESTART", "0", "WYE_ZOOM__RESTART is '0'; use a number above 0"),
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
        Settings().preset = "linearrag"


def test_every_variable_has_a_name_and_a_meaning() -> None:
    found = variables(Settings)
    defaults = {variable.name: variable.default for variable in found}
    assert len(defaults) == len(found)
    assert all(variable.doc for variable in found)
    assert {"WYE_GRAPH__DAMPING", "WYE_ANALYSER__ENCODER__MODEL"} <= {*defaults}
    assert defaults["WYE_FUSION__LISTS"] == "dense,graph"
    assert (defaults["WYE_ANALYSER__PROCESSES"], defaults["WYE_INDEX"]) == ("0", "")
    assert not {"WYE_FUSION__LEXICAL_SHARE", "WYE_GRAPH__SEEDS__NEAREST"} & {*defaults}


def test_docs_come_from_the_attributes_section() -> None:
    class Owner:
        """First line.

        Attributes:
            one: Says
                this.
            two_words: And that.
        """

    assert attribute_docs(getdoc(Owner)) == {"one": "Says this.", "two_words": "And that."}


def test_the_page_has_a_table_for_each_part() -> None:
    page = markdown(Settings)
    assert "| `WYE_FUSION__RRF_K` | `60.0` |" in page
    assert page.count("| variable | default | meaning |") > 5


def test_a_router_is_a_folder_or_one_of_the_repositorys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MODELS.is_dir()
    given = tmp_path / "models" / "mine" / "v2"
    given.mkdir(parents=True)
    assert RoutingSettings(str(given)).folder() == given
    with monkeypatch.context() as moved:
        moved.chdir(tmp_path)
        assert RoutingSettings("mine/v2").folder() == Path("models/mine/v2")
    monkeypatch.setattr("wye.router.settings.MODELS", tmp_path / "models")
    assert RoutingSettings("mine/v2").folder() == given
    with pytest.raises(ModelFileError, match=r"There is no router 'mine/v9'.*WYE_ROUTER__MODEL"):
        RoutingSettings("mine/v9").folder()


def test_faults_of_a_part_are_told_with_its_name() -> None:
    with pytest.raises(SettingsError, match="use 1 or more") as found:
        load_settings(ingest={"batch_passages": 0})
    assert "WYE_INGEST__BATCH_PASSAGES is 0" in str(found.value)
