#!/usr/bin/env python3
"""Puts a built program into packages: dist.py --program PATH --target TRIPLE --output DIR

Each platform that the program is built for is one run; `--finish` then writes what is about all of them: the package for npm
that picks one, the bill of materials, Homebrew and Scoop, the checksums, and with MINISIGN_KEY their signature.

The same input gives the same bytes: files have the time of SOURCE_DATE_EPOCH, else that of the last commit.
"""

import argparse
import base64
import csv
import dataclasses
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

from bill import bill


HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NAME = "lro-filter"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# Of distroless images too: a user without a name and without rights.
NOBODY = 65532


@dataclasses.dataclass(frozen=True)
class Platform:
    """How each kind of package names a platform. A wheel, an archive and a package for npm are made for all."""

    node: str
    wheel: str
    debian: str | None = None
    container: str | None = None
    homebrew: str | None = None

    @property
    def suffix(self):
        return ".exe" if self.node.startswith("win32") else ""


# The programs for Linux are static, so one runs with every C library.
PLATFORMS = {
    "x86_64-unknown-linux-musl": Platform(
        "linux-x64", "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64", "amd64", "amd64", "on_linux on_intel"
    ),
    "aarch64-unknown-linux-musl": Platform(
        "linux-arm64", "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64", "arm64", "arm64", "on_linux on_arm"
    ),
    # Only to try the packages: needs the C library of the machine that built it.
    "x86_64-unknown-linux-gnu": Platform("linux-x64", "linux_x86_64", "amd64", "amd64"),
    "aarch64-unknown-linux-gnu": Platform("linux-arm64", "linux_aarch64", "arm64", "arm64"),
    "x86_64-apple-darwin": Platform("darwin-x64", "macosx_11_0_x86_64", homebrew="on_macos on_intel"),
    "aarch64-apple-darwin": Platform("darwin-arm64", "macosx_11_0_arm64", homebrew="on_macos on_arm"),
    "x86_64-pc-windows-gnu": Platform("win32-x64", "win_amd64"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="where packages go")
    parser.add_argument("--program", type=Path, help="the program, as cargo built it")
    parser.add_argument("--target", choices=PLATFORMS, help="what it was built for")
    parser.add_argument("--lro", type=Path, help="the command of this machine, which writes the manual [default: the program]")
    parser.add_argument("--quick", action="store_true", help="compress little, to try the packages")
    parser.add_argument("--finish", action="store_true", help="write what is about all platforms")
    arguments = parser.parse_args()
    if arguments.finish == bool(arguments.program and arguments.target):
        parser.error("either --program and --target, or --finish")
    if arguments.quick:
        global LEVEL
        LEVEL = 1
    # Packages keep the modes of folders.
    os.umask(0o022)
    output = arguments.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    if arguments.finish:
        finish(output)
    else:
        program = arguments.program.resolve()
        package(program, arguments.target, (arguments.lro or program).resolve(), output)


def package(program, target, lro, output):
    platform = PLATFORMS[target]
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        shared = stage / "shared"
        run(lro, "generate", "man", shared / "man")
        run(lro, "generate", "completions", shared / "completions")
        archive(stage / "archive", program, shared, target, platform, output)
        npm_platform(stage / "npm", program, platform, output)
        wheel(stage / "wheel", program, platform, output)
        if platform.debian:
            debian(stage / "debian", program, shared, platform, output)
        if platform.container:
            container(program, platform, output)


def archive(stage, program, shared, target, platform, output):
    """`NAME-VERSION-TARGET.tar.gz`, or `.zip` for Windows, with one folder of that name."""
    name = f"{NAME}-{VERSION}-{target}"
    folder = stage / name
    copy(program, folder / "bin" / f"lro{platform.suffix}", 0o755)
    for file in ("README.md", "LICENSE", "CHANGELOG.md"):
        copy(ROOT / file, folder / file)
    for page in sorted((shared / "man").iterdir()):
        copy(page, folder / "share/man/man1" / page.name)
    completions(shared, folder / "share", "site-functions")
    if platform.suffix:
        with zipfile.ZipFile(output / f"{name}.zip", "w") as file:
            for path in files(stage):
                add_to_zip(file, str(path.relative_to(stage)), path.read_bytes(), path.stat().st_mode & 0o777)
    else:
        (output / f"{name}.tar.gz").write_bytes(zipped(tarred(stage)))


def completions(shared, share, zsh):
    copy(shared / "completions/lro", share / "bash-completion/completions/lro")
    copy(shared / "completions/lro.fish", share / "fish/vendor_completions.d/lro.fish")
    copy(shared / "completions/_lro", share / "zsh" / zsh / "_lro")


def npm_platform(stage, program, platform, output):
    """The program for one platform, which npm installs as an optional dependency of the package for all."""
    system, processor = platform.node.split("-")
    manifest = {
        "name": f"@{NAME}/{platform.node}",
        "version": VERSION,
        "description": f"The program of {NAME} for {system} on {processor}",
        "license": "Apache-2.0",
        "os": [system],
        "cpu": [processor],
        "files": ["bin"],
        # Yarn otherwise leaves it in an archive, which cannot be executed.
        "preferUnplugged": True,
    }
    copy(program, stage / "bin" / f"lro{platform.suffix}", 0o755)
    copy(ROOT / "LICENSE", stage / "LICENSE")
    write_json(stage / "package.json", manifest)
    npm_pack(stage, output)


def npm_main(stage, output):
    """The package for all platforms: the library of `host-example/node`, and a command that runs the program of one."""
    source = ROOT / "host-example/node"
    need(source / "component", "the package for Node is not built")
    manifest = json.loads((source / "package.json").read_text())
    check_version(source / "package.json", manifest["version"], VERSION)
    for name in manifest["files"]:
        copy_all(source / name, stage / name)
    for key in ("private", "scripts", "devDependencies"):
        del manifest[key]
    # Only packages that this release has: somebody else could publish another under its name.
    made = [name for name in sorted({one.node for one in PLATFORMS.values()}) if npm_file(output, name).exists()]
    manifest["optionalDependencies"] = {f"@{NAME}/{name}": VERSION for name in made}
    write_json(stage / "package.json", manifest)
    copy(source / "README.md", stage / "README.md")
    copy(ROOT / "LICENSE", stage / "LICENSE")
    npm_pack(stage, output)


def npm_file(output, platform):
    return output / f"{NAME}-{platform}-{VERSION}.tgz"


def npm_pack(stage, output):
    run("npm", "pack", "--silent", "--pack-destination", output, cwd=stage, stdout=subprocess.DEVNULL)


def wheel(stage, program, platform, output):
    """The library of `host-example/python` and the program, under both of its names."""
    source = ROOT / "host-example/python"
    need(source / "lro_filter/lro_composed.wasm", "the package for Python is not built")
    # Built in a copy: setuptools leaves folders behind.
    for name in ("pyproject.toml", "README.md", "lro_filter"):
        copy_all(source / name, stage / "source" / name)
    copy(ROOT / "LICENSE", stage / "source/LICENSE")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir"]
    run(*command, stage / "built", stage / "source")
    (built,) = (stage / "built").iterdir()
    # Python writes 0.2.0-rc.1 as 0.2.0rc1.
    version = re.sub(r"-(a|b|rc)[a-z]*\.", r"\1", VERSION)
    check_version(built, built.name.split("-")[1], version)
    base = f"lro_filter-{version}"
    records = io.StringIO()
    with (
        zipfile.ZipFile(built) as pure,
        zipfile.ZipFile(output / f"{base}-py3-none-{platform.wheel}.whl", "w") as file,
    ):

        def add(name, content, mode=0o644):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            csv.writer(records, lineterminator="\n").writerow([name, f"sha256={digest}", len(content)])
            add_to_zip(file, name, content, mode)

        for name in sorted(pure.namelist()):
            content = pure.read(name)
            if name == f"{base}.dist-info/WHEEL":
                tags = "".join(f"Tag: py3-none-{tag}\n" for tag in platform.wheel.split("."))
                content = f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\n{tags}\n".encode()
            if not name.endswith(("/RECORD", "/")):
                add(name, content)
        scripts = f"{base}.data/scripts"
        add(f"{scripts}/{NAME}{platform.suffix}", program.read_bytes(), 0o755)
        if platform.suffix:
            add(f"{scripts}/lro.bat", f'@"%~dp0{NAME}.exe" %*\r\n'.encode(), 0o755)
        else:
            # Links lead to it, where a tool puts commands into another folder.
            short = f'#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/{NAME}" "$@"\n'
            add(f"{scripts}/lro", short.encode(), 0o755)
        records.write(f"{base}.dist-info/RECORD,,\n")
        add_to_zip(file, f"{base}.dist-info/RECORD", records.getvalue().encode(), 0o644)


def debian(stage, program, shared, platform, output):
    share, documents = stage / "usr/share", stage / "usr/share/doc" / NAME
    copy(program, stage / "usr/bin/lro", 0o755)
    for page in sorted((shared / "man").iterdir()):
        write(share / "man/man1" / f"{page.name}.gz", zipped(page.read_bytes(), 9))
    completions(shared, share, "vendor-completions")
    copy(HERE / "copyright", documents / "copyright")
    write(documents / "changelog.gz", zipped((ROOT / "CHANGELOG.md").read_bytes(), 9))
    # With a dash, 0.2.0-rc.1 would be a later one than 0.2.0.
    version = f"{VERSION.replace('-', '~')}-1"
    day = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(EPOCH))
    entry = filled(HERE / "changelog", version=version, day=day)
    write(documents / "changelog.Debian.gz", zipped(entry.encode(), 9))
    kibibytes = sum(path.stat().st_size // 1024 + 1 for path in files(stage))
    control = filled(HERE / "control", version=version, architecture=platform.debian, kibibytes=kibibytes)
    write(stage / "DEBIAN/control", control.encode())
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(stage)}\n" for path in files(stage / "usr")]
    write(stage / "DEBIAN/md5sums", "".join(sums).encode())
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    command = ["dpkg-deb", "--root-owner-group", "-Zgzip" if LEVEL == 1 else "-Zxz", "--build", stage, output]
    run(*command, stdout=subprocess.DEVNULL, env=environment)


