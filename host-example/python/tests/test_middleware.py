"""The middleware in a FastMCP server, called by a FastMCP client that validates: over stdio, or in one process."""

import asyncio
import json
import subprocess
import sys
import unittest
from pathlib import Path

from support import HOSTILE, Case, exact, rebuilt, rows

try:
    import jsonschema
    from fastmcp import Client
    from fastmcp.client.transports import PythonStdioTransport
    from server import make

    MISSING = None
except ImportError as error:
    MISSING = f"{error}: install the extra `fastmcp`"


@unittest.skipIf(MISSING, MISSING)
class Middleware(Case):
    def run_with(self, use, stdio=False, **settings):
        """Runs `use` with a client of the server."""
        settings = {"dir": str(self.root), **settings}
        if stdio:
            arguments = [json.dumps(settings), str(self.root / "decorated")]
            path = Path(__file__).with_name("server.py")
            transport = PythonStdioTransport(path, args=arguments, python_cmd=sys.executable)
        else:
            transport = make(settings, self.root / "decorated")

        async def run():
            async with Client(transport) as client:
                return await use(client)

        return asyncio.run(run())

    def call(self, tool, arguments, **settings):
        """A result, and the output schema that the server lists for the tool."""

        async def use(client):
            schemas = {listed.name: listed.output_schema for listed in await client.list_tools()}
            return await client.call_tool(tool, arguments, raise_on_error=False), schemas[tool]

        return self.run_with(use, **settings)

    def offloaded(self, result, schema):
        """The descriptor of a reply, after the checks for every offloaded reply."""
        texts = [block.text for block in result.content if block.type == "text"]
        descriptor = next(json.loads(text) for text in texts if text.startswith('{"offloaded"'))
        self.assertTrue(descriptor["offloaded"])
        self.assertFalse(result.is_error)
        if schema is not None:
            self.assertEqual(result.structured_content, descriptor)
            jsonschema.validate(result.structured_content, schema)
        return descriptor, next(self.root.glob("default/*/manifest.json")).parent

    # A large result of every kind of output schema, for a client that validates.
    def test_large_structured_results_are_offloaded_whole(self):
        for tool, expected, pointer in [
            ("records", {"query": "q", "results": rows(3000)}, "results"),
            ("table", {"title": "t", "rows": rows(3000)}, "rows"),
            ("listing", {"result": rows(3000)}, "result"),
        ]:
            with self.subTest(tool):
                self.setUp()
                descriptor, directory = self.offloaded(*self.call(tool, {"count": 3000}, stdio=True))
                text = json.dumps(descriptor, ensure_ascii=False)
                self.assertEqual(rebuilt(directory, text), exact(json.dumps(expected)))
                self.assertLess(len(text), 3000)
                self.assertIn(pointer, descriptor["files"])

    # References inside the schema.
    def test_a_recursive_schema_stays_true_for_small_and_large_results(self):
        result, schema = self.call("tree", {"depth": 7})
        self.offloaded(result, schema)
        result, schema = self.call("tree", {"depth": 2})
        jsonschema.validate(result.structured_content, schema)
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate({"value": 1, "children": [{"value": "wrong", "children": []}]}, schema)

    # What is small goes on as it is.
    def test_small_results_are_those_of_a_server_without_the_middleware(self):
        for tool, arguments in [
            ("records", {"count": 3}), ("listing", {"count": 3}), ("words", {"count": 3}), ("mixed", {"size": 256}),
            ("error", {"size": 70}), ("failing", {"size": 70}),
        ]:  # fmt: skip
            with self.subTest(tool):
                with_it, _ = self.call(tool, arguments)
                without, _ = self.call(tool, arguments, mode="never")
                for name in ("content", "structured_content", "is_error", "meta", "data"):
                    self.assertEqual(repr(getattr(with_it, name)), repr(getattr(without, name)), name)
        self.assertEqual(list(self.root.glob("default/*/manifest.json")), [])

    # The value FastMCP's client makes of a wrapped result.
    def test_a_wrapped_result_keeps_its_type_for_the_client(self):
        result, schema = self.call("listing", {"count": 2})
        self.assertEqual([row.name for row in result.data], ["name 0", "name 1"])
        jsonschema.validate(result.structured_content, schema)

    # Text that is no JSON.
    def test_a_large_text_becomes_a_file(self):
        descriptor, directory = self.offloaded(*self.call("words", {"count": 20_000}))
        self.assertIn("word word", next(directory.glob("*.txt")).read_text())

    # Every kind of part.
    def test_images_and_resources_become_files_and_what_is_small_stays(self):
        result, _ = self.call("mixed", {"size": 102_400}, images="offload")
        descriptor, directory = self.offloaded(result, None)
        files = {path.suffix: path.read_bytes() for path in directory.iterdir() if path.name[0] != "."}
        self.assertEqual(files[".png"], bytes(range(256)) * 400)
        self.assertIn(b"a,b\n1,2\n" * 12_800, files.values())
        self.assertLess(sum(len(repr(block)) for block in result.content), 4000)

    # Errors of tools.
    def test_a_large_error_stays_an_error(self):
        result, _ = self.call("error", {"size": 140_000})
        self.assertTrue(result.is_error)
        text = result.content[0].text
        self.assertTrue(40_000 < len(text) <= 50_000, len(text))
        self.assertTrue(text.startswith("failed ") and "[truncated" in text and text.endswith("failed "))

    def test_truncated_results_keep_to_the_limit_and_to_the_schema(self):
        for tool, arguments in [("records", {"count": 3000}), ("words", {"count": 9000}), ("mixed", {"size": 51_200})]:
            with self.subTest(tool):
                result, schema = self.call(tool, arguments, action="truncate", threshold=5000)
                blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
                wire = {"content": blocks, "structuredContent": result.structured_content, "isError": result.is_error}
                size = len(json.dumps(wire, ensure_ascii=False, separators=(",", ":")))
                self.assertTrue(300 < size <= 5000, size)
                if schema is not None:
                    jsonschema.validate(result.structured_content, schema)
                if tool == "records":
                    cut = result.structured_content
                    self.assertEqual(cut["/results"][0], rows(1)[0])
                    self.assertEqual(len(cut["/results"]) + cut["omitted"]["/results"], 3000)

    def test_rejected_results_are_errors_with_advice(self):
        result, _ = self.call("records", {"count": 3000}, action="reject")
        self.assertTrue(result.is_error)
        self.assertIn("`records`", result.content[0].text)

    def test_tools_that_are_not_named_are_left_alone(self):
        result, schema = self.call("records", {"count": 3000}, tools=["words"])
        self.assertEqual(len(result.structured_content["results"]), 3000)
        self.assertNotIn("anyOf", schema)
        result, schema = self.call("records", {"count": 3000}, schema="strip")
        self.assertIsNone(schema)
        self.assertTrue(result.structured_content["offloaded"])

    # The decorator on a tool of a server.
    def test_a_decorated_tool_of_a_server_answers_with_both(self):
        async def use(client):
            await client.list_tools()
            large = await client.call_tool("decorated", {"count": 3000})
            small = await client.call_tool("decorated", {"count": 2})
            return large, small

        large, small = self.run_with(use, stdio=True, enabled=False)
        self.assertTrue(json.loads(large.content[0].text)["offloaded"])
        self.assertEqual(json.loads(small.content[0].text), rows(2))

    # A policy that does not come back holds nobody up, and each failure mode has its answer.
    def test_a_policy_that_fails_ends_with_the_answer_of_the_failure_mode(self):
        self.need(HOSTILE)
        limits = {"wall_time_ms": 2000}

        async def use(client):
            slow = asyncio.create_task(client.call_tool("records", {"count": 3000}, raise_on_error=False))
            await asyncio.sleep(0.2)
            # The slow call is waiting; another call still works.
            self.assertEqual((await client.call_tool("ping")).content[0].text, "pong")
            is_before = not slow.done()
            return await slow, is_before

        for custom, failure in [
            ("inspect-loop", "open"), ("inspect-loop", "closed"), ("inspect-loop", "truncate"),
            ("loop", "open"), ("loop", "closed"), ("memory", "truncate"), ("trap", "open"), ("inspect-stack", "open"),
        ]:  # fmt: skip
            with self.subTest(custom=custom, failure=failure):
                settings = {"component": str(HOSTILE), "custom": custom, "failure": failure, "limits": limits}
                settings |= {"tools": ["records"], "stdio": custom == "inspect-loop"}
                result, is_before = self.run_with(use, **settings)
                if "loop" in custom:
                    self.assertTrue(is_before, "the other call was held up")
                if failure == "closed":
                    self.assertTrue(result.is_error)
                    self.assertIn("longer than 2000 ms", result.content[0].text)
                elif failure == "open" and custom.startswith("inspect-"):
                    self.assertEqual(len(result.structured_content["results"]), 3000)
                else:
                    self.assertIs(result.structured_content["offloaded"], False)
                    self.assertIn("could not be written", result.structured_content["warning"])
                self.assertEqual(list(self.root.glob("default/*")), [])

    # As in the README, with jq.
    def test_the_example_works(self):
        client = Path(__file__).parents[1] / "examples" / "client.py"
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(client.parents[1]), "HOME": str(self.root)}
        done = subprocess.run([sys.executable, client], env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"the reply has \d{3,4} characters, the files \d{6} bytes")
        self.assertIn('{"id":0,"state":"paid"', done.stdout)


if __name__ == "__main__":
    unittest.main()
