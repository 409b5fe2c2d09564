"""Begins jobs over HTTP until it is killed: jobs_client.py URL

Prints the handle of each job that it knows of.
"""

import http.client
import itertools
import json
import sys
import urllib.parse

url = urllib.parse.urlsplit(sys.argv[1])
connection = http.client.HTTPConnection(url.hostname, url.port)
headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def post(message):
    connection.request("POST", url.path, json.dumps({"jsonrpc": "2.0", **message}), headers)
    response = connection.getresponse()
    body = response.read().decode()
    headers.setdefault("Mcp-Session-Id", response.headers.get("Mcp-Session-Id", ""))
    lines = [line.removeprefix("data:") for line in body.splitlines() if line.startswith(("data:", "{"))]
    return json.loads(lines[-1]) if lines else None


about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "jobs", "version": "1"}}
post({"id": 0, "method": "initialize", "params": about})
post({"method": "notifications/initialized"})
for number in itertools.count(1):
    params = {"name": "slow", "arguments": {"number": number}}
    answer = post({"id": number, "method": "tools/call", "params": params})
    print(json.loads(answer["result"]["content"][0]["text"])["job"], flush=True)
