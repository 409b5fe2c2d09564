"""Builds the documentation as a site that can be read without a network: `site.py MDBOOK TARGET_DIR`.

The README is its first page, and the tables under its heading "Documentation" are its contents. Each page keeps its place in the
repository, so that links between pages stay as they are. A link to a file that is no page leads to a copy of it; one to a folder
becomes plain text. Fails when a link of the built site leads nowhere.
"""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
FIRST = "README.md"
# Pages that the tables of the README do not have; a reader gets to them by links.
MORE = [
    ("Project", [
        ("Contributing", "CONTRIBUTING.md"),
        ("Changes", "CHANGELOG.md"),
        ("Promises", "tests/promises.md"),
    ]),
    ("Packages", [
        ("Python", "host-example/python/README.md"),
        ("Node", "host-example/node/README.md"),
        ("Edge runtimes", "host-example/edge/README.md"),
        ("A policy in Rust", "guest/template/README.md"),
        ("A policy in JavaScript", "guest/javascript/README.md"),
    ]),
]
BOOK = """[book]
title = "lro-filter"
language = "en"
src = "pages"

[build]
build-dir = "html"
create-missing = false
# They would rename each README, and so break the links to it.
use-default-preprocessors = false

[output.html]
no-section-label = true
preferred-dark-theme = "navy"

[output.html.print]
enable = false

[output.html.search]
boost-title = 3
"""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
HEADING = re.compile(r"^\| to ([a-z ]+) \| \|$")
ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\) \|")


def contents() -> list[tuple[str, list[tuple[str, str]]]]:
    """Parts of the site, each with the titles and paths of its pages."""
    parts: list[tuple[str, list[tuple[str, str]]]] = []
    documentation = (ROOT / FIRST).read_text().split("\n## Documentation\n")[1].split("\n## ")[0]
    for line in documentation.splitlines():
        if heading := HEADING.match(line):
            parts.append((f"To {heading[1]}", []))
        elif row := ROW.match(line):
            path = row[2]
            path = f"{path}/CHANGELOG.md" if (ROOT / path).is_dir() else path
            parts[-1][1].append((row[1], path))
    return parts + MORE


def copy(path: str, pages: set[str], into: Path) -> None:
    """Copies a page, and the files it links to."""
    def target(match: re.Match) -> str:
        mark, text, link = match.groups()
        place = urlsplit(link)
        if place.scheme or not place.path:
            return match[0]
        name = os.path.normpath(PurePosixPath(path).parent / unquote(place.path))
        linked = ROOT / name
        if name in pages:
            return match[0]
        if not linked.is_file():
            return text
        copied = into / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        # What a browser would offer to save, it shows.
        shown = name if copied.suffix in {".svg", ".png", ".json", ".txt"} else f"{name}.txt"
        shutil.copyfile(linked, into / shown)
        return f"{mark}[{text}]({link.replace(place.path, place.path + shown[len(name):], 1)})"

    page = into / path
    page.parent.mkdir(parents=True, exist_ok=True)
    # Code is not searched for links.
    pieces = re.split(r"(^```.*?^```$)", (ROOT / path).read_text(), flags=re.DOTALL | re.MULTILINE)
    page.write_text("".join(piece if number % 2 else LINK.sub(target, piece) for number, piece in enumerate(pieces)))


class Page(HTMLParser):
    """The links of a page, and what can be linked to in it."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in {"href", "src"} and value:
                self.links.append(value)


def broken(html: Path) -> list[str]:
    """The links that lead nowhere, or to another machine as the page is read."""
    parsed = {path: Page(path.read_text()) for path in html.rglob("*.html")}
    wrong = []
    for path, page in sorted(parsed.items()):
        # Of the one a server decides where it is, and the other is part of pages.
        if path.name in {"404.html", "toc.html"}:
            continue
        for link in page.links:
            place = urlsplit(link)
            if place.scheme in {"http", "https", "data", "mailto"}:
                continue
            to = (path.parent / unquote(place.path)).resolve() if place.path else path
            to = to / "index.html" if to.is_dir() else to
            if not to.is_file():
                wrong.append(f"{path.relative_to(html)}: {link}: there is no such file")
            elif place.fragment and to in parsed and unquote(place.fragment) not in parsed[to].anchors:
                wrong.append(f"{path.relative_to(html)}: {link}: there is no such heading")
    return wrong


def main(mdbook: str, target: str) -> None:
    site = Path(target).resolve() / "site"
    shutil.rmtree(site, ignore_errors=True)
    parts = contents()
    paths = [FIRST] + [path for _, part in parts for _, path in part]
    if twice := sorted({path for path in paths if paths.count(path) > 1}):
        sys.exit(f"site: {', '.join(twice)}: listed twice")
    for path in paths:
        copy(path, set(paths), site / "pages")
    summary = ["# Contents", "", f"[lro-filter]({FIRST})", ""]
    for title, part in parts:
        summary += [f"# {title}", "", *(f"- [{name}]({path})" for name, path in part), ""]
    (site / "pages/SUMMARY.md").write_text("\n".join(summary))
    (site / "book.toml").write_text(BOOK)
    subprocess.run([mdbook, "build", str(site)], check=True)
    if wrong := broken(site / "html"):
        sys.exit("\n".join(["site: links lead nowhere:", *wrong]))
    print(f"{len(paths)} pages: {PurePosixPath(target)}/site/html/index.html")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: site.py MDBOOK TARGET_DIR")
    main(*sys.argv[1:])
