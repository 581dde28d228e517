"""The chart, rendered by Helm itself and held against the schemas of Kubernetes.

`make test-chart` runs these in an environment with both; elsewhere they are skipped.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

helm = pytest.importorskip("helm_python", reason="`make test-chart` has it")
kubernetes = pytest.importorskip("kubernetes_validate", reason="`make test-chart` has it")
yaml = pytest.importorskip("yaml", reason="`make test-chart` has it")
CHART = Path(__file__).parents[2] / "deploy" / "helm" / "wye"
VERSION = "1.31"
FULL = {
    "image": {"repository": "registry.example.com/wye", "pullSecrets": [{"name": "registry"}]},
    "indexes": ["docs=/data/docs", "wiki=/data/wiki"],
    "env": {"WYE_SERVE__QUEUE": "512"},
    "envSecret": "wye-generator",
    "readers": {"replicas": 3},
    "storage": {"accessMode": "ReadWriteMany", "className": "nfs"},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "tlsSecret": "wye-tls",
        "annotations": {"nginx.ingress.kubernetes.io/proxy-body-size": "64m"},
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "wye", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
}

Node = dict[str, Any]


def rendered(values: Mapping[str, Any]) -> dict[tuple[str, str], Node]:
    """What is made of the chart, by kind and name."""
    with helm.Chart.load(str(CHART)) as chart:
        files = chart.render(values, name="demo", namespace="prod")
    texts = [text for name, text in files.items() if name.endswith(".yaml")]
    found = [one for text in texts for one in yaml.safe_load_all(text) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def pod(made: Mapping[tuple[str, str], Node], name: str) -> Node:
    found: Node = made["Deployment", name]["spec"]["template"]["spec"]
    return found


def mounts(container: Node) -> dict[str, bool]:
    return {one["mountPath"]: one.get("readOnly", False) for one in container["volumeMounts"]}


@pytest.mark.parametrize("values", [{}, FULL, {"storage": {"existingClaim": "mine"}}])
def test_all_of_it_is_what_kubernetes_takes(values: Mapping[str, Any]) -> None:
    for (kind, _), one in rendered(values).items():
        if kind != "ServiceMonitor":  # of Prometheus' operator
            kubernetes.validate(one, VERSION, strict=True)


def test_helm_has_nothing_to_say_against_it() -> None:
    found = helm.lint(str(CHART))
    assert found["errors"] == []
    assert [one["error"] for one in found["messages"]] == ["icon is recommended"]


def test_without_values_there_is_one_writer_with_its_disk() -> None:
    made = rendered({})
    kinds = ("Deployment", "PersistentVolumeClaim", "Service")
    assert {*made} == {(kind, "demo-wye") for kind in kinds}
    writer = made["Deployment", "demo-wye"]["spec"]
    assert (writer["replicas"], writer["strategy"]) == (1, {"type": "Recreate"})
    claim = made["PersistentVolumeClaim", "demo-wye"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    own = pod(made, "demo-wye")
    (index,), (server,) = own["initContainers"], own["containers"]
    assert index["command"][3:] == ["default=/data/index"]
    assert mounts(index) == {"/data": False, "/tmp": False}
    assert mounts(server) == {"/data": False, "/etc/wye": True, "/tmp": False}
    assert {one["name"]: one["value"] for one in server["env"]} == {
        "WYE_SERVE__INDEXES": "default=/data/index",
        "WYE_SERVE__KEYS_FILE": "/etc/wye/keys.txt",
    }
    probes = {name: server[name]["httpGet"]["path"] for name in server if name.endswith("Probe")}
    health = dict.fromkeys(("startupProbe", "livenessProbe"), "/health")
    assert probes == {**health, "readinessProbe": "/ready"}


@pytest.mark.parametrize("name", ["demo-wye", "demo-wye-readers"])
def test_pods_are_nobody_and_write_to_their_disk_alone(name: str) -> None:
    own = pod(rendered(FULL), name)
    assert own["securityContext"]["runAsNonRoot"] is True
    assert own["automountServiceAccountToken"] is False
    assert own["imagePullSecrets"] == [{"name": "registry"}]
    for container in [*own["containers"], *own.get("initContainers", [])]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["image"] == "registry.example.com/wye:0.2.0"
        assert container["resources"]["requests"]["memory"] == "1Gi"


def test_readers_scale_and_cannot_write() -> None:
    made = rendered(FULL)
    readers = made["Deployment", "demo-wye-readers"]["spec"]
    assert readers["replicas"] == 3
    own = pod(made, "demo-wye-readers")
    assert "initContainers" not in own
    assert mounts(own["containers"][0])["/data"] is True
    assert made["Deployment", "demo-wye"]["spec"]["replicas"] == 1
    for name in ("demo-wye", "demo-wye-readers"):
        chosen = made["Service", name]["spec"]["selector"]
        owned = made["Deployment", name]["spec"]
        assert chosen == owned["selector"]["matchLabels"]
        assert chosen.items() <= owned["template"]["metadata"]["labels"].items()


def test_values_reach_what_they_are_for() -> None:
    made = rendered(FULL)
    own = pod(made, "demo-wye")
    assert own["initContainers"][0]["command"][3:] == FULL["indexes"]
    (server,) = own["containers"]
    env = {one["name"]: one["value"] for one in server["env"]}
    assert env["WYE_SERVE__INDEXES"] == "docs=/data/docs,wiki=/data/wiki"
    assert env["WYE_SERVE__QUEUE"] == "512"
    assert server["envFrom"] == [{"secretRef": {"name": "wye-generator"}}]
    ingress = made["Ingress", "demo-wye"]["spec"]
    (path,) = ingress["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {"name": "demo-wye", "port": {"name": "http"}}
    monitor = made["ServiceMonitor", "demo-wye"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": "wye-metrics", "key": "key"}
    for service in ("demo-wye", "demo-wye-readers"):
        labels = made["Service", service]["metadata"]["labels"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    claim = rendered({"storage": {"existingClaim": "mine"}})
    assert ("PersistentVolumeClaim", "demo-wye") not in claim
    (data, *_) = pod(claim, "demo-wye")["volumes"]
    assert data["persistentVolumeClaim"] == {"claimName": "mine"}
