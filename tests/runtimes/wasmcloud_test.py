"""The gateway as a component in wasmCloud's `wash dev`, before a server over HTTP: `wasmcloud_test.py TARGET_DIR`."""

import http.server
import json
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request
from pathlib import Path

TARGET = Path(sys.argv.pop()).resolve()
WASH = TARGET / "test-data/venv-runtimes/bin/wash"
VERSION = "2.10.3"


class Upstream(http.server.BaseHTTPRequestHandler):
    """Answers each call with as many records as its argument `count` says."""

    def do_POST(self) -> None:
        body = self.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @staticmethod
    def answer(message: dict) -> bytes:
        records = [{"id": number, "name": f"name {number}"} for number in range(message["params"]["arguments"]["count"])]
        result = {"content": [{"type": "text", "text": json.dumps(records)}]}
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()

    def log_message(self, *_) -> None:
        pass


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Gateway(unittest.TestCase):
    def test_large_results_are_replaced_and_small_ones_go_through(self) -> None:
        upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        self.addCleanup(upstream.shutdown)
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            policy = TARGET / "wasm32-unknown-unknown/component/lro_policy.wasm"
            component = Path(folder) / "edge.wasm"
            subprocess.run([TARGET / "release/lro", "compose", policy, "-o", component, "--http", "edge"], check=True)
            (Path(folder) / ".wash").mkdir()
            variables = {"LRO_UPSTREAM": f"http://127.0.0.1:{upstream.server_port}/mcp"}
            dev = {"command": "true", "component_path": str(component), "address": f"127.0.0.1:{port}"}
            # JSON is YAML.
            config = {"version": VERSION, "dev": dev, "workload": {"environment": {"config": variables}}}
            (Path(folder) / ".wash/config.yaml").write_text(json.dumps(config))
            command = [WASH, "dev", "--non-interactive"]
            with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as wash:
                self.addCleanup(wash.kill)
                log = []
                for line in wash.stdout:
                    log.append(line)
                    if "listening for HTTP requests" in line:
                        break
                self.assertIsNone(wash.poll(), "".join(log))
                threading.Thread(target=wash.stdout.read, daemon=True).start()
                small = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "arguments": {"count": 3}}}
                self.assertEqual(self.post(port, small), Upstream.answer(small))
                large = {**small, "params": {"name": "x", "arguments": {"count": 5000}}}
                content = json.loads(self.post(port, large))["result"]["content"]
                descriptor = json.loads(content[0]["text"])
                self.assertEqual(descriptor["summary"]["records"]["count"], 5000)
                wash.terminate()

    @staticmethod
    def post(port: int, message: dict) -> bytes:
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        url = f"http://127.0.0.1:{port}/mcp"
        request = urllib.request.Request(url, data=json.dumps(message).encode(), headers=headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.read()


if __name__ == "__main__":
    unittest.main()
