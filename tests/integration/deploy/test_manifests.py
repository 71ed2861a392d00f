# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes manifests of deploy/kubernetes: every file by its schema, every overlay as it is
rendered (where kubectl or kustomize is installed), and the checks themselves.

usage: test_manifests.py FOLDER-OF-THE-REPOSITORY [PATH-OF-pserver]
"""
import copy
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import yaml

import manifest_rules
import manifest_schema

REPOSITORY = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(".")
SERVER = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ""
ROOT = REPOSITORY / "deploy" / "kubernetes"
OVERLAYS = ["base", "overlays/trial", "overlays/production", "overlays/secure", "overlays/gpu"]
# Members of a kustomization file that these manifests use.
KUSTOMIZATION = {"apiVersion", "kind", "resources", "components", "namespace", "labels", "images",
                 "replicas", "patches"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return [document for document in yaml.safe_load_all(file) if document is not None]


def resource_files(folder):
    """The files that a kustomization names, with those of the folders that it names."""
    found = []
    (kustomization,) = read(folder / "kustomization.yaml")
    for name in kustomization.get("resources", []) + kustomization.get("components", []):
        path = (folder / name).resolve()
        found += resource_files(path) if path.is_dir() else [path]
    return found


def renderer():
    """The command that renders an overlay; None where there is none."""
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    if shutil.which("kubectl"):
        return ["kubectl", "kustomize"]
    return None


def rendered(overlay):
    output = subprocess.run(renderer() + [str(ROOT / overlay)], check=True, capture_output=True,
                            text=True, timeout=60).stdout
    return [document for document in yaml.safe_load_all(output) if document is not None]


class Files(unittest.TestCase):
    def test_every_object_has_only_known_members_of_the_right_type(self):
        files = {path for overlay in OVERLAYS for path in resource_files(ROOT / overlay)}
        self.assertGreaterEqual(len(files), 10)
        for path in sorted(files):
            for document in read(path):
                self.assertEqual(manifest_schema.check_object(document), [], path)

    def test_every_file_is_used(self):
        used = {path for overlay in OVERLAYS for path in resource_files(ROOT / overlay)}
        there = {path.resolve() for path in ROOT.rglob("*.yaml")
                 if path.name != "kustomization.yaml"}
        self.assertEqual(used, there)

    def test_kustomizations_have_only_known_members(self):
        for path in ROOT.rglob("kustomization.yaml"):
            (document,) = read(path)
            self.assertLessEqual(set(document), KUSTOMIZATION, path)
            self.assertIn(document["kind"], ("Kustomization", "Component"), path)

    def test_the_base_holds_together_as_it_is(self):
        documents = [document for path in resource_files(ROOT / "base") for document in read(path)]
        self.assertEqual(manifest_rules.check_installation(documents), [])

    def test_every_variable_is_an_option_of_the_server(self):
        if not SERVER or not pathlib.Path(SERVER).exists():
            self.skipTest("pserver is not built")
        options = subprocess.run([SERVER, "--help"], check=True, capture_output=True, text=True,
                                 timeout=10).stdout
        for path in ROOT.rglob("*.yaml"):
            for document in read(path):
                if document["kind"] != "ConfigMap":
                    continue
                for name in document["data"]:
                    option = "--" + name[len("PSERVER_"):].lower().replace("_", "-")
                    self.assertIn(option, options, name)


@unittest.skipIf(renderer() is None, "neither kustomize nor kubectl is installed")
class Rendered(unittest.TestCase):
    def test_every_overlay_renders_to_whole_objects(self):
        for overlay in OVERLAYS:
            documents = rendered(overlay)
            self.assertGreaterEqual(len(documents), 7)
            for document in documents:
                self.assertEqual(manifest_schema.check_object(document), [], overlay)

    def test_every_overlay_holds_together(self):
        for overlay in OVERLAYS:
            self.assertEqual(manifest_rules.check_installation(rendered(overlay)), [], overlay)

    def test_the_trial_has_all_that_it_needs(self):
        documents = rendered("overlays/trial")
        names = {(document["kind"], document["metadata"]["name"]) for document in documents}
        self.assertLessEqual({("StatefulSet", "pserver"), ("StatefulSet", "etcd"),
                              ("Job", "pstrain"), ("Namespace", "pserver-trial")}, names)
        for document in documents:
            if document["kind"] != "Namespace":
                self.assertEqual(document["metadata"]["namespace"], "pserver-trial")
        policy = manifest_rules.of_kind(documents, "NetworkPolicy")[0]
        allowed = policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
        (trainer,) = [template for name, template in manifest_rules.pods(documents)
                      if name == "pstrain"]
        self.assertLessEqual(allowed.items(), trainer["metadata"]["labels"].items())


    def test_what_the_page_types_has_the_pods_hold_still(self):
        """docs/recover.md, without a cluster: the patch fits every overlay's StatefulSet."""
        if not shutil.which("kubectl"):
            self.skipTest("no kubectl")
        page = (REPOSITORY / "docs" / "recover.md").read_text(encoding="utf-8")
        patch = re.search(r"patch statefulset pserver --type json -p '(.*?)'", page, re.S).group(1)
        for overlay in OVERLAYS:
            (server,) = [one for one in manifest_rules.of_kind(rendered(overlay), "StatefulSet")
                         if one["metadata"]["name"] == "pserver"]
            output = subprocess.run(
                ["kubectl", "patch", "--local", "-f", "-", "--type", "json", "-p", patch, "-o",
                 "yaml"],
                input=yaml.safe_dump(server), check=True, capture_output=True, text=True,
                timeout=60).stdout
            pod = yaml.safe_load(output)["spec"]["template"]
            (container,) = pod["spec"]["containers"]
            self.assertEqual(container["command"], ["sleep", "infinity"])
            self.assertEqual([name for name in container if name.endswith("Probe")], [])
            self.assertIn({"name": "data", "mountPath": "/data"}, container["volumeMounts"])
            selector = re.search(r"delete pod -l (\S+)", page).group(1)
            wanted = dict(label.split("=") for label in selector.split(","))
            self.assertLessEqual(wanted.items(), pod["metadata"]["labels"].items())

    def test_with_gpus_each_pod_asks_for_one_and_names_it(self):
        documents = rendered("overlays/gpu")
        (settings,) = [document["data"] for document in
                       manifest_rules.of_kind(documents, "ConfigMap")]
        (server,) = manifest_rules.of_kind(documents, "StatefulSet")
        pod = server["spec"]["template"]["spec"]
        self.assertEqual(pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "1")
        self.assertEqual(pod["containers"][0]["image"], "pserver:0.1.0-cuda")
        self.assertEqual(settings["PSERVER_DEVICE"], "cuda:0")
        self.assertEqual(pod["tolerations"][0]["key"], "nvidia.com/gpu")

    def test_with_tls_all_probes_speak_it_and_the_files_are_mounted(self):
        documents = rendered("overlays/secure")
        (settings,) = [document["data"] for document in
                       manifest_rules.of_kind(documents, "ConfigMap")]
        (server,) = manifest_rules.of_kind(documents, "StatefulSet")
        (container,) = server["spec"]["template"]["spec"]["containers"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertEqual(container[probe]["httpGet"]["scheme"], "HTTPS")
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        for name in ("CERT", "KEY", "CA"):
            self.assertIn(str(pathlib.Path(settings[f"PSERVER_TLS_{name}"]).parent), mounts)


class Checks(unittest.TestCase):
    """A check that finds nothing wrong anywhere is worth nothing."""

    def setUp(self):
        self.documents = [copy.deepcopy(document) for path in resource_files(ROOT / "base")
                          for document in read(path)]
        (self.server,) = manifest_rules.of_kind(self.documents, "StatefulSet")
        self.pod = self.server["spec"]["template"]["spec"]
        self.container = self.pod["containers"][0]

    def assert_found(self, words):
        found = [text for document in self.documents
                 for text in manifest_schema.check_object(document)]
        if not found:
            found = manifest_rules.check_installation(self.documents)
        self.assertTrue(any(words in text for text in found), found)

    def test_a_misspelt_member_is_found(self):
        self.container["livenesProbe"] = self.container.pop("livenessProbe")
        self.assert_found("livenesProbe is unknown")

    def test_a_missing_member_is_found(self):
        del self.server["spec"]["serviceName"]
        self.assert_found("serviceName is missing")

    def test_a_wrong_type_is_found(self):
        self.server["spec"]["replicas"] = "2"
        self.assert_found("replicas: no whole number")

    def test_a_wrong_version_is_found(self):
        self.server["apiVersion"] = "apps/v1beta1"
        self.assert_found("apiVersion")

    def test_another_number_of_shards_is_found(self):
        self.server["spec"]["replicas"] = 3
        self.assert_found("number of replicas")

    def test_a_container_with_rights_is_found(self):
        self.container["securityContext"]["capabilities"]["drop"] = ["NET_RAW"]
        self.assert_found("keeps capabilities")

    def test_a_root_user_is_found(self):
        self.pod["securityContext"]["runAsUser"] = 0
        self.assert_found("may run as root")

    def test_a_probe_of_no_port_is_found(self):
        self.container["readinessProbe"]["httpGet"]["port"] = "metrics"
        self.assert_found("unknown port")

    def test_a_service_without_pods_is_found(self):
        manifest_rules.of_kind(self.documents, "Service")[0]["spec"]["selector"]["x"] = "y"
        self.assert_found("selects no pod")

    def test_a_gpu_that_is_named_and_not_asked_for_is_found(self):
        (settings,) = manifest_rules.of_kind(self.documents, "ConfigMap")
        settings["data"]["PSERVER_DEVICE"] = "cuda:0"
        self.assert_found("asks for no GPU")

    def test_a_gpu_that_is_asked_for_and_not_named_is_found(self):
        self.container["resources"]["limits"]["nvidia.com/gpu"] = "1"
        self.assert_found("names no device")

    def test_pinned_memory_counts_with_the_pods(self):
        (settings,) = manifest_rules.of_kind(self.documents, "ConfigMap")
        settings["data"]["PSERVER_DEVICE"] = "cuda:0"
        settings["data"]["PSERVER_DEVICE_READERS_BYTES"] = "8GiB"
        self.container["resources"]["limits"]["nvidia.com/gpu"] = "1"
        self.assert_found("more than the pod's memory limit")

    def test_a_volume_that_is_not_there_is_found(self):
        self.container["volumeMounts"][0]["name"] = "date"
        self.assert_found("volume")

    def test_a_pod_that_may_outgrow_its_memory_is_found(self):
        (settings,) = manifest_rules.of_kind(self.documents, "ConfigMap")
        settings["data"]["PSERVER_MEMORY_BYTES"] = "1GiB"
        self.assert_found("more than the pod's memory limit")
        settings["data"]["PSERVER_MEMORY_BYTES"] = "1MiB"
        settings["data"]["PSERVER_CLIENTS_MAX"] = "100000"
        self.assert_found("more than the pod's memory limit")
        del settings["data"]["PSERVER_MEMORY_BYTES"]
        self.assert_found("nothing keeps parameters")

    def test_a_volume_that_checkpoints_and_journal_may_outgrow_is_found(self):
        (settings,) = manifest_rules.of_kind(self.documents, "ConfigMap")
        settings["data"]["PSERVER_CHECKPOINT_JOURNAL_BYTES"] = "8GiB"
        self.assert_found("more than the volume")

    def test_a_pod_with_another_shards_volume_is_found(self):
        self.container["env"] = [variable for variable in self.container["env"]
                                 if variable["name"] != "PSERVER_INDEX"]
        self.assert_found("PSERVER_INDEX")


if __name__ == "__main__":
    unittest.main()
