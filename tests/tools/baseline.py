#!/usr/bin/env python3
"""The least a plain-Python offloader has to do, as a baseline for the benchmarks.

    baseline.py FILE REPETITIONS

FILE holds {"results": [...], ...} as compact JSON. Prints a JSON object with the median seconds of
  offload  from objects: one json.dumps to count characters, one json.dumps a record into a JSONL file
  gateway  from the bytes of a JSON-RPC response: json.loads twice, the above, json.dumps of the reply
No schema, no digest, no fsync, no atomic publishing.
"""
import json
import os
import statistics
import sys
import tempfile
import time


def offload(data, directory):
    characters = len(json.dumps(data))
    path = os.path.join(directory, "results.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps({"type": "mcp_lro", "count": len(data["results"])}) + "\n")
        for record in data["results"]:
            file.write(json.dumps(record) + "\n")
    return {"offloaded": True, "characters": characters, "files": {"results": path}}


def gateway(message, directory):
    response = json.loads(message)
    descriptor = offload(json.loads(response["result"]["content"][0]["text"]), directory)
    response["result"]["content"][0]["text"] = json.dumps(descriptor)
    return json.dumps(response).encode()


def median_seconds(repetitions, run):
    times = []
    for _ in range(repetitions):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def main():
    path, repetitions = sys.argv[1], int(sys.argv[2])
    with open(path, encoding="utf-8") as file:
        text = file.read()
    message = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}], "isError": False}},
        ensure_ascii=False, separators=(",", ":")).encode()
    with tempfile.TemporaryDirectory() as directory:
        through = median_seconds(repetitions, lambda: gateway(message, directory))
        data = json.loads(text)
        del text, message
        objects = median_seconds(repetitions, lambda: offload(data, directory))
    print(json.dumps({"offload": objects, "gateway": through}))


if __name__ == "__main__":
    main()
