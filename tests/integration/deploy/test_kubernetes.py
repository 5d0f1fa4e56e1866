"""The manifests in deploy/kubernetes: by the schemas of Kubernetes, against image and program."""

import json
import posixpath
import re
import tomllib
from typing import Any

import kubernetes_validate
import pytest
import yaml

from mirage.config.settings import Settings
from mirage.shipped_files import load_client_module
from tests.support.mirage_process import run
from tests.support.paths import CHECKOUT

FOLDER = CHECKOUT / "deploy" / "kubernetes"
CONTAINER = CHECKOUT / "deploy" / "container"
CONTAINERFILE = (CONTAINER / "Containerfile").read_text()
MANIFESTS = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted(FOLDER.glob("*.yaml"))
    if path.name != "kustomization.yaml"
}
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
SETTINGS = tomllib.loads((FOLDER / "mirage.toml").read_text())
POD = MANIFESTS["deployment"]["spec"]["template"]["spec"]
SACKD, SCHEMA = POD["initContainers"]
(MIRAGE,) = POD["containers"]
OLDEST = "1.29"
"""The first release whose pods may have sidecars by default."""


def list_words(instruction: str) -> list[str]:
    """The words after an instruction that the Containerfile has once."""
    (text,) = re.findall(rf"(?m)^{instruction} (.+)$", CONTAINERFILE)
    words = json.loads(text) if text.startswith("[") else text.split()
    return [str(word) for word in words]


def find_places(container: dict[str, Any]) -> dict[str, str]:
    return {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_what_kubernetes_takes(name: str, version: str) -> None:
    kubernetes_validate.validate(MANIFESTS[name], version, strict=True)


@pytest.mark.parametrize("key", ["enableServiceLink", "securitycontext"])
def test_the_schemas_refuse_a_key_that_is_misspelt(key: str) -> None:
    wrong = json.loads(json.dumps(MANIFESTS["deployment"]))
    wrong["spec"]["template"]["spec"][key] = False
    with pytest.raises(kubernetes_validate.ValidationError, match=key):
        kubernetes_validate.validate(wrong, OLDEST, strict=True)


def test_kustomize_reads_every_file_and_names_every_image() -> None:
    assert KUSTOMIZATION["resources"] == [f"{name}.yaml" for name in MANIFESTS]
    assert KUSTOMIZATION["configMapGenerator"] == [{"name": "mirage", "files": ["mirage.toml"]}]
    images = {one["image"].partition(":")[0] for one in (SACKD, SCHEMA, MIRAGE)}
    assert {image["name"] for image in KUSTOMIZATION["images"]} == images


def test_mirage_reads_the_settings_and_they_have_all_that_the_image_s_have() -> None:
    checked = run("config", "check", "--config", str(FOLDER / "mirage.toml"))
    assert checked.code == 0, checked.err
    for table, keys in tomllib.loads((CONTAINER / "mirage.toml").read_text()).items():
        assert keys.items() <= SETTINGS[table].items()


def test_the_pod_runs_as_the_image_s_account() -> None:
    uid, gid = map(int, list_words("USER")[0].split(":"))
    assert f"--gid {gid} mirage" in CONTAINERFILE
    context = POD["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (uid, gid, gid)
    version = load_client_module("command.version").VERSION
    assert SCHEMA["image"] == MIRAGE["image"] == f"mirage:{version}"


def test_one_port_everywhere() -> None:
    (port,) = MIRAGE["ports"]
    (service,) = MANIFESTS["service"]["spec"]["ports"]
    policy = MANIFESTS["network-policy"]["spec"]
    assert [str(port["containerPort"])] == list_words("EXPOSE")
    assert port["containerPort"] == service["port"] == SETTINGS["service"]["port"]
    assert service["targetPort"] == policy["ingress"][0]["ports"][0]["port"] == port["name"]
    rest = re.fullmatch(r"http://slurm-restapi:(\d+)", SETTINGS["cluster"]["rest_url"])
    assert rest is not None
    assert [{"port": int(rest[1])}] == policy["egress"][0]["ports"]


def test_probes_ask_what_the_program_answers() -> None:
    paths = json.loads((CHECKOUT / "docs" / "openapi.json").read_text())["paths"]
    asked = {
        kind: MIRAGE[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")
    }
    assert paths[asked["liveness"]["path"]]["get"]["operationId"] == "getHealth"
    assert paths[asked["readiness"]["path"]]["get"]["operationId"] == "getReadiness"
    assert asked["startup"] == asked["liveness"]
    assert asked["liveness"]["path"] in CONTAINERFILE
    assert {one["port"] for one in asked.values()} == {MIRAGE["ports"][0]["name"]}


def test_each_volume_is_where_image_and_program_look() -> None:
    places = find_places(MIRAGE)
    assert {one["name"] for one in POD["volumes"]} == {*places, *find_places(SACKD)}
    assert find_places(SCHEMA) == places
    assert {*list_words("VOLUME"), "/etc/mirage", "/tmp"} <= set(places.values())  # noqa: S108
    assert places["state"] == str(Settings().service.state_dir)
    token = SETTINGS["cluster"]["rest_token_file"]
    assert posixpath.dirname(token) == places["slurm-jwt"]
    sack = load_client_module("client.sack")
    socket = f"{sack.RUN}/slurm/{sack.SOCKET}"
    assert posixpath.dirname(socket) == places["sack"] == find_places(SACKD)["sack"]
    assert SACKD["startupProbe"]["exec"]["command"][-1] == socket


def test_what_writes_nothing_cannot_and_the_key_is_sackd_s_alone() -> None:
    for container in (SACKD, SCHEMA, MIRAGE):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
    keys = {
        volume["name"]
        for volume in POD["volumes"]
        if "slurm.key" in json.dumps(volume) or "slurm-auth" in json.dumps(volume)
    }
    assert keys == {"slurm-conf"}
    assert "slurm-conf" not in find_places(MIRAGE)


def test_one_process_and_no_variable_of_the_cluster_s_is_a_setting() -> None:
    spec = MANIFESTS["deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert POD["enableServiceLinks"] is False
    assert POD["automountServiceAccountToken"] is False


def test_the_service_leads_to_the_pod_and_mirage_answers_to_its_names() -> None:
    labels = MANIFESTS["deployment"]["spec"]["template"]["metadata"]["labels"]
    assert labels == MANIFESTS["deployment"]["spec"]["selector"]["matchLabels"]
    assert labels == MANIFESTS["service"]["spec"]["selector"]
    assert labels == MANIFESTS["network-policy"]["spec"]["podSelector"]["matchLabels"]
    name, namespace = MANIFESTS["service"]["metadata"]["name"], KUSTOMIZATION["namespace"]
    names = [name, f"{name}.{namespace}", f"{name}.{namespace}.svc"]
    assert SETTINGS["service"]["origins"] == [f"http://{name}" for name in names]
