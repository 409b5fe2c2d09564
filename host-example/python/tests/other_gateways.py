"""The plugins for other gateways: each real gateway before a FastMCP server and `lro serve`, asked by a FastMCP client that validates."""

import asyncio
import contextlib
import json
import os
import secrets
import socket
import subprocess
import time
import unittest
import urllib.request
from pathlib import Path

from support import LRO, TARGET, Case, exact, rebuilt, rows

try:
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport
    from fastmcp.utilities.tests import run_server_async
    from server import make

    MISSING = None
except ImportError as error:
    MISSING = f"{error}: install the extra `fastmcp`"

PACKAGE = Path(__file__).parents[1]
START_SECONDS = 300
"""A generous limit for the start of a gateway, which may first lay out its database."""

END_SECONDS = 30
"""What a gateway may take to end."""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@unittest.skipIf(MISSING, MISSING)
class Gateways(Case):
    def installed(self, venv, name):
        """The command of a gateway."""
        path = TARGET / "test-data" / venv / "bin" / name
        if not path.exists():
            self.fail(f"{path} is absent: `make gateways` installs it")
        return path

    def start(self, *command, **variables):
        """A process with its log in the temporary directory, which ends with the test."""
        log = self.root / f"{Path(command[0]).name}.log"
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | variables
        with open(log, "w") as file:
            process = subprocess.Popen(command, env=environment, cwd=self.root, stdout=file, stderr=file)
        self.addCleanup(self.end, process)
        return process, log

    def end(self, process):
        """Ends a process, also one that waits for its clients."""
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def wait_for(self, ready, process, log):
        """What `ready` returns when it is neither empty nor an error."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(OSError):
                if found := ready():
                    return found
            time.sleep(0.1)
        self.fail(f"{process.args[0]} does not answer:\n{log.read_text()[-4000:]}")

    def reader(self):
        """The URL of `lro serve`, which reads the offloads of the test."""
        process, log = self.start(self.need(LRO), "serve", "--listen", "127.0.0.1:0", MCP_LRO_DIR=str(self.root / "offloads"))
        return self.wait_for(lambda: log.read_text().partition("listening on ")[2].strip(), process, log)

    def litellm(self, servers):
        """The URL of a LiteLLM with the guardrail before servers, and its key."""
        config = {
            "mcp_servers": {name: {"url": url, "transport": "http"} for name, url in servers.items()},
            "guardrails": [
                {
                    "guardrail_name": "lro",
                    "litellm_params": {
                        "guardrail": "lro_filter.litellm.LROGuardrail",
                        "mode": "post_mcp_call",
                        "default_on": True,
                        "lro": {"threshold": 2000, "dir": str(self.root / "offloads")},
                    },
                }
            ],
            "general_settings": {"master_key": "os.environ/LITELLM_MASTER_KEY"},
        }
        # JSON is YAML too.
        (self.root / "config.yaml").write_text(json.dumps(config))
        command = self.installed("venv-litellm", "litellm")
        key, port = f"sk-{secrets.token_hex(32)}", free_port()
        started = self.start(
            command, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port),
            PYTHONPATH=str(PACKAGE), LITELLM_MASTER_KEY=key, LITELLM_LOCAL_MODEL_COST_MAP="true",
        )  # fmt: skip
        self.wait_for(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness"), *started)
        return f"http://127.0.0.1:{port}/mcp/", key

    def contextforge(self, servers):
        """The URL of a ContextForge with the plugin before servers, and a token."""
        config = {
            "plugins": [
                {
                    "name": "lro",
                    "kind": "lro_filter.contextforge.LROPlugin",
                    "hooks": ["tool_pre_invoke", "tool_post_invoke"],
                    "config": {"threshold": 2000, "dir": str(self.root / "offloads")},
                }
            ]
        }
        (self.root / "plugins.yaml").write_text(json.dumps(config))
        command = self.installed("venv-contextforge", "mcpgateway")
        admin, secret, port = "admin@example.com", secrets.token_hex(32), free_port()
        variables = {
            "PYTHONPATH": str(PACKAGE),
            "PLUGINS_ENABLED": "true",
            "PLUGINS_CONFIG_FILE": str(self.root / "plugins.yaml"),
            "DATABASE_URL": f"sqlite:///{self.root / 'contextforge.db'}",
            "JWT_SECRET_KEY": secret,
            "AUTH_ENCRYPTION_SECRET": secrets.token_hex(32),
            "PLATFORM_ADMIN_EMAIL": admin,
            "PLATFORM_ADMIN_PASSWORD": f"Aa1!{secrets.token_hex(16)}",
            # The servers are on this machine.
            "SSRF_ALLOW_LOCALHOST": "true",
        }
        started = self.start(command, "--host", "127.0.0.1", "--port", str(port), **variables)
        self.wait_for(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/health"), *started)
        arguments = ["-m", "mcpgateway.utils.create_jwt_token", "--username", admin, "--admin"]
        environment = os.environ | variables
        made = subprocess.run([command.with_name("python"), *arguments], env=environment, capture_output=True, check=True, text=True)
        token = made.stdout.split()[-1]
        for name, url in servers.items():
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/gateways",
                json.dumps({"name": name, "url": url, "transport": "STREAMABLEHTTP"}).encode(),
                {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )
            urllib.request.urlopen(request).close()
        return f"http://127.0.0.1:{port}/mcp/", token

    def run_behind(self, gateway, use):
        """Runs `use` with a client of a gateway before the server of the tests and `lro serve`."""

        async def run():
            async with run_server_async(make({"enabled": False}, self.root), transport="http") as shop:
                url, key = await asyncio.to_thread(lambda: gateway({"shop": shop, "lro": self.reader()}))
                transport = StreamableHttpTransport(url, headers={"Authorization": f"Bearer {key}"})
                async with Client(transport) as client:
                    await client.list_tools()
                    await use(client)

        asyncio.run(run())

    def descriptor(self, result):
        """The descriptor of a reply, after the check that it is all that a model sees."""
        texts = [block.text for block in result.content]
        self.assertEqual(len(texts), 1)
        self.assertLess(len(texts[0]), 2000)
        descriptor = json.loads(texts[0])
        self.assertTrue(descriptor["offloaded"])
        return descriptor

    def whole(self, descriptor):
        """What the files of an offload hold."""
        return rebuilt(self.root / "offloads/default" / descriptor["handle"], json.dumps(descriptor, ensure_ascii=False))

    async def reads(self, client, tool, descriptor, section):
        """Asks about an offload by the tool of `lro serve`, which is behind the gateway too. The answer is larger than the threshold."""
        answer = await client.call_tool(tool, {"handle": descriptor["handle"], "section": section, "limit": 100})
        self.assertEqual(json.loads(answer.content[0].text)["results"], rows(100))
        self.assertGreater(len(answer.content[0].text), 2000)

    def test_litellm_offloads_and_reads_back(self):
        async def use(client):
            small = await client.call_tool("shop-records", {"count": 2})
            self.assertEqual(small.structured_content, {"query": "q", "results": rows(2)})
            # Structured content: LiteLLM marks a replaced result as an error of the tool.
            large = await client.call_tool("shop-records", {"count": 300}, raise_on_error=False)
            self.assertTrue(large.is_error and large.structured_content is None)
            descriptor = self.descriptor(large)
            self.assertEqual(self.whole(descriptor), exact(json.dumps({"query": "q", "results": rows(300)})))
            await self.reads(client, "lro-lro_extract", descriptor, "results")
            # The schema of this tool does not allow a descriptor.
            large = await client.call_tool("shop-table", {"count": 300}, raise_on_error=False)
            self.assertEqual(self.whole(self.descriptor(large)), exact(json.dumps({"title": "t", "rows": rows(300)})))
            # Text alone.
            large = await client.call_tool("shop-plain", {"count": 300})
            await self.reads(client, "lro-lro_extract", self.descriptor(large), "records")
            self.assertEqual((large.is_error, large.structured_content), (False, None))
            self.assertEqual(len(self.manifests()), 3)

        self.run_behind(self.litellm, use)

    def test_contextforge_offloads_and_reads_back(self):
        async def use(client):
            small = await client.call_tool("shop-records", {"count": 2})
            self.assertEqual(small.structured_content, {"query": "q", "results": rows(2)})
            # The schema of this tool allows a descriptor.
            large = await client.call_tool("shop-records", {"count": 300})
            descriptor = self.descriptor(large)
            self.assertEqual(large.structured_content, descriptor)
            self.assertEqual(self.whole(descriptor), exact(json.dumps({"query": "q", "results": rows(300)})))
            await self.reads(client, "lro-lro-extract", descriptor, "results")
            # That of this one does not.
            large = await client.call_tool("shop-table", {"count": 300}, raise_on_error=False)
            self.assertTrue(large.is_error and large.structured_content is None)
            self.assertEqual(self.whole(self.descriptor(large)), exact(json.dumps({"title": "t", "rows": rows(300)})))
            # Text alone.
            large = await client.call_tool("shop-plain", {"count": 300})
            await self.reads(client, "lro-lro-extract", self.descriptor(large), "records")
            self.assertFalse(large.is_error)
            self.assertEqual(len(self.manifests()), 3)

        self.run_behind(self.contextforge, use)


if __name__ == "__main__":
    unittest.main()