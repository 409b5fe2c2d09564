"""The bill of materials of the command: every crate that is built into it for a platform, as CycloneDX 1.5 in JSON."""

import json
import subprocess
import uuid


def bill(target, version, time):
    """The bill for a Rust target, from `cargo metadata` and the lock file."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    needed = {package: sorted(_linked(nodes[package])) for package in packages}
    (root,) = [package["id"] for package in packages.values() if package["name"] == "lro"]
    reached, waiting = set(), [root]
    while waiting:
        package = waiting.pop()
        if package not in reached:
            reached.add(package)
            waiting.extend(needed[package])
    components = sorted((_component(packages[package]) for package in reached - {root}), key=lambda one: one["bom-ref"])
    depends = [
        {"ref": _reference(packages[package]), "dependsOn": sorted(_reference(packages[one]) for one in needed[package])}
        for package in reached
    ]
    main = {**_component(packages[root]), "type": "application", "name": "lro-filter"}
    text = json.dumps(components)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"lro-filter {version} {target} {text}").urn,
        "version": 1,
        "metadata": {"timestamp": time, "component": main},
        "components": components,
        "dependencies": sorted(depends, key=lambda one: one["ref"]),
    }


def _linked(node):
    """What a crate links: neither what its tests need nor what its build script does."""
    return [one["pkg"] for one in node["deps"] if any(kind["kind"] is None for kind in one["dep_kinds"])]


def _reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def _component(package):
    component = {
        "type": "library",
        "bom-ref": _reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": _reference(package),
    }
    if package["license"]:
        # Old manifests separate alternatives by a slash.
        component["licenses"] = [{"expression": package["license"].replace("/", " OR ").replace("  ", " ")}]
    return component
