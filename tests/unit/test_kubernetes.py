"""docs/how-to/kubernetes.yaml fits Kubernetes' own schemas and says the same as docker-compose.yml."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
MANIFESTS: list[dict[str, Any]] = list(
    yaml.safe_load_all((ROOT / "docs/how-to/kubernetes.yaml").read_text("utf-8")),
)
# The profiles of the manifests: cpu and single.
SERVICES: dict[str, dict[str, Any]] = {
    name: service
    for name, service in COMPOSE["services"].items()
    if {"cpu", "single"} & set(service.get("profiles", ["cpu"]))
}
every_service = pytest.mark.parametrize("name", SERVICES)
VERSIONS = kubernetes_validate.utils.all_versions()
# What a manifest has beyond the compose file, with the reason beside it in the manifest.
MORE_ENVIRONMENT = {"postgres": {"PGDATA"}}


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in MANIFESTS if each["kind"] == kind}


WORKLOADS = {**of_kind("Deployment"), **of_kind("StatefulSet")}
POLICIES = {name: policy["spec"] for name, policy in of_kind("NetworkPolicy").items()}


def pod_of(name: str) -> dict[str, Any]:
    pod: dict[str, Any] = WORKLOADS[name]["spec"]["template"]["spec"]
    return pod


def container_of(name: str) -> dict[str, Any]:
    [container] = pod_of(name)["containers"]
    assert isinstance(container, dict)
    return container


def default_of(value: str) -> str:
    """`${NAME:-default}` as compose reads it without the variable."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


def bytes_of(size: str) -> int:
    """`2g` and `64m` of compose, `2Gi` and `64Mi` of Kubernetes."""
    number, unit = re.fullmatch(r"(\d+)([gm])i?", size.lower()).groups()  # type: ignore[union-attr]
    return int(number) << {"g": 30, "m": 20}[unit]


def seconds_of(duration: str) -> int:
    return int(duration.removesuffix("s"))


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_every_manifest_fits_the_schema(manifest: dict[str, Any], version: str) -> None:
    assert kubernetes_validate.validate(manifest, version, strict=True) == version.rpartition(".")[0]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_schema_refuses_an_unknown_field(kind: str) -> None:
    manifest = copy.deepcopy(next(iter(of_kind(kind).values())))
    manifest["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinesProbe"):
        kubernetes_validate.validate(manifest, VERSIONS[-1], strict=True)


def test_every_service_is_a_workload_in_the_namespace() -> None:
    assert WORKLOADS.keys() == SERVICES.keys()
    [namespace] = of_kind("Namespace")
    assert {each["metadata"].get("namespace") for each in MANIFESTS if each["kind"] != "Namespace"} == {namespace}


@every_service
def test_image_and_command_are_those_of_the_compose_file(name: str) -> None:
    container = container_of(name)
    service = SERVICES[name]
    assert container["image"] == default_of(service["image"])
    # `command` of compose replaces the arguments of the image, `entrypoint` its program.
    assert container.get("args") == service.get("command")
    assert container.get("command") == service.get("entrypoint")


@every_service
def test_environment_is_that_of_the_compose_file(name: str) -> None:
    given = {each["name"]: each["value"] for each in container_of(name)["env"]}
    wanted = {key: default_of(str(value)) for key, value in SERVICES[name]["environment"].items()}
    more = MORE_ENVIRONMENT.get(name, set())
    assert {key: value for key, value in given.items() if key not in more} == {
        key: value for key, value in wanted.items() if value
    }


@every_service
def test_secrets_are_files_that_only_their_services_see(name: str) -> None:
    [secrets] = [each["secret"] for each in pod_of(name)["volumes"] if "secret" in each]
    assert {each["key"]: each["path"] for each in secrets["items"]} == {
        each: each for each in SERVICES[name]["secrets"]
    }
    assert secrets["defaultMode"] == 0o440
    [mount] = [each for each in container_of(name)["volumeMounts"] if each["name"] == "secrets"]
    assert mount == {"name": "secrets", "mountPath": "/run/secrets", "readOnly": True}
    assert not of_kind("Secret")  # none with a value in the file


@every_service
def test_volumes_and_temporary_folders_are_those_of_the_compose_file(name: str) -> None:
    mounts = {each["mountPath"]: each["name"] for each in container_of(name)["volumeMounts"]}
    assert len(mounts) == len(container_of(name)["volumeMounts"])
    volumes = {each["name"]: each for each in pod_of(name)["volumes"]}
    claimed = {each["metadata"]["name"] for each in WORKLOADS[name]["spec"].get("volumeClaimTemplates", [])}
    kept = dict(each.split(":") for each in SERVICES[name]["volumes"])
    temporary = {path: dict(option.split("=") for option in options.split(",") if "=" in option)
                 for path, _, options in (each.partition(":") for each in SERVICES[name]["tmpfs"])}  # fmt: skip
    if "shm_size" in SERVICES[name]:
        temporary["/dev/shm"] = {"size": SERVICES[name]["shm_size"]}
    assert mounts.keys() == {"/run/secrets", *kept.values(), *temporary}
    for volume, path in kept.items():
        assert mounts[path] == volume
        if volume not in claimed:
            claim = volumes[volume]["persistentVolumeClaim"]["claimName"]
            assert of_kind("PersistentVolumeClaim")[claim]["spec"]["accessModes"] == ["ReadWriteMany"]
    for path, options in temporary.items():
        folder = volumes[mounts[path]]["emptyDir"]
        assert folder["medium"] == "Memory"
        if "size" in options:
            assert bytes_of(folder["sizeLimit"]) == bytes_of(options["size"]), path