def container(program, platform, output):
    """An image in the layout of OCI, which `docker load` and `podman load` read too; and a folder for `docker build`."""
    context = output / "container"
    shutil.rmtree(context, ignore_errors=True)
    root = context / "root"
    copy(program, root / "usr/bin/lro", 0o755)
    copy(ROOT / "LICENSE", root / "usr/share/doc" / NAME / "LICENSE")
    # Servers over HTTPS are checked with the certificates of the system.
    if CERTIFICATES.exists():
        copy(CERTIFICATES, root / "etc/ssl/certs/ca-certificates.crt")
    copy(HERE / "Dockerfile", context / "Dockerfile")
    layer = tarred(root, folders={"data": NOBODY, "tmp": 0})
    kind, packed = compressed(layer)
    configuration = {
        "created": TIME,
        "architecture": platform.container,
        "os": "linux",
        # As in the Dockerfile.
        "config": {
            "User": f"{NOBODY}:{NOBODY}",
            "Env": ["HOME=/data", "MCP_LRO_DIR=/data/offloads"],
            "Entrypoint": ["/usr/bin/lro"],
            "Cmd": ["--help"],
            "Volumes": {"/data": {}},
            "Labels": {"org.opencontainers.image.version": VERSION, "org.opencontainers.image.licenses": "Apache-2.0"},
        },
        "rootfs": {"type": "layers", "diff_ids": [sha256(layer)]},
        "history": [{"created": TIME, "created_by": NAME}],
    }
    blobs = {}

    def blob(kind, content):
        blobs[sha256(content)] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": sha256(content), "size": len(content)}

    described = blob("config.v1+json", encoded(configuration)), blob(kind, packed)
    media = "application/vnd.oci.image.manifest.v1+json"
    manifest = {"schemaVersion": 2, "mediaType": media, "config": described[0], "layers": [described[1]]}
    tag = f"{NAME}:{VERSION}"
    index = {**blob("manifest.v1+json", encoded(manifest)), "annotations": {"org.opencontainers.image.ref.name": VERSION}}
    path = {digest: f"blobs/{digest.replace(':', '/')}" for digest in blobs}
    legacy = {"Config": path[described[0]["digest"]], "RepoTags": [tag], "Layers": [path[described[1]["digest"]]]}
    with tempfile.TemporaryDirectory() as folder:
        layout = Path(folder)
        write(layout / "oci-layout", encoded({"imageLayoutVersion": "1.0.0"}))
        write(layout / "index.json", encoded({"schemaVersion": 2, "manifests": [index]}))
        write(layout / "manifest.json", encoded([legacy]))
        for digest, content in blobs.items():
            write(layout / path[digest], content)
        (output / f"{NAME}-{VERSION}-image-{platform.container}.tar").write_bytes(tarred(layout))


