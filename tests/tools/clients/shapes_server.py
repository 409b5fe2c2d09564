"""Results in the shapes that servers give them, on stdio: shapes_server.py DATA_DIRECTORY

Runs with FastMCP 4 and with the FastMCP of the official SDK 1.x, whose lists become one text block per element. The data
are those of the npm package vega-datasets; tables are printed by the sqlite3 command.
"""

import csv
import io
import json
import logging
import pathlib
import subprocess
import sys

try:
    from fastmcp import FastMCP
except ModuleNotFoundError:
    from mcp.server.fastmcp import FastMCP

server = FastMCP("shapes")
data = pathlib.Path(sys.argv[1])


def load(name):
    return json.loads((data / name).read_text())


@server.tool()
def movies() -> list:
    """All movies, one value each."""
    return load("movies.json")[:1500]


@server.tool()
def names() -> list[str]:
    """Titles of movies with their year."""
    return [f"{movie['Title']} ({movie['Release Date']})" for movie in load("movies.json")]


@server.tool()
def sentence() -> str:
    """A sentence before the JSON."""
    found = load("movies.json")[:800]
    return f"Found {len(found)} movies:\n\n" + json.dumps(found, indent=2)


@server.tool()
def fenced() -> str:
    """JSON in a fenced code block under a heading."""
    return "### Result\n```json\n" + json.dumps(load("cars.json"), indent=1) + "\n```\n"


@server.tool()
def paragraphs() -> str:
    """One JSON value in each of several paragraphs."""
    return "\n\n".join(json.dumps(car) for car in load("cars.json"))


@server.tool()
def lines() -> str:
    """JSON Lines."""
    return "".join(json.dumps(car) + "\n" for car in load("cars.json"))


@server.tool()
def sequence() -> str:
    """JSON values one after another, each over several lines."""
    return "\n".join(json.dumps(car, indent=2) for car in load("cars.json"))


@server.tool()
def split() -> str:
    """A table as JSON: columns and rows apart."""
    cars = load("cars.json")
    columns = list(cars[0])
    return json.dumps({"columns": columns, "rows": [[car[column] for column in columns] for car in cars]})


@server.tool()
def side_by_side() -> str:
    """A table as JSON: one array per column."""
    cars = load("cars.json")
    return json.dumps({column: [car[column] for car in cars] for column in cars[0]})


@server.tool()
def header_row() -> str:
    """A table as JSON: the first row has the names."""
    cars = load("cars.json")
    return json.dumps([list(cars[0]), *(list(car.values()) for car in cars)])


@server.tool()
def representation() -> str:
    """What str() makes of a list of dictionaries."""
    return str(load("cars.json"))


@server.tool()
def semicolons() -> str:
    """A table separated by semicolons, with quotes and line breaks in fields."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=";", lineterminator="\r\n")
    writer.writerow(["number", "title", "note"])
    for number, movie in enumerate(load("movies.json")[:1500]):
        writer.writerow([f"{number:05}", movie["Title"], f'said "{movie["Director"]}";\nthen left'])
    return text.getvalue()


@server.tool()
def sql(query: str, mode: str) -> str:
    """What the sqlite3 command prints about the airports, in one of its output modes."""
    script = f".mode csv\n.import '{data / 'airports.csv'}' airports\n.mode {mode}\n.headers on\n{query};\n"
    return subprocess.run(["sqlite3"], input=script, capture_output=True, text=True, check=True).stdout


@server.tool()
def difference(old: str, new: str) -> str:
    """What git says about two folders."""
    command = ["git", "diff", "--no-index", "--no-prefix", old, new]
    return subprocess.run(command, capture_output=True, text=True).stdout


@server.tool()
def log(count: int) -> str:
    """Lines of a log as Python's logging module writes them."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("2026-11-20 09:%(minute)02d:%(second)02d,000 %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("shop.orders")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.handlers = [handler]
    for number in range(count):
        when = {"minute": number // 60 % 60, "second": number % 60}
        logger.info("order %d accepted in %d ms", number, number * 7 % 450, extra=when)
        if number % 97 == 0:
            logger.error("order %d failed: connection to 10.0.0.%d refused", number, number % 250, extra=when)
        if number % 211 == 0:
            logger.warning("queue has %d entries", number, extra=when)
    return text.getvalue()


if __name__ == "__main__":
    server.run()
