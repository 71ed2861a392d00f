# SPDX-License-Identifier: Apache-2.0
"""Schemas of the Kubernetes objects that deploy/kubernetes uses: which members each may and must
have, and of what type. Anything unknown is a finding: a misspelt member is silently dropped by
many tools, and then a probe or a limit is simply not there."""

TEXT, WHOLE, TRUTH, ANY = "text", "whole number", "true or false", "anything"
PORT = "port number or name"


class Map:
    """An object with free keys."""

    def __init__(self, value):
        self.value = value


class Many:
    """A list."""

    def __init__(self, item):
        self.item = item


class Object:
    """An object with these members and no others; a name ending in ! must be there."""

    def __init__(self, **members):
        self.must = {name for name, (_, must) in members.items() if must}
        self.members = {name: schema for name, (schema, _) in members.items()}


def may(schema):
    return (schema, False)


def must(schema):
    return (schema, True)


LABELS = Map(TEXT)
QUANTITIES = Map("quantity")
METADATA = Object(name=must(TEXT), namespace=may(TEXT), labels=may(LABELS),
                  annotations=may(LABELS))
TEMPLATE_METADATA = Object(labels=must(LABELS), annotations=may(LABELS))
SELECTOR = Object(matchLabels=may(LABELS), matchExpressions=may(Many(ANY)))
RESOURCES = Object(requests=may(QUANTITIES), limits=may(QUANTITIES))

HTTP_GET = Object(path=must(TEXT), port=must(PORT), scheme=may(TEXT))
PROBE = Object(httpGet=must(HTTP_GET), periodSeconds=may(WHOLE), timeoutSeconds=may(WHOLE),
               failureThreshold=may(WHOLE), successThreshold=may(WHOLE),
               initialDelaySeconds=may(WHOLE))
KEY_REFERENCE = Object(name=must(TEXT), key=must(TEXT), optional=may(TRUTH))
ENVIRONMENT = Object(
    name=must(TEXT), value=may(TEXT),
    valueFrom=may(Object(fieldRef=may(Object(fieldPath=must(TEXT), apiVersion=may(TEXT))),
                         configMapKeyRef=may(KEY_REFERENCE), secretKeyRef=may(KEY_REFERENCE))))
CONTAINER = Object(
    name=must(TEXT), image=must(TEXT), imagePullPolicy=may(TEXT), command=may(Many(TEXT)),
    args=may(Many(TEXT)), env=may(Many(ENVIRONMENT)),
    envFrom=may(Many(Object(configMapRef=may(Object(name=must(TEXT))),
                            secretRef=may(Object(name=must(TEXT)))))),
    ports=may(Many(Object(name=must(TEXT), containerPort=must(WHOLE), protocol=may(TEXT)))),
    startupProbe=may(PROBE), livenessProbe=may(PROBE), readinessProbe=may(PROBE),
    resources=must(RESOURCES),
    securityContext=must(Object(
        allowPrivilegeEscalation=must(TRUTH), readOnlyRootFilesystem=must(TRUTH),
        capabilities=must(Object(drop=must(Many(TEXT)), add=may(Many(TEXT)))),
        privileged=may(TRUTH), runAsNonRoot=may(TRUTH), runAsUser=may(WHOLE))),
    volumeMounts=may(Many(Object(name=must(TEXT), mountPath=must(TEXT), readOnly=may(TRUTH)))))
VOLUME = Object(name=must(TEXT),
                emptyDir=may(Object(sizeLimit=may("quantity"), medium=may(TEXT))),
                configMap=may(Object(name=must(TEXT))),
                secret=may(Object(secretName=must(TEXT), defaultMode=may(WHOLE))),
                persistentVolumeClaim=may(Object(claimName=must(TEXT))))
POD = Object(
    containers=must(Many(CONTAINER)), initContainers=may(Many(CONTAINER)),
    tolerations=may(Many(Object(key=must(TEXT), operator=may(TEXT), value=may(TEXT),
                                effect=may(TEXT)))),
    volumes=may(Many(VOLUME)), restartPolicy=may(TEXT), serviceAccountName=may(TEXT),
    automountServiceAccountToken=must(TRUTH), enableServiceLinks=must(TRUTH),
    terminationGracePeriodSeconds=may(WHOLE),
    securityContext=must(Object(
        runAsNonRoot=must(TRUTH), runAsUser=must(WHOLE), runAsGroup=must(WHOLE),
        fsGroup=may(WHOLE), fsGroupChangePolicy=may(TEXT),
        seccompProfile=must(Object(type=must(TEXT))))),
    topologySpreadConstraints=may(Many(Object(
        maxSkew=must(WHOLE), topologyKey=must(TEXT), whenUnsatisfiable=must(TEXT),
        labelSelector=must(SELECTOR)))))