def finish(output):
    with tempfile.TemporaryDirectory() as folder:
        npm_main(Path(folder), output)
    targets = {target: find(output, target) for target in PLATFORMS if find(output, target)}
    if not targets:
        sys.exit(f"dist.py: no archive in {output}: run it with --program and --target first")
    for target in targets:
        write_json(output / f"{NAME}-{VERSION}-{target}.cdx.json", bill(target, VERSION, TIME))
    indexes(targets, output)
    packages = sorted(path for path in output.iterdir() if path.is_file() and not path.name.startswith("SHA256SUMS"))
    sums = "".join(f"{sha256(path.read_bytes()).removeprefix('sha256:')}  {path.name}\n" for path in packages)
    (output / "SHA256SUMS").write_text(sums)
    key = os.environ.get("MINISIGN_KEY")
    if key:
        if not shutil.which("minisign"):
            sys.exit("dist.py: MINISIGN_KEY is set, and minisign is not installed: apt-get install minisign")
        run("minisign", "-S", "-s", key, "-t", f"{NAME} {VERSION}", "-m", output / "SHA256SUMS")
    for path in [*packages, output / "SHA256SUMS"]:
        print(f"{path.stat().st_size:>12} {path.name}")


def indexes(targets, output):
    """Files for Homebrew and Scoop, which name where a release is: RELEASE_URL, with @version@ for the version."""
    url = os.environ.get("RELEASE_URL")
    if not url:
        print("dist.py: without RELEASE_URL, there are no files for Homebrew and Scoop", file=sys.stderr)
        return
    url = url.replace("@version@", VERSION).rstrip("/")
    digest = {target: sha256(path.read_bytes()).removeprefix("sha256:") for target, path in targets.items()}
    blocks = ""
    for target, path in targets.items():
        if PLATFORMS[target].homebrew:
            system, processor = PLATFORMS[target].homebrew.split()
            lines = f'      url "{url}/{path.name}"\n      sha256 "{digest[target]}"\n'
            blocks += f"  {system} do\n    {processor} do\n{lines}    end\n  end\n"
    if blocks:
        (output / f"{NAME}.rb").write_text(filled(HERE / "homebrew.rb", version=VERSION, blocks=blocks))
    windows = "x86_64-pc-windows-gnu"
    if windows in targets:
        path = targets[windows]
        values = {"version": VERSION, "url": f"{url}/{path.name}", "sha256": digest[windows], "directory": path.stem}
        (output / f"{NAME}.json").write_text(filled(HERE / "scoop.json", **values))


