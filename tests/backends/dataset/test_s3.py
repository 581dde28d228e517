"""An index in S3, for which moto stands: whoever may read it answers, and what fails is said.

`make test-ray` runs this; elsewhere it needs `pip install 'moto[server]'`.
"""

import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

import httpx2 as httpx
import pytest

from tests.live import LocalServer, inside, until
from wye.backends.errors import IndexNotFoundError
from wye.backends.store.index import PassageStore
from wye.backends.types import Passage
from wye.router.session import Session
from wye.router.settings import load_settings
from wye.service.app import build
from wye.service.settings import ServeSettings, ServiceSettings

moto = pytest.importorskip("moto.server")
boto3 = pytest.importorskip("boto3")
pytestmark = pytest.mark.usefixtures("fake_models")
TEXTS = "The Iron Bridge spans the Severn.", "The Severn is the longest river of Britain."


class Store:
    """An object store, with keys of somebody who may write and of somebody who may only read."""

    def __init__(self) -> None:
        self.server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self.server.start()
        self.host, self.port = self.server.get_host_and_port()
        self.url = f"http://{self.host}:{self.port}"
        self.writer, self.reader = self._user("s3:*"), self._user("s3:GetObject", "s3:ListBucket")
        httpx.post(f"{self.url}/moto-api/reset-auth", content=b"0")  # rights count from now on
        self.client("s3", self.writer).create_bucket(Bucket="corpora")

    def client(self, service: str, keys: tuple[str, str]) -> Any:  # noqa: ANN401 - boto3 has no types
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=keys[0],
            aws_secret_access_key=keys[1],
        )

    def _user(self, *actions: str) -> tuple[str, str]:
        iam, name = self.client("iam", ("root", "root")), f"user-{len(actions)}"
        iam.create_user(UserName=name)
        statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.put_user_policy(UserName=name, PolicyName=name, PolicyDocument=policy)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return key["AccessKeyId"], key["SecretAccessKey"]

    def publish(self, folder: Path) -> None:
        client = self.client("s3", self.writer)
        files = [path for path in folder.rglob("*") if path.is_file()]
        for path in sorted(files, key=lambda path: "_versions" in path.parts):
            client.upload_file(str(path), "corpora", f"bridges/{path.relative_to(folder)}")


@pytest.fixture(scope="module")
def running() -> Iterator[Store]:
    """A store, for all tests; moto has one for each process anyway."""
    store = Store()
    yield store
    store.server.stop()


@pytest.fixture
def store(running: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store; its reader's keys are in the environment."""
    store = running
    environment: Mapping[str, str] = {
        "AWS_ENDPOINT_URL": store.url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": store.reader[0],
        "AWS_SECRET_ACCESS_KEY": store.reader[1],
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return store


def test_a_reading_server_answers_follows_and_comes_back(store: Store, tmp_path: Path) -> None:
    with Session.create(load_settings(), tmp_path / "index") as target:
        target.ingest([Passage(f"p{n}", "", text) for n, text in enumerate(TEXTS)])
        target.build_indices()
        store.publish(tmp_path / "index")
        address = Path("s3://corpora/bridges")
        settings = ServiceSettings(index=address, serve=ServeSettings(refresh_seconds=0.2))
        with inside(build(settings)) as client:

            def ask(**options: object) -> httpx.Response:
                body = {"question": "Severn Tern", "route": "fusion", **options}
                return client.post("/v1/retrieve", json=body)

            def hits(**options: object) -> set[str]:
                return {hit["id"] for hit in ask(**options).json()["passages"]}

            assert hits() == {"p0", "p1"}
            assert client.put("/v1/documents/new", json={"text": "No."}).status_code == 409
            target.ingest([Passage("p2", "", "The Tern flows into the Severn.")])
            store.publish(tmp_path / "index")
            version = PassageStore.open(tmp_path / "index").version
            assert hits(min_version=version) == {"p0", "p1", "p2"}
            store.server.stop()
            until(lambda: ask().status_code == 503)
            lost = ask()
            assert int(lost.headers["retry-after"]) > 0
            assert "the store does not answer" in lost.json()["detail"]
            store.server = moto.ThreadedMotoServer("127.0.0.1", store.port, verbose=False)
            store.server.start()
            until(lambda: ask().status_code == 200)


def test_what_is_wrong_is_one_sentence(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def says(address: str = "s3://corpora/none", **environment: str) -> str:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            start = monotonic()
            with pytest.raises(IndexNotFoundError) as error:
                Session.open(load_settings(), Path(address))
            assert monotonic() - start < 60
        assert not re.search(r"\.rs:|http://", str(error.value))
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "nothing at this address" in says()
    assert "no such bucket" in says("s3://nowhere/none")
    assert "refuses these credentials" in says(AWS_ACCESS_KEY_ID="AKIAWRONG")
    assert "refuses these credentials" in says(AWS_SECRET_ACCESS_KEY="wrong")
    with closing(LocalServer(lambda request, _: request.send_error(500))) as failing:
        assert "the store fails" in says(AWS_ENDPOINT_URL=failing.url)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and never replies
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert "does not answer" in says(AWS_ENDPOINT_URL=url)
    assert "does not answer" in says(AWS_ENDPOINT_URL=url)
