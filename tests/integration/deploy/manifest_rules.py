# SPDX-License-Identifier: Apache-2.0
"""What must hold between the objects of one installation, and the restricted profile of
Kubernetes' pod security standards."""


def pods(documents):
    """(name, pod template) of everything that starts pods."""
    return [(document["metadata"]["name"], document["spec"]["template"])
            for document in documents if document["kind"] in ("StatefulSet", "Job")]


def containers(template):
    spec = template["spec"]
    return spec["containers"] + spec.get("initContainers", [])


def of_kind(documents, kind):
    return [document for document in documents if document["kind"] == kind]


def selected(documents, labels):
    """The pod templates that a selector picks."""
    return [template for _, template in pods(documents)
            if labels.items() <= template["metadata"]["labels"].items()]


def port_names(template):
    return {port["name"] for container in containers(template)
            for port in container.get("ports", [])}


def check_restricted(documents):
    found = []
    for name, template in pods(documents):
        security = template["spec"]["securityContext"]
        if security["runAsNonRoot"] is not True or security["runAsUser"] == 0:
            found.append(name + ": may run as root")
        if security["seccompProfile"]["type"] != "RuntimeDefault":
            found.append(name + ": no seccomp profile")
        if template["spec"]["automountServiceAccountToken"]:
            found.append(name + ": carries a token of the Kubernetes API")
        if template["spec"]["enableServiceLinks"]:
            found.append(name + ": services would become options in the environment")
        for container in containers(template):
            found += check_container(name + "/" + container["name"], container)
    return found


def check_container(name, container):
    security = container["securityContext"]
    found = []
    if security["allowPrivilegeEscalation"] or security.get("privileged"):
        found.append(name + ": may gain rights")
    if security["capabilities"]["drop"] != ["ALL"] or security["capabilities"].get("add"):
        found.append(name + ": keeps capabilities")
    if not security["readOnlyRootFilesystem"]:
        found.append(name + ": may write its own image")
    if "memory" not in container["resources"].get("limits", {}):
        found.append(name + ": has no memory limit")
    if not {"cpu", "memory"} <= set(container["resources"].get("requests", {})):
        found.append(name + ": does not say what it needs")
    return found


def check_references(documents):
    """Everything that is named is there."""
    found = []
    names = {kind: {document["metadata"]["name"]: document
                    for document in of_kind(documents, kind)}
             for kind in ("ConfigMap", "ServiceAccount", "Service")}
    for name, template in pods(documents):
        spec = template["spec"]
        account = spec.get("serviceAccountName")
        if account is not None and account not in names["ServiceAccount"]:
            found.append("%s: no ServiceAccount %s" % (name, account))
        for container in containers(template):
            found += check_configuration(name, container, names["ConfigMap"])
            found += check_probes(name, container)
    for document in of_kind(documents, "StatefulSet"):
        service = names["Service"].get(document["spec"]["serviceName"])
        if service is None:
            found.append("%s: its Service is not there" % document["metadata"]["name"])
    return found + check_volumes(documents)


def check_configuration(name, container, config_maps):
    found = []
    for source in container.get("envFrom", []):
        wanted = source["configMapRef"]["name"]
        if wanted not in config_maps:
            found.append("%s: no ConfigMap %s" % (name, wanted))
    for variable in container.get("env", []):
        reference = variable.get("valueFrom", {}).get("configMapKeyRef")
        if reference is None:
            continue
        data = config_maps.get(reference["name"], {}).get("data", {})
        if reference["key"] not in data:
            found.append("%s: no %s in ConfigMap %s" % (name, reference["key"],
                                                        reference["name"]))
    return found


def check_probes(name, container):
    ports = {port["name"] for port in container.get("ports", [])}
    asked = {probe: container[probe]["httpGet"]["port"]
             for probe in ("startupProbe", "livenessProbe", "readinessProbe")
             if probe in container}
    return ["%s: the %s asks the unknown port %s" % (name, probe, port)
            for probe, port in asked.items() if port not in ports]


