"""Components for ACT in its command, beside the Rust host: `act_test.py TARGET_DIR`."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TARGET = Path(sys.argv.pop()).resolve()
BUILT = TARGET / "wasm32-unknown-unknown/component"
LRO = TARGET / "release/lro"
ACT = TARGET / "test-data/venv-runtimes/bin/act"


def run(*words, text=None) -> str:
    done = subprocess.run([str(word) for word in words], input=text, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Server:
    """A component that `act run --mcp` serves."""

    def __init__(self, component: Path, directory: Path):
        command = [ACT, "run", "--mcp", "--no-audit", "--allow", f"fs={directory}", "--allow", f"fs={directory}/**", component]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.id = 0
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.ask("initialize", params)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict) -> None:
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict) -> dict:
        self.id += 1
        self.send({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params})
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.id:
                return answer
        raise AssertionError("act has ended")

    def call(self, tool: str, **arguments) -> dict:
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        return answer.get("result") or answer

    def text(self, tool: str, **arguments) -> str:
        return self.call(tool, **arguments)["content"][0]["text"]

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


class Components(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.directory = Path(self.folder.name) / "offloads"
        self.directory.mkdir(mode=0o700)

    def served(self, behind, *options) -> Server:
        component = Path(self.folder.name) / "composed.wasm"
        run(LRO, "compose", BUILT / "lro_policy.wasm", "-o", component, "--act", behind, "--act-dir", self.directory, *options)
        server = Server(component, self.directory)
        self.addCleanup(server.end)
        return server

    def offloaded(self, server: Server, **arguments) -> dict:
        return json.loads(server.text("records", **arguments))

    def test_offloads_of_the_rust_host_are_read(self) -> None:
        records = "".join(json.dumps({"id": number, "name": f"name {number}"}) + "\n" for number in range(5000))
        result = json.dumps({"content": [{"type": "text", "text": records}]})
        run(LRO, "offload", "--dir", self.directory, "--tenant", "default", "-", text=result)
        handle = next((self.directory / "default").iterdir()).name
        server = self.served("reader")
        tools = [tool["name"] for tool in server.ask("tools/list", {})["result"]["tools"]]
        self.assertEqual(sorted(tools), ["lro_extract", "lro_read"])
        for question, options in [
            ({"count": True, "where": [{"field": "id", "op": "lt", "value": 100}]}, ["--where", "id lt 100", "--count"]),
            ({"limit": 3}, ["--limit", "3"]),
        ]:
            of_command = run(LRO, "extract", "--dir", self.directory, "--format", "json", handle, *options)
            answer = json.loads(server.text("lro_extract", handle=handle, **question))
            # The tool also says how to go on.
            answer.pop("advice", None)
            self.assertEqual(answer, json.loads(of_command))
        self.assertIn("name 0", server.text("lro_read", handle=handle, section="records"))

    def test_a_missing_offload_and_wrong_arguments_are_errors(self) -> None:
        server = self.served("reader")
        missing = json.dumps(server.call("lro_read", handle="01M8490HTVFQBCBZEZZHXGSEJT"))
        self.assertIn("there is no offload", missing)
        self.assertIn("error", json.dumps(server.call("lro_extract", handle=7)).lower())

    def test_large_results_of_a_wrapped_component_are_offloaded(self) -> None:
        server = self.served(BUILT / "lro_test_tools.wasm")
        for stream in [False, True]:
            descriptor = self.offloaded(server, count=3000, stream=stream)
            handle = json.dumps(descriptor)
            offload = next(path for path in (self.directory / "default").iterdir() if path.name in handle)
            lines = (offload / "items.jsonl").read_text().splitlines()[1:]
            expected = [{"id": n, "name": f"record {n}", "even": n % 2 == 0} for n in range(3000)]
            self.assertEqual([json.loads(line) for line in lines], expected)
            of_rust = run(LRO, "extract", "--dir", self.directory, "--format", "json", offload.name, "--count")
            answer = server.text("lro_extract", handle=offload.name, count=True)
            self.assertEqual(json.loads(answer), json.loads(of_rust))

    def test_small_results_and_errors_go_through(self) -> None:
        server = self.served(BUILT / "lro_test_tools.wasm")
        self.assertEqual(json.loads(server.text("records", count=1)), {"items": [{"id": 0, "name": "record 0", "even": True}]})
        self.assertIn("it failed", json.dumps(server.call("fail")))
        self.assertFalse((self.directory / "default").exists())

    def test_settings_are_those_of_the_composition(self) -> None:
        server = self.served(BUILT / "lro_test_tools.wasm", "--act-settings", '{"threshold":100}')
        self.offloaded(server, count=20)
        self.assertEqual(len(list((self.directory / "default").iterdir())), 1)

    def test_limits_are_those_of_the_composition(self) -> None:
        tools = BUILT / "lro_test_tools.wasm"
        few = self.served(tools, "--act-store-offloads", "2", "--act-result-bytes", "200000")
        for count in [3000, 3001, 3002]:
            self.offloaded(few, count=count)
        lines = [len((kept / "items.jsonl").read_text().splitlines()) for kept in (self.directory / "default").iterdir()]
        self.assertEqual(sorted(lines), [3002, 3003], "the oldest made room")
        self.assertIn("more than 200000 bytes", json.dumps(few.call("records", count=9000, stream=True)))
        small = self.served(tools, "--act-store-bytes", "1000")
        self.assertIn("could not be written", json.dumps(small.call("records", count=3000)))


if __name__ == "__main__":
    unittest.main()
