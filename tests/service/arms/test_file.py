"""What the file may say, and how it is refused."""

from pathlib import Path

import pytest

from tests.fakes import Wye
from tests.service.arms.fakes import SECRET, arms_file, table
from wye.service.arms.arm import Kind
from wye.service.arms.file import read_arms
from wye.service.arms.kinds import KINDS
from wye.service.errors import ServiceError

URL = "http://127.0.0.1:1"


def test_arms_go_to_their_collections(tmp_path: Path) -> None:
    tables = table(URL, "more", role="list"), table(URL, "other", collection="wiki")
    path = arms_file(tmp_path, table(URL, "far"), *tables)
    arms_by_name = read_arms(path, ["docs", "wiki"], 5.0)
    names = {name: [arm.name for arm in arms] for name, arms in arms_by_name.items()}
    assert names == {"docs": ["far", "more"], "wiki": ["other"]}
    assert [arm.takes_graph for arm in arms_by_name["docs"]] == [True, False]
    assert read_arms(None, ["docs"], 5.0) == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[arms", "is not TOML"),
        ("[arm.far]", r"there is no 'arm'\. Write tables"),
        (table(URL, hedge_ms=50), r"\[arms.far\] hedge_ms: there is no such key. The keys are"),
        ("arms = 3", "arms: write a table"),
        ("[arms]\nfar = 3", "arms: write a table"),
        (table(URL, "Far"), r"\[arms.Far\].*cannot be called"),
        (table(URL, "dense"), "cannot be called 'dense'"),
        (table(URL, kind=None), r"\[arms.far\] kind: it is missing. Use one of http, p"),
        (table(URL, kind="htp"), "kind: 'htp' is not a kind. Did you mean http"),
        (table(URL, pirce=1), r"\[arms.far\] pirce: there is no such key.*price"),
        (table(URL, role=None), r"\[arms.far\] role: it is missing"),
        (table(URL, role="both"), r"\[arms.far\] role: "),
        (table(URL, price="2"), r"\[arms.far\] price: "),
        (table(URL, price=-1), r"\[arms.far\] price: "),
        (table(URL, timeout_ms=0), r"\[arms.far\] timeout_ms: "),
        (table("ftp://x"), r"\[arms.far\] url: begin it with http"),
        (table("http://u:p@x"), r"\[arms.far\] url: put no credentials"),
        (table("http://x:y"), r"\[arms.far\] url: "),
        (table(URL, hits="found"), r"\[arms.far\] hits: write a JSON pointer"),
        (table(URL, request={"q": "x"}), r'request: put "\{question\}" or "\{vector\}"'),
        (table(URL, metadata=None), "metadata: say where it is"),
        (table(URL, method="GET"), r"\[arms.far\] method: there is no such key"),
        (table(URL, collection="no"), "collection: there is no collection 'no'; use one of docs"),
        (table(URL) + table(URL, "two"), r"\[arms.two\] role: another arm replaces"),
        (table(URL, key_env="NOT_SET"), r"\[arms.far\] key_env names the variable NOT_SET"),
        (table(URL, kind="qdrant"), "kind: 'qdrant' is not a kind. Use one of http, python; docs"),
        (table(URL, request={"q": ["{vector}"], "where": "{filter}"}, metadata=None), "metadata: "),
    ],
)
def test_a_mistake_names_file_table_and_key(tmp_path: Path, text: str, says: str) -> None:
    path = arms_file(tmp_path, text)
    with pytest.raises(ServiceError, match=says) as refused:
        read_arms(path, ["docs"], 5.0)
    assert str(refused.value).startswith(str(path))


def test_a_mistake_repeats_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARM_KEY", f"{SECRET}\n")
    texts = table(f"http://u:{SECRET}@x"), table(URL, price=SECRET), table(URL, key_env="ARM_KEY")
    for text in texts:
        with pytest.raises(ServiceError) as refused:
            read_arms(arms_file(tmp_path, text), ["docs"], 5.0)
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize("named", [True, False], ids=["named", "in the working folder"])
def test_a_mistake_ends_the_command(
    folder: Path, wye: Wye, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    path = arms_file(tmp_path, table(URL, price=-1))
    monkeypatch.chdir(tmp_path)
    options = ("--arms", path) if named else ()
    code, _, err = wye("serve", "--index", folder, "--port", "0", *options)
    assert (code, "wye.toml: [arms.far] price: " in err) == (2, True)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=r"nope\.toml cannot be read"):
        read_arms(tmp_path / "nope.toml", ["docs"], 5.0)


def test_every_key_is_documented() -> None:
    for kind in KINDS.values():
        documented = f"{Kind.__doc__}{kind.__doc__}"
        missing = [key for key in kind.model_fields if f" {key}: " not in documented]
        assert missing == [], kind