def check_volumes(documents):
    found = []
    for document in documents:
        if document["kind"] not in ("StatefulSet", "Job"):
            continue
        spec = document["spec"]
        volumes = {volume["name"] for volume in spec["template"]["spec"].get("volumes", [])}
        volumes |= {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
        mounted = {mount["name"] for container in containers(spec["template"])
                   for mount in container.get("volumeMounts", [])}
        for name in sorted(volumes ^ mounted):
            found.append("%s: volume %s is not there or not mounted"
                         % (document["metadata"]["name"], name))
    return found


def check_selectors(documents):
    """Selectors pick pods, and ports that have a name are there."""
    found = []
    for document in documents:
        kind, spec = document["kind"], document.get("spec", {})
        name = kind + "/" + document["metadata"]["name"]
        if kind == "StatefulSet":
            if not spec["selector"]["matchLabels"].items() <= \
                    spec["template"]["metadata"]["labels"].items():
                found.append(name + " does not select its own pods")
            continue
        labels = {"Service": lambda: spec["selector"],
                  "PodDisruptionBudget": lambda: spec["selector"]["matchLabels"],
                  "NetworkPolicy": lambda: spec["podSelector"]["matchLabels"]}.get(kind)
        if labels is None:
            continue
        picked = selected(documents, labels())
        if not picked:
            found.append(name + " selects no pod")
        wanted = [port["targetPort"] for port in spec.get("ports", [])] if kind == "Service" else \
                 [port["port"] for rule in spec.get("ingress", []) for port in rule["ports"]]
        for port in wanted:
            if not all(port in port_names(template) for template in picked):
                found.append("%s: no port %s" % (name, port))
    return found


def check_servers(documents):
    """The number of shards is the number of pods, and pod i serves shard i from its own volume."""
    found = []
    server = [document for document in of_kind(documents, "StatefulSet")
              if document["metadata"]["name"] == "pserver"]
    settings = [document for document in of_kind(documents, "ConfigMap")
                if document["metadata"]["name"] == "pserver"]
    if len(server) != 1 or len(settings) != 1:
        return ["no StatefulSet or ConfigMap called pserver"]
    spec = server[0]["spec"]
    if settings[0]["data"]["PSERVER_NUM_PSERVERS"] != str(spec["replicas"]):
        found.append("PSERVER_NUM_PSERVERS is not the number of replicas")
    container = spec["template"]["spec"]["containers"][0]
    variables = {variable["name"]: variable for variable in container["env"]}
    index = variables.get("PSERVER_INDEX", {}).get("valueFrom", {}).get("fieldRef", {})
    if index.get("fieldPath") != "metadata.labels['apps.kubernetes.io/pod-index']":
        found.append("PSERVER_INDEX is not the pod's number")
    names = list(variables)
    if names.index("PSERVER_ADVERTISE") < max(names.index("POD_NAME"),
                                              names.index("POD_NAMESPACE")):
        found.append("PSERVER_ADVERTISE stands before what it is made of")
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    if mounts.get("data") != settings[0]["data"]["PSERVER_DATA_DIR"]:
        found.append("PSERVER_DATA_DIR is not on the volume")
    if spec["podManagementPolicy"] != "Parallel":
        found.append("a pod waits for another that may never become ready")
    return found + check_device(settings[0]["data"], container) + \
        check_memory(settings[0]["data"], container) + \
        check_volume(settings[0]["data"], spec["volumeClaimTemplates"][0])


def check_device(settings, container):
    """A pod that names a GPU asks for one, and the other way round."""
    names = settings.get("PSERVER_DEVICE", "").startswith("cuda:")
    asks = "nvidia.com/gpu" in container["resources"].get("limits", {})
    if names and not asks:
        return ["PSERVER_DEVICE names a GPU, and the pod asks for no GPU"]
    if asks and not names:
        return ["the pod asks for a GPU, and PSERVER_DEVICE names no device"]
    return []


# Least room in a pod for the requests of trainers that are under way.
UNDER_WAY = 256 << 20


def memory_needed(settings):
    """What a server takes at most, but for requests under way, by docs/failure-modes.md, "How much
    memory"."""
    return (2 * size_of(settings["PSERVER_MEMORY_BYTES"])
            + size_of(settings.get("PSERVER_STAGING_BYTES", "1GiB"))
            + size_of(settings.get("PSERVER_RENDEZVOUS_BYTES", "1GiB"))
            + size_of(settings.get("PSERVER_PROGRAM_BYTES", "1GiB"))
            + size_of(settings.get("PSERVER_JOURNAL_QUEUE_BYTES", "64MiB"))
            + int(settings.get("PSERVER_CLIENTS_MAX", "16384")) * (16 << 10)
            + (256 << 20)
            + pinned_memory(settings))


def pinned_memory(settings):
    """What a GPU takes of the host beside that: the ring, and what readers hold of older values."""
    if not settings.get("PSERVER_DEVICE", "").startswith("cuda:"):
        return 0
    return (64 << 20) + (size_of(settings.get("PSERVER_DEVICE_READERS_BYTES", "0")) or
                         max(size_of(settings["PSERVER_MEMORY_BYTES"]), 1 << 30))


def check_memory(settings, container):
    if "PSERVER_MEMORY_BYTES" not in settings:
        return ["nothing keeps parameters from growing beyond the pod's memory limit"]
    needed = memory_needed(settings) + UNDER_WAY
    if needed > size_of(container["resources"]["limits"]["memory"]):
        return ["the options allow %d bytes, more than the pod's memory limit" % needed]
    return []


def check_volume(settings, claim):
    """Three checkpoints at a time, two journals (what is kept, and what is written while a
    checkpoint is) and two segments."""
    shard = size_of(settings.get("PSERVER_MEMORY_BYTES", "0"))
    journal = size_of(settings.get("PSERVER_CHECKPOINT_JOURNAL_BYTES", "0")) or \
        max(2 * shard, 1 << 30)
    needed = 3 * shard + 2 * journal + 2 * size_of(
        settings.get("PSERVER_JOURNAL_SEGMENT_BYTES", "64MiB"))
    if needed > size_of(claim["spec"]["resources"]["requests"]["storage"]):
        return ["checkpoints and journal take %d bytes, more than the volume" % needed]
    return []


def size_of(text):
    """Kubernetes' 2Gi, or pserver's 2GiB."""
    digits = text.rstrip("KMGTiB")
    return int(digits) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[text[len(digits):][:1]]


def check_installation(documents):
    return (check_restricted(documents) + check_references(documents) +
            check_selectors(documents) + check_servers(documents))