TEMPLATE = Object(metadata=must(TEMPLATE_METADATA), spec=must(POD))
CLAIM = Object(metadata=must(METADATA),
               apiVersion=may(TEXT), kind=may(TEXT),
               spec=must(Object(accessModes=must(Many(TEXT)), storageClassName=may(TEXT),
                                resources=must(RESOURCES))))
POLICY_PORT = Object(protocol=must(TEXT), port=must(PORT))
PEER = Object(podSelector=may(SELECTOR), namespaceSelector=may(SELECTOR),
              ipBlock=may(Object(cidr=must(TEXT))))


def kind(version, **members):
    return version, Object(apiVersion=must(TEXT), kind=must(TEXT), metadata=must(METADATA),
                           **members)


KINDS = {
    "Namespace": kind("v1"),
    "ServiceAccount": kind("v1", automountServiceAccountToken=must(TRUTH)),
    "ConfigMap": kind("v1", data=must(Map(TEXT))),
    "Service": kind("v1", spec=must(Object(
        type=may(TEXT), clusterIP=may(TEXT), publishNotReadyAddresses=may(TRUTH),
        selector=must(LABELS),
        ports=must(Many(Object(name=must(TEXT), port=must(WHOLE), targetPort=must(PORT),
                               protocol=may(TEXT), appProtocol=may(TEXT))))))),
    "StatefulSet": kind("apps/v1", spec=must(Object(
        serviceName=must(TEXT), replicas=must(WHOLE), podManagementPolicy=may(TEXT),
        selector=must(SELECTOR), template=must(TEMPLATE), updateStrategy=may(ANY),
        volumeClaimTemplates=may(Many(CLAIM))))),
    "Job": kind("batch/v1", spec=must(Object(
        backoffLimit=must(WHOLE), activeDeadlineSeconds=may(WHOLE),
        ttlSecondsAfterFinished=may(WHOLE), completions=may(WHOLE), parallelism=may(WHOLE),
        template=must(TEMPLATE)))),
    "PodDisruptionBudget": kind("policy/v1", spec=must(Object(
        maxUnavailable=may(PORT), minAvailable=may(PORT), selector=must(SELECTOR)))),
    "NetworkPolicy": kind("networking.k8s.io/v1", spec=must(Object(
        podSelector=must(SELECTOR), policyTypes=must(Many(TEXT)),
        ingress=may(Many(Object(**{"from": may(Many(PEER)), "ports": may(Many(POLICY_PORT))}))),
        egress=may(Many(Object(to=may(Many(PEER)), ports=may(Many(POLICY_PORT)))))))),
}


def is_simple(schema, value):
    """Whether a value is of one of the simple types."""
    if schema == ANY:
        return True
    if schema == TEXT:
        return isinstance(value, str)
    if schema == TRUTH:
        return isinstance(value, bool)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if schema == WHOLE:
        return whole and value >= 0
    return isinstance(value, str) or whole


def findings(schema, value, where):
    """What is wrong with `value`, as a list of sentences."""
    if isinstance(schema, Object):
        if not isinstance(value, dict):
            return [where + ": no object"]
        found = [where + "." + name + " is missing"
                 for name in sorted(schema.must - set(value))]
        for name, member in value.items():
            if name not in schema.members:
                found.append(where + "." + str(name) + " is unknown")
            else:
                found += findings(schema.members[name], member, where + "." + name)
        return found
    if isinstance(schema, Many):
        if not isinstance(value, list):
            return [where + ": no list"]
        return [text for i, item in enumerate(value)
                for text in findings(schema.item, item, "%s[%d]" % (where, i))]
    if isinstance(schema, Map):
        if not isinstance(value, dict):
            return [where + ": no object"]
        return [text for name, item in value.items()
                for text in findings(schema.value, item, where + "." + str(name))]
    return [] if is_simple(schema, value) else ["%s: no %s" % (where, schema)]


def check_object(document):
    """What is wrong with one Kubernetes object."""
    if not isinstance(document, dict) or document.get("kind") not in KINDS:
        return ["an object of an unknown kind: %r" % (document,)]
    version, schema = KINDS[document["kind"]]
    where = "%s/%s" % (document["kind"], (document.get("metadata") or {}).get("name"))
    found = findings(schema, document, where)
    if document.get("apiVersion") != version:
        found.append("%s: apiVersion is %s, not %s" % (where, document.get("apiVersion"), version))
    return found
