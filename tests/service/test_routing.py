from pathlib import Path

import pytest

from router.model_files import save_policy
from router.policy import Policy
from router.settings import DEFAULT_ROUTER, RoutingSettings
from router.types import Thresholds
from service.collections import check, routings
from service.errors import ServiceError
from service.settings import ServeSettings, ServiceSettings

SHARED = RoutingSettings("mine/v1", "mine.json")


def settings(routers: tuple[str, ...] = (), thresholds: tuple[str, ...] = ()) -> ServiceSettings:
    return ServiceSettings(
        router=SHARED, serve=ServeSettings(routers=routers, thresholds=thresholds)
    )


def test_what_nobody_named_is_shared() -> None:
    assert routings(settings(), ["a", "b"]) == {"a": SHARED, "b": SHARED}


def test_each_collection_has_its_own() -> None:
    found = routings(
        settings(("a=other/v2", "c=/x=y"), ("a=a.json", "b=b.json")), ["a", "b", "c", "d"]
    )
    assert found == {
        "a": RoutingSettings("other/v2", "a.json"),
        "b": RoutingSettings("mine/v1", "b.json"),
        "c": RoutingSettings("/x=y"),  # thresholds of another router would say nothing here
        "d": SHARED,
    }


def test_a_value_alone_is_for_the_default() -> None:
    found = routings(settings(("other/v2",), ("a.json",)), ["default", "b"])
    assert found == {"default": RoutingSettings("other/v2", "a.json"), "b": SHARED}


@pytest.mark.parametrize(
    ("routers", "thresholds", "says"),
    [
        (("c=x",), (), r"--router is for 'c', but that is no collection.* one of a, b\."),
        ((), ("x.json",), "--thresholds is for 'default', but that is no collection"),
        (("a=x", "a=y"), (), "--router is there twice for collection 'a'"),
        ((), ("a=x", "a=x"), "--thresholds is there twice for collection 'a'"),
        (("a=",), (), "--router a= names nothing; write --router a=MODEL"),
    ],
)
def test_names_that_make_no_sense(
    routers: tuple[str, ...], thresholds: tuple[str, ...], says: str
) -> None:
    with pytest.raises(ServiceError, match=says):
        routings(settings(routers, thresholds), ["a", "b"])


def test_what_is_named_has_to_be_there(tmp_path: Path) -> None:
    file = tmp_path / "thresholds.json"
    save_policy(file, Policy(Thresholds(0.1, 0.2), router=DEFAULT_ROUTER), {})
    check("a", RoutingSettings())
    check("a", RoutingSettings(thresholds=str(file)))
    with pytest.raises(ServiceError, match=r"collection 'a': There is no router 'nobody/v1'"):
        check("a", RoutingSettings("nobody/v1"))
    with pytest.raises(ServiceError, match=r"collection 'a': .*missing.json' cannot be read"):
        check("a", RoutingSettings(thresholds=str(tmp_path / "missing.json")))
    save_policy(file, Policy(Thresholds(0.1, 0.2), router="another/v1"), {})
    with pytest.raises(ServiceError, match=f"'another/v1', but '{DEFAULT_ROUTER}' decides"):
        check("a", RoutingSettings(thresholds=str(file)))
