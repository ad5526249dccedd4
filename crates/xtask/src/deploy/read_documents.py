"""Reads the files in `deploy`, compares them with their schemas, and prints all of it as one JSON object.

Arguments: the folder, then the versions of Kubernetes that the manifests are for.
"""

import importlib.util
import json
import sys
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml


class UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping. YAML readers take the last one and say nothing."""


def construct_mapping(loader, node, deep=False):
    seen = set()
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node, deep=deep)
        if key in seen:
            problem = f"the key {key!r} stands twice"
            raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
        seen.add(key)
    return yaml.SafeLoader.construct_mapping(loader, node, deep)


UniqueKeyLoader.add_constructor(
    yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG,
    lambda loader, node: construct_mapping(loader, node, deep=True),
)


def read(path, problems):
    try:
        return [document for document in yaml.load_all(path.read_text(), UniqueKeyLoader) if document]
    except yaml.YAMLError as error:
        problems.append(f"{path.name}: is not YAML: {error}")
        return []


def compose_schema():
    package = importlib.util.find_spec("compose").submodule_search_locations[0]
    return json.loads(Path(package, "config/compose_spec.json").read_text())


def check_manifest(name, document, versions, problems):
    for version in versions:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            place = "/".join(str(part) for part in error.path)
            problems.append(f"{name}: Kubernetes {version} refuses {place or 'it'}: {error.message}")


def main():
    folder, versions, problems = Path(sys.argv[1]), sys.argv[2:], []
    manifests = []
    for path in sorted(folder.glob("kubernetes/*.yaml")):
        for document in read(path, problems):
            manifests.append({"file": path.name, "document": document})
            check_manifest(path.name, document, versions, problems)
    compose = next(iter(read(folder / "compose.yaml", problems)), {})
    for error in jsonschema.Draft201909Validator(compose_schema()).iter_errors(compose):
        place = "/".join(str(part) for part in error.path)
        problems.append(f"compose.yaml: {place}: {error.message}")
    json.dump({"manifests": manifests, "compose": compose, "problems": problems}, sys.stdout)


main()
