"""A Kubernetes manifest: claim, Deployment and Service. Nothing of it is reached from outside the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.deploy.compose import CONTAINER_PORT, NOBODY
from suffice.deploy.quote import kubernetes_argument
from suffice.deploy.server_args import Home, Hosted, server_arguments
from suffice.deploy.yaml_text import Noted, yaml_document
from suffice.units import GIB, MIB

if TYPE_CHECKING:
    from suffice.deploy.choice import DeploymentChoice

_FOLDER: Final = "/models"
_PROBE_PERIOD_S: Final = 5
_CLAIM_HEADROOM: Final = 1.1  # a file system takes something for itself


def kubernetes_file(choice: DeploymentChoice, head: list[str]) -> str:
    """Three documents; ``kubectl apply -f`` takes them as they are, and the claim then has to be given the model file."""
    told = [
        *head,
        "Put the model into the claim once, then the pods start: a pod that mounts it and `kubectl cp`, or your own storage.",
        *_of_nodes(choice),
    ]
    documents = [_claim(choice), _deployment(choice), _service(choice)]
    return "---\n".join(yaml_document(told if place == 0 else [], one) for place, one in enumerate(documents))


def _of_nodes(choice: DeploymentChoice) -> list[str]:
    if choice.places[0].node is None:
        return []
    return [
        "measured: engines were kept on NUMA nodes. Set the kubelet's topologyManagerPolicy to single-numa-node and cpuManagerPolicy to static."
    ]


def _labels(choice: DeploymentChoice) -> dict[str, object]:
    return {"app.kubernetes.io/name": choice.name, "app.kubernetes.io/component": "llm-server"}


def _replicas(choice: DeploymentChoice) -> int:
    return choice.machines.value * len(choice.places)


def _claim(choice: DeploymentChoice) -> dict[str, object]:
    several = _replicas(choice) > 1
    mode = Noted(
        "ReadWriteMany" if several else "ReadWriteOnce",
        "computed: several pods read it, and one writes it before" if several else "default: one pod reads it",
    )
    size = choice.record.model.file_bytes
    storage: object = Noted("10Gi", "default: the record does not say how large the file is")
    if size is not None:
        gib = max(1, -(-round(size * _CLAIM_HEADROOM) // GIB))
        storage = Noted(f"{gib}Gi", f"measured: the file has {size} bytes")
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"{choice.name}-model", "labels": _labels(choice)},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": storage}}},
    }


def _service(choice: DeploymentChoice) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": choice.name, "labels": _labels(choice)},
        "spec": {
            "type": Noted("ClusterIP", "default: reached from inside the cluster only"),
            "selector": _labels(choice),
            "ports": [
                {"name": "http", "port": Noted(choice.port.value, choice.port.comment), "targetPort": "http"},
            ],
        },
    }


def _deployment(choice: DeploymentChoice) -> dict[str, object]:
    labels = _labels(choice)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": choice.name, "labels": labels},
        "spec": {
            "replicas": Noted(_replicas(choice), _why_replicas(choice)),
            "selector": {"matchLabels": labels},
            "strategy": {"type": Noted("Recreate", "default: two of them at once would need twice the memory")},
            "template": {"metadata": {"labels": labels}, "spec": _pod(choice)},
        },
    }


def _why_replicas(choice: DeploymentChoice) -> str:
    engines = len(choice.places)
    return choice.machines.comment if engines == 1 else f"{choice.machines.comment}, {engines} engines on each"


def _pod(choice: DeploymentChoice) -> dict[str, object]:
    pod: dict[str, object] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NOBODY,
            "runAsGroup": NOBODY,
            "fsGroup": NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(choice)],
        "volumes": [
            {"name": "model", "persistentVolumeClaim": {"claimName": f"{choice.name}-model", "readOnly": True}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
        ],
    }
    if choice.machines.value > 1 and len(choice.places) == 1:
        pod["topologySpreadConstraints"] = Noted(
            [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": _labels(choice)},
                }
            ],
            "simulated: a machine for each, as their memory bandwidth is what was measured",
        )
    return pod


def _container(choice: DeploymentChoice) -> dict[str, object]:
    file_name = choice.model_path.value.replace("\\", "/").rpartition("/")[2]
    hosted = Hosted(home=Home.CLUSTER, model_path=f"{_FOLDER}/{file_name}", port=CONTAINER_PORT)
    arguments: list[object] = []
    for argument in server_arguments(choice, choice.places[0], hosted):
        *before, last = [kubernetes_argument(word) for word in argument.words]
        arguments += [*before, Noted(last, argument.comment)]
    return {
        "name": "llama-server",
        "image": Noted(choice.image.value, choice.image.comment),
        "args": arguments,
        "ports": [{"name": "http", "containerPort": CONTAINER_PORT}],
        "resources": _resources(choice),
        "startupProbe": {
            "httpGet": {"path": "/health", "port": "http"},
            "periodSeconds": _PROBE_PERIOD_S,
            "failureThreshold": Noted(
                -(-choice.start_s.value // _PROBE_PERIOD_S), f"{choice.start_s.value} s; {choice.start_s.comment}"
            ),
        },
        "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": _PROBE_PERIOD_S},
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": "http"},
            "periodSeconds": 4 * _PROBE_PERIOD_S,
            "timeoutSeconds": 2 * _PROBE_PERIOD_S,
            "failureThreshold": 6,
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "model", "mountPath": _FOLDER, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  # of the container
        ],
    }


def _siblings(choice: DeploymentChoice) -> str:
    """What the static CPU policy makes of threads that had a core each: it gives whole cores away, with both of their hardware threads."""
    environment = choice.record.environment
    logical, physical = environment.get("logical_cpus"), environment.get("physical_cores")
    if not (isinstance(logical, int) and isinstance(physical, int) and choice.cpus is not None):
        return ""
    if physical < 1 or logical < 2 * physical or choice.cpus > physical:
        return ""
    each = logical // physical
    return f"; each had a core of {each} hardware threads to itself, which the static CPU policy grants for {each * choice.cpus} CPUs"


def _resources(choice: DeploymentChoice) -> dict[str, object]:
    """Requests equal to limits: with the kubelet's static CPU policy the pod then has its CPUs for itself."""
    amounts: dict[str, object] = {}
    if choice.cpus is not None:
        amounts["cpu"] = Noted(str(choice.cpus), f"measured: threads of the busiest kind of pass{_siblings(choice)}")
    if choice.memory is not None:
        mib = choice.memory.limit.value // MIB
        amounts["memory"] = Noted(f"{mib}Mi", f"{choice.memory.limit.comment} ({choice.memory.needed.why})")
    if not choice.is_gpu:
        return {"requests": amounts, "limits": amounts} if amounts else {}
    gpu = {"nvidia.com/gpu": Noted(1, "measured: on one GPU")}
    return {"requests": amounts | gpu, "limits": gpu}
