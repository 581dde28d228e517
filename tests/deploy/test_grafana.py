"""The dashboard shows metrics that there are, by labels that they have."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from wye.service.http.metrics import Metrics

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "wye.json"
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
ADDED = {"le", "job"}
"""Labels that Prometheus adds, and those of buckets."""


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def labels() -> dict[str, set[str]]:
    """Of every series that a server shows, by its name."""
    registry: CollectorRegistry = Metrics()._registry
    found = {}
    for metric in {*registry._collector_to_names}:
        assert isinstance(metric, MetricWrapperBase)
        for suffix in SUFFIXES[str(metric._type)]:
            found[f"{metric._name}{suffix}"] = {*metric._labelnames}
    return found


def expressions(dashboard: dict[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def test_series_and_labels_exist(dashboard: dict[str, Any], labels: dict[str, set[str]]) -> None:
    shown = set()
    for expression in expressions(dashboard):
        names = re.findall(r"\bwye_\w+", expression)
        assert names, expression
        assert {*names} <= {*labels}, expression
        shown |= {*names}
        known = set().union(*(labels[name] for name in names)) | ADDED
        by = re.findall(r"(?:by|ignoring) \(([^)]*)\)", expression)
        used = {label.strip() for group in by for label in group.split(",")}
        used |= {*re.findall(r'(\w+)(?:=~|!~|!=|=)"', expression)}
        assert used <= known, expression
    assert len(shown) > 12


def test_all_that_is_counted_of_remote_arms_is_shown(
    dashboard: dict[str, Any], labels: dict[str, set[str]]
) -> None:
    shown = " ".join(expressions(dashboard))
    counted = {re.sub("_(bucket|sum|count)$", "", name) for name in labels if "wye_arm_" in name}
    assert len(counted) == 5
    assert not [name for name in counted if name not in shown]


def test_outcomes_of_remote_arms_are_told_in_their_metric(dashboard: dict[str, Any]) -> None:
    (said,) = (
        family.documentation
        for family in Metrics()._registry.collect()
        if family.name == "wye_arm_questions"
    )
    named = re.findall(r'outcome!?[=~]+"([^"]*)"', " ".join(expressions(dashboard)))
    assert named
    assert {word for one in named for word in one.split("|")} <= {*re.findall(r"\w+", said)}


def test_what_a_legend_names_is_kept_by_its_expression(dashboard: dict[str, Any]) -> None:
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert re.search(rf"by \([^)]*\b{label}\b", target["expr"]), target


def test_parentheses_are_closed(dashboard: dict[str, Any]) -> None:
    for expression in expressions(dashboard):
        for opening, closing in ("()", "{}", "[]"):
            assert expression.count(opening) == expression.count(closing), expression


def test_grafana_can_import_it(dashboard: dict[str, Any]) -> None:
    assert [one["name"] for one in dashboard["__inputs"]] == ["DS_PROMETHEUS"]
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["datasource"]["uid"] == "${DS_PROMETHEUS}" for panel in panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies on another"
        assert place["x"] + place["w"] <= 24
        taken |= cells