def find(output, target):
    paths = [output / f"{NAME}-{VERSION}-{target}.{ending}" for ending in ("tar.gz", "zip")]
    return next((path for path in paths if path.exists()), None)


def tarred(folder, folders=()):
    """A tar of what is in a folder, of root, and `folders`: empty ones, each with its owner."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            member = tar.gettarinfo(path, str(path.relative_to(folder)))
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = EPOCH
            member.mode = 0o755 if path.is_dir() else path.stat().st_mode & 0o755
            tar.addfile(member, io.BytesIO(path.read_bytes()) if path.is_file() else None)
        for name, owner in dict(folders).items():
            member = tarfile.TarInfo(name)
            member.type, member.mtime = tarfile.DIRTYPE, EPOCH
            member.uid = member.gid = owner
            member.mode = 0o755 if owner else 0o1777
            tar.addfile(member)
    return buffer.getvalue()


def compressed(layer):
    """A layer of an image, and its kind. By zstd it is a quarter smaller than by gzip. Docker from 23 on, and others since 2020, read both."""
    if not shutil.which("zstd"):
        return "layer.v1.tar+gzip", zipped(layer)
    command = ["zstd", "--quiet", "--stdout", "-3" if LEVEL == 1 else "-19"]
    return "layer.v1.tar+zstd", subprocess.run(command, input=layer, stdout=subprocess.PIPE, check=True).stdout


def zipped(content, level=None):
    return gzip.compress(content, level or LEVEL, mtime=0)


def add_to_zip(file, name, content, mode):
    member = zipfile.ZipInfo(name, time.gmtime(EPOCH)[:6])
    member.external_attr = (0o100000 | mode) << 16
    file.writestr(member, content, zipfile.ZIP_DEFLATED, LEVEL)


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def copy(source, target, mode=0o644):
    write(target, source.read_bytes(), mode)


def copy_all(source, target):
    for path in files(source) if source.is_dir() else [source]:
        if "__pycache__" not in path.parts:
            copy(path, target / path.relative_to(source), path.stat().st_mode & 0o755)


def write(path, content, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def write_json(path, value):
    write(path, (json.dumps(value, indent=2) + "\n").encode())


def encoded(value):
    return json.dumps(value, separators=(",", ":")).encode()


def sha256(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def filled(template, **values):
    return re.sub(r"@(\w+)@", lambda found: str(values[found[1]]), template.read_text())


def need(path, what):
    if not path.exists():
        sys.exit(f"dist.py: {what}: run make packages ({path} is missing)")


def check_version(path, version, expected):
    if version != expected:
        sys.exit(f"dist.py: {path} has the version {version}, not {expected} as Cargo.toml: see tests/tools/release.sh")


def run(*command, **options):
    try:
        subprocess.run([str(word) for word in command], check=True, **options)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"dist.py: {error}")


def workspace_version():
    """The version of the workspace, which stands once in Cargo.toml."""
    text = (ROOT / "Cargo.toml").read_text()
    return re.search(r'^\[workspace\.package\]\nversion = "([^"]+)"', text, re.MULTILINE)[1]


def epoch():
    given = os.environ.get("SOURCE_DATE_EPOCH")
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    # A zip knows no time before 1980.
    return max(int(given or subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout), 315532800)


# Of gzip, ZIP and xz, from 1 to 9.
LEVEL = 6
VERSION = workspace_version()
EPOCH = epoch()
TIME = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH))


if __name__ == "__main__":
    main()
