#!/usr/bin/env python3
"""DuckDB, as a baseline for the benchmarks.

    duck.py FILE

FILE holds the records of tests/benches/shared/synthetic.rs as JSON lines. Answers each line of standard input,
{"sql": ..., "given": ..., "threads": ...}, with a line {"seconds": ..., "rows": [...]}. `records` in the SQL is FILE, read with the
columns below when they are given, else with those that DuckDB detects.
"""
import json
import sys
import time

import duckdb

COLUMNS = {
    "id": "BIGINT", "score": "DOUBLE", "title": "VARCHAR", "category": "VARCHAR", "active": "BOOLEAN",
    "note": "VARCHAR", "meta": "STRUCT(owner VARCHAR, lat DOUBLE, tags VARCHAR[])", "created": "BIGINT",
}


def source(path, given):
    return f"read_ndjson({path!r}, columns = {COLUMNS!r})" if given else f"read_ndjson({path!r})"


def answer(connection, path, request):
    sql = request["sql"].replace("records", source(path, request["given"]))
    connection.execute(f"SET threads = {request['threads']}")
    started = time.perf_counter()
    rows = connection.execute(sql).fetchall()
    seconds = time.perf_counter() - started
    names = [column[0] for column in connection.description]
    return {"seconds": seconds, "rows": [dict(zip(names, row)) for row in rows]}


def main():
    connection = duckdb.connect()
    for line in sys.stdin:
        print(json.dumps(answer(connection, sys.argv[1], json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