@every_service
def test_limits_are_those_of_the_compose_file(name: str) -> None:
    resources = container_of(name)["resources"]
    limits = SERVICES[name]["deploy"]["resources"]["limits"]
    assert bytes_of(resources["limits"]["memory"]) == bytes_of(default_of(limits["memory"]))
    assert resources["limits"].keys() == {"memory"}
    assert default_of(limits["cpus"]) == "0"
    assert bytes_of(resources["requests"]["memory"]) <= bytes_of(resources["limits"]["memory"])


@every_service
def test_probes_ask_what_the_health_check_asks(name: str) -> None:
    container = container_of(name)
    check = SERVICES[name]["healthcheck"]
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = container[kind]
        assert probe["periodSeconds"] == seconds_of(check["interval"])
        assert probe["timeoutSeconds"] == seconds_of(check["timeout"])
    for kind in ("readinessProbe", "livenessProbe"):
        assert container[kind]["failureThreshold"] == check["retries"]
    startup = container["startupProbe"]
    assert startup["failureThreshold"] * startup["periodSeconds"] >= seconds_of(check["start_period"])
    asked = container["readinessProbe"]
    if "exec" in asked:
        assert check["test"] == ["CMD", *asked["exec"]["command"]]
    else:
        path = asked["httpGet"]["path"].partition("?")[0]
        assert {"containerPort": asked["httpGet"]["port"]} in container["ports"]
        assert str(asked["httpGet"]["port"]) in check["test"][-1]
        assert path in check["test"][-1]
        # A part that is away is no reason to restart.
        assert container["livenessProbe"]["httpGet"]["path"] != asked["httpGet"]["path"]


@every_service
def test_every_pod_is_confined_as_its_service(name: str) -> None:
    assert SERVICES[name]["read_only"] is True
    container = container_of(name)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": SERVICES[name]["cap_drop"]},
    }
    pod = pod_of(name)
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["shareProcessNamespace"] is SERVICES[name]["init"]
    assert pod["terminationGracePeriodSeconds"] == seconds_of(SERVICES[name]["stop_grace_period"])
    if "user" in SERVICES[name]:
        assert SERVICES[name]["user"] == f"{context['runAsUser']}:{context['runAsGroup']}"
    elif "build" in SERVICES[name]:
        assert f"USER {context['runAsUser']}:{context['runAsGroup']}" in (ROOT / "Dockerfile").read_text("utf-8")


def test_addresses_that_services_use_are_services() -> None:
    services = {name: {each["port"] for each in found["spec"]["ports"]} for name, found in of_kind("Service").items()}
    for name, found in of_kind("Service").items():
        assert found["spec"]["selector"] == WORKLOADS[name]["spec"]["template"]["metadata"]["labels"]
        assert WORKLOADS[name]["spec"]["selector"]["matchLabels"] == found["spec"]["selector"]
        assert {each["containerPort"] for each in container_of(name)["ports"]} == services[name]
    for name in ("web", "worker"):
        given = {each["name"]: each["value"] for each in container_of(name)["env"]}
        assert "@postgres/" in given["GIRCSE_DATABASE_URL"]
        for setting in ("GIRCSE_QDRANT_URL", "GIRCSE_EMBEDDER_URL"):
            host, port = re.fullmatch(r"http://([\w-]+):(\d+)", given[setting]).groups()  # type: ignore[union-attr]
            assert int(port) in services[host]
    assert services["postgres"] == {5432}


def test_only_web_is_reached_from_outside_and_reaches_out() -> None:
    everybody = {name for name, policy in POLICIES.items() if policy["podSelector"] == {}}
    assert POLICIES["nothing-else"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert everybody == {"nothing-else", "names"}
    assert {each["port"] for rule in POLICIES["names"]["egress"] for each in rule["ports"]} == {53}
    outside = {name for name, service in SERVICES.items() if "outside" in service["networks"]}
    reached = {name for name, policy in POLICIES.items() for rule in policy.get("ingress", []) if "from" not in rule}
    reaching = {
        name
        for name, policy in POLICIES.items()
        for rule in policy.get("egress", [])
        if "to" not in rule and name != "names"
    }
    assert reached == reaching == outside == {"web"}


def test_web_and_worker_reach_the_parts_by_their_ports() -> None:
    parts = {name: found["spec"]["ports"] for name, found in of_kind("Service").items() if name != "web"}
    allowed = {
        rule["to"][0]["podSelector"]["matchLabels"]["app"]: rule["ports"] for rule in POLICIES["worker"]["egress"]
    }
    assert allowed == parts
    for name, ports in parts.items():
        [rule] = POLICIES[name]["ingress"]
        callers = {each["podSelector"]["matchLabels"]["app"] for each in rule["from"]}
        assert callers == {"web", "worker"}
        assert rule["ports"] == ports
    for name, policy in POLICIES.items():
        if policy["podSelector"]:
            labels = policy["podSelector"]["matchLabels"]
            assert labels == WORKLOADS[name]["spec"]["template"]["metadata"]["labels"]
