#!/usr/bin/env python3
"""Makes the crates that people install or build on: crates.py --components DIR --output DIR

A crate has to bring what the workspace lays beside it: the interface files, the components, which are built already, and the pages
that its documentation shows. So each is copied with these into a second workspace, and cargo packages them all there. RELEASE_URL
says where the archives of a release are, for `cargo binstall`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# The command, and the library around MCP servers; with what these need.
WANTED = {"lro", "lro-rmcp"}
# What crates.io takes.
BYTES_MAX = 10 << 20
# What crates refer to outside of their folder, and where their copy is.
MOVED = {
    "lro-host": {"wit": "wit", "SECURITY.md": "SECURITY.md"},
    "lro-gateway": {"host-example/docs/how-to/embedding.md": "embedding.md"},
}
BINSTALL = """
[package.metadata.binstall]
pkg-url = "{url}/lro-filter-{{ version }}-{{ target }}.tar.gz"
pkg-fmt = "tgz"
bin-dir = "lro-filter-{{ version }}-{{ target }}/bin/{{ bin }}{{ binary-ext }}"

[package.metadata.binstall.overrides.x86_64-pc-windows-msvc]
pkg-url = "{url}/lro-filter-{{ version }}-x86_64-pc-windows-gnu.zip"
pkg-fmt = "zip"
bin-dir = "lro-filter-{{ version }}-x86_64-pc-windows-gnu/bin/{{ bin }}{{ binary-ext }}"
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--components", type=Path, required=True, help="where cargo has put the components")
    parser.add_argument("--output", type=Path, required=True, help="where crates go; what is there is removed")
    arguments = parser.parse_args()
    output = arguments.output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    stage = output / "workspace"
    crates = wanted()
    for name, folder in crates.items():
        crate(name, folder, stage / name)
    components(arguments.components, stage / "lro-host/components")
    with (stage / "lro/Cargo.toml").open("a") as manifest:
        if url := os.environ.get("RELEASE_URL"):
            manifest.write(BINSTALL.format(url=url.replace("@version@", "{ version }").rstrip("/")))
        else:
            print("crates.py: without RELEASE_URL, `cargo binstall lro` finds no archives")
    workspace(crates, stage)
    cargo("update", "--workspace", "--offline", "--quiet", cwd=stage)
    # The packages are compiled where they are tried.
    cargo("package", "--workspace", "--no-verify", "--allow-dirty", "--locked", "--quiet", "--target-dir", output / "target", cwd=stage)
    for path in sorted((output / "target/package").glob("*.crate")):
        size = path.stat().st_size
        if size > BYTES_MAX:
            raise SystemExit(f"crates.py: {path.name} has {size} bytes, and crates.io takes {BYTES_MAX}")
        path.rename(output / path.name)
        print(f"{size:>12} {path.name}")


def wanted():
    """The crates of the workspace that the wanted ones need, with the folder of each."""
    metadata = json.loads(cargo("metadata", "--locked", "--offline", "--format-version", "1", cwd=ROOT, stdout=subprocess.PIPE))
    members = {package["id"]: package for package in metadata["packages"] if package["id"] in metadata["workspace_members"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found, waiting = {}, [id for id, package in members.items() if package["name"] in WANTED]
    while waiting:
        id = waiting.pop()
        package = members[id]
        if package["name"] in found:
            continue
        found[package["name"]] = Path(package["manifest_path"]).parent
        for dependency in nodes[id]["deps"]:
            needed = any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
            if needed and dependency["pkg"] in members:
                waiting.append(dependency["pkg"])
    return dict(sorted(found.items()))


def crate(name, folder, to):
    """Copies a crate without its tests, with what it refers to."""
    for part in ("Cargo.toml", "src", "build.rs"):
        if (folder / part).exists():
            copy(folder / part, to / part)
    copy(ROOT / "LICENSE", to / "LICENSE")
    for origin, place in MOVED.get(name, {}).items():
        copy(ROOT / origin, to / place)
    for path in to.glob("src/**/*.rs"):
        text = path.read_text()
        for origin, place in MOVED.get(name, {}).items():
            # A macro names a folder from the root of the crate, and `include_str!` from the file.
            for known, base in ((folder, to), (folder / path.parent.relative_to(to), path.parent)):
                text = text.replace(f'"{os.path.relpath(ROOT / origin, known)}', f'"{os.path.relpath(to / place, base)}')
        path.write_text(text)


def components(built, to):
    """Copies the components that the build script of the host lists."""
    names = re.findall(r'\("(\w+\.wasm)", "LRO_', (ROOT / "host-example/host/build.rs").read_text())
    for name in names:
        copy(built / name, to / name)


def workspace(crates, stage):
    """The manifest of the workspace: the crates beside each other, each needed in its version, without profiles."""
    text = (ROOT / "Cargo.toml").read_text()
    version = re.search(r'(?m)^version = "(.+)"$', text)[1]
    text = re.sub(r"(?s)^members = \[.*?^\]$", f"members = {json.dumps(list(crates))}", text, count=1, flags=re.M)
    text = re.sub(r"(?m)^exclude = .*\n", "", text)
    text = re.sub(r"(?m)^(\S+) = \{ path = .* \}$", lambda line: dependency(line[1], crates, version), text)
    text = re.split(r"(?m)^(?:#.*\n)*\[profile\.", text, maxsplit=1)[0]
    (stage / "Cargo.toml").write_text(text)
    copy(ROOT / "Cargo.lock", stage / "Cargo.lock")


def dependency(name, crates, version):
    # Without a version, cargo leaves out what only tests need.
    return f'{name} = {{ path = "{name}", version = "={version}" }}' if name in crates else ""


def copy(origin, to):
    to.parent.mkdir(parents=True, exist_ok=True)
    if origin.is_dir():
        shutil.copytree(origin, to)
    else:
        shutil.copyfile(origin, to)


def cargo(*words, **options):
    return subprocess.run(["cargo", *map(str, words)], check=True, **options).stdout


if __name__ == "__main__":
    main()
