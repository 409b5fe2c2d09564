"""Reading back what the middleware offloaded: its tools and resources, by a FastMCP client, and by the Rust command."""

import asyncio
import json
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support import LRO, Case, rows

try:
    from fastmcp import Client
    from fastmcp.exceptions import ToolError
    from fastmcp.utilities.tests import run_server_async
    from server import make

    MISSING = None
except ImportError as error:
    MISSING = f"{error}: install the extra `fastmcp`"


@unittest.skipIf(MISSING, MISSING)
class Reading(Case):
    def run_with(self, use, **settings):
        """Runs `use` with a client of the server."""

        async def run():
            async with Client(make({"dir": str(self.root), **settings}, self.root / "decorated")) as client:
                return await use(client)

        return asyncio.run(run())

    # A client without a shell: the descriptor, its recipe, a question, all pages, a resource.
    def test_a_client_asks_about_an_offload_and_reads_it(self):
        async def use(client):
            names = {tool.name for tool in await client.list_tools()}
            self.assertLessEqual({"records", "lro_extract", "lro_read"}, names)
            self.assertIn("lro_extract", client.instructions)
            (template,) = await client.list_resource_templates()
            self.assertEqual(template.uri_template, "lro://{offload}/{section}{?offset,limit}")
            descriptor = (await client.call_tool("records", {"count": 3000})).structured_content
            handle = descriptor["handle"]
            for name, call in descriptor["recipes"].items():
                answer = await client.call_tool("lro_extract", call)
                self.assertGreater(answer.structured_content["total"], 0, name)
            question = {"handle": handle, "section": "results", "where": "owner.name == 'ö3' and id > 2900"}
            answer = (await client.call_tool("lro_extract", question | {"select": "id"})).structured_content
            self.assertEqual(answer["results"], [{"id": n} for n in range(2901, 3000) if n % 7 == 3])
            read, arguments = [], {"handle": handle, "section": "results"}
            while True:
                page = (await client.call_tool("lro_read", arguments)).structured_content
                read += page["records"]
                if page["next"] is None:
                    break
                arguments = {"handle": handle, "section": "results", "cursor": page["next"]}
            self.assertEqual(read, rows(3000))
            (content,) = await client.read_resource(f"lro://{handle}/results?offset=2990&limit=5")
            self.assertEqual([json.loads(line) for line in content.text.splitlines()], rows(3000)[2990:2995])

        self.run_with(use, abilities=("extract-tool", "read-tool"))

    # The three questions of a model that has no shell, over HTTP: how many, which, and what else is there.
    def test_a_client_over_http_needs_no_shell(self):
        async def run():
            server = make({"dir": str(self.root)}, self.root / "decorated")
            async with run_server_async(server, transport="http") as url, Client(url) as client:
                descriptor = (await client.call_tool("records", {"count": 3000})).structured_content
                self.assertNotIn("jq_recipes", descriptor)
                self.assertNotIn(str(self.root), json.dumps(descriptor))
                about = {"handle": descriptor["handle"], "section": "results"}
                count = await client.call_tool("lro_extract", about | {"where": "score > 1000", "count": True})
                self.assertEqual(count.structured_content["results"], [{"count": 999}])
                most = await client.call_tool("lro_extract", about | {"sort": "-score", "select": "id", "limit": 2})
                self.assertEqual(most.structured_content["results"], [{"id": 2999}, {"id": 2998}])
                groups = await client.call_tool("lro_extract", about | {"group": "owner.name"})
                self.assertEqual(len(groups.structured_content["results"]), 7)

        asyncio.run(run())

    def test_what_cannot_be_answered_is_said(self):
        async def use(client):
            handle = (await client.call_tool("records", {"count": 3000})).structured_content["handle"]
            for tool, arguments, expected in [
                ("lro_extract", {"handle": handle, "section": "results", "where": "nope == 1"}, "no record has the field"),
                ("lro_extract", {"handle": "01K00000000000000000000000"}, "there is no offload"),
                ("lro_extract", {"handle": "../default"}, "is not a handle"),
                ("lro_read", {"handle": handle, "section": "results", "cursor": "x"}, "invalid cursor"),
            ]:
                result = await client.call_tool(tool, arguments, raise_on_error=False)
                self.assertTrue(result.is_error)
                self.assertIn(expected, result.content[0].text)
            with self.assertRaisesRegex(Exception, "there is no"):
                await client.read_resource("lro://01K00000000000000000000000/results")

        self.run_with(use)

    # A question is bounded as a policy is.
    def test_a_question_ends_at_the_time_limit(self):
        async def use(client):
            handle = (await client.call_tool("records", {"count": 3000})).structured_content["handle"]
            arguments = {"handle": handle, "section": "results", "jq": "last(range(1e12))"}
            return await client.call_tool("lro_extract", arguments, raise_on_error=False)

        result = self.run_with(use, limits={"wall_time_ms": 3000})
        self.assertTrue(result.is_error)
        self.assertIn("the question took longer than 3000 ms", result.content[0].text)

    def test_abilities_say_which_tools_there_are(self):
        for abilities, expected in [(("shell",), set()), (("read-tool",), {"lro_read"})]:

            async def use(client):
                descriptor = (await client.call_tool("records", {"count": 3000})).structured_content
                self.assertTrue(descriptor["offloaded"])
                templates = await client.list_resource_templates()
                if "lro_extract" not in expected:
                    with self.assertRaises(ToolError):
                        await client.call_tool("lro_extract", {"handle": "01K00000000000000000000000", "count": True})
                return {tool.name for tool in await client.list_tools()}, templates

            names, templates = self.run_with(use, abilities=abilities)
            self.assertEqual({name for name in names if name.startswith("lro_")}, expected)
            self.assertEqual(bool(templates), bool(expected))

    # As in the gateway: the server's own tool stays, and no list has a name twice.
    def test_a_tool_of_the_server_with_the_same_name_is_its_own(self):
        server = make({"dir": str(self.root)}, self.root / "decorated")

        @server.tool(output_schema=None)
        def lro_extract(handle: str) -> str:
            return f"the server has {handle}"

        async def run():
            async with Client(server) as client:
                before = (await client.call_tool("records", {"count": 3000})).structured_content["handle"]
                names = [tool.name for tool in await client.list_tools()]
                self.assertEqual([name for name in names if name.startswith("lro_")], ["lro_extract"])
                answer = await client.call_tool("lro_extract", {"handle": "07"})
                self.assertEqual(answer.content[0].text, "the server has 07")
                # What was offered before the list was known goes on.
                answer = await client.call_tool("lro_extract", {"handle": before, "count": True})
                self.assertEqual(answer.structured_content["results"], [{"count": 3000}])
                descriptor = (await client.call_tool("records", {"count": 3000})).structured_content
                self.assertNotIn("lro_extract", json.dumps(descriptor))

        asyncio.run(run())

    # Both hosts sign with one key, and record offloads alike.
    def test_the_command_goes_on_where_the_tool_stopped(self):
        self.need(LRO)

        async def use(client):
            handle = (await client.call_tool("records", {"count": 3000})).structured_content["handle"]
            arguments = {"handle": handle, "section": "results", "limit": 10}
            return handle, (await client.call_tool("lro_read", arguments)).structured_content

        handle, page = self.run_with(use)
        command = [LRO, "read", handle, "--section", "results", "--cursor", page["next"], "--dir", self.root, "--tenant", "default"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([json.loads(line) for line in done.stdout.splitlines()], rows(3000)[10:20])

    def test_the_tool_reads_what_the_command_offloaded(self):
        self.need(LRO)
        (self.root / "data.json").write_text(json.dumps({"results": rows(3000)}))
        command = [LRO, "offload", self.root / "data.json", "--dir", self.root / "store", "--tenant", "default"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        handle = Path(json.loads(done.stdout)["files"]["results"]).parent.name

        async def use(client):
            answer = await client.call_tool("lro_extract", {"handle": handle, "count": True})
            return answer.structured_content["results"]

        self.assertEqual(self.run_with(use, dir=str(self.root / "store")), [{"count": 3000}])

    # The key appears once, whole, for whoever comes first.
    def test_all_who_need_the_key_get_the_same(self):
        from lro_filter.store import Store

        stores = [Store(self.root, "default", 3600, False, 1 << 30, 1 << 30) for _ in range(8)]
        with ThreadPoolExecutor(8) as threads:
            keys = set(threads.map(Store.cursor_key, stores))
        self.assertEqual([len(key) for key in keys], [32])
        self.assertEqual((self.root / ".cursor-key").stat().st_mode & 0o777, 0o600)


if __name__ == "__main__":
    unittest.main()
