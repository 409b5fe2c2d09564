"""The policy server for agentgateway, asked in the bytes of its published protocol: `crates/protos/proto/ext_mcp.proto` of 1.4.1."""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

from support import Case, exact, rebuilt, rows

try:
    import grpc
    import jsonschema
    from google.protobuf.struct_pb2 import Struct

    MISSING = None
except ImportError as error:
    MISSING = f"{error}: install the extra `agentgateway`"

PASS = b"\x0a\x00"
"""The field `pass`, an empty message."""


def field(number, data):
    """A field of bytes, a text or a message on the wire."""
    length, size = b"", len(data)
    while True:
        length += bytes([size & 127 | (128 if size > 127 else 0)])
        size >>= 7
        if not size:
            return bytes([number << 3 | 2]) + length + data


def fields(data):
    """The fields of a message by number."""
    found = {}
    while data:
        number, size, shift, at = data[0] >> 3, 0, 0, 1
        while True:
            size |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                break
        found[number] = data[at : at + size]
        data = data[at + size :]
    return found


@unittest.skipIf(MISSING, MISSING)
class AgentGateway(Case):
    def setUp(self):
        super().setUp()
        command = [sys.executable, "-m", "lro_filter.agentgateway", "127.0.0.1:0"]
        settings = {"MCP_LRO_DIR": str(self.root), "MCP_LRO_THRESHOLD": "2000", "PYTHONPATH": str(Path(__file__).parents[1])}
        self.server = subprocess.Popen(command, env=os.environ | settings, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.server.communicate)
        self.addCleanup(self.server.terminate)
        address = re.fullmatch(r"listening on (\S+)\n", self.server.stderr.readline())[1]
        channel = grpc.insecure_channel(address, [("grpc.max_receive_message_length", -1)])
        self.addCleanup(channel.close)
        self.channel = channel

    def ask(self, method, message):
        """The fields of an answer."""
        return fields(self.channel.unary_unary(f"/agentgateway.dev.ext_mcp.ExtMcp/{method}")(message))

    def call(self, tool, arguments, result, hands_on=True):
        """The answer about the result of a call, with the metadata that the configuration hands on from its request."""
        server, header = field(1, b"shop"), field(5, field(1, b"accept") + field(2, b"*/*"))
        params = json.dumps({"name": tool, "arguments": arguments}).encode()
        request = self.ask("CheckRequest", server + field(2, b"tools/call") + field(4, params) + header)
        self.assertEqual(request[1], b"")
        metadata = Struct.FromString(request[5] if hands_on else b"")
        body = field(4, result if isinstance(result, bytes) else json.dumps(result).encode())
        return self.ask("CheckResponse", server + field(2, b"tools/call") + field(3, metadata.SerializeToString()) + body)

    def test_large_results_are_replaced_whole_and_others_pass(self):
        # Big numbers and how they are written stay, as the protocol has JSON in bytes.
        records = [row | {"big": 2**70 + row["id"]} for row in rows(300)]
        text = json.dumps({"content": [], "structuredContent": {"orders": records}}).replace('"score": 0.0', '"score": 0.00')
        answer = self.call("orders", {"count": 300}, text.encode())
        self.assertEqual(list(answer), [2])
        replaced = json.loads(answer[2])
        descriptor = replaced["structuredContent"]
        self.assertEqual(json.loads(replaced["content"][0]["text"]), descriptor)
        self.assertNotIn("isError", replaced)
        directory = self.root / "default" / descriptor["handle"]
        found = rebuilt(directory, json.dumps(descriptor))
        self.assertEqual(found, exact(text)["structuredContent"])
        header = json.loads((directory / descriptor["files"]["orders"]).read_text().splitlines()[0])
        self.assertEqual((header["operation"], header["query"]), ("orders", '{"count":300}'))

        small = {"content": [{"type": "text", "text": "few"}]}
        large = {"content": [{"type": "text", "text": json.dumps(rows(300))}]}
        self.assertEqual(self.call("orders", {}, small), {1: b""})
        # What reads offloads passes.
        self.assertEqual(self.call("lro_extract", {}, large), {1: b""})
        # Where nothing is handed on, the tool has no name.
        self.assertEqual(list(self.call("lro_extract", {}, large, hands_on=False)), [2])
        self.assertEqual(self.ask("CheckResponse", field(2, b"prompts/get") + field(4, b"{}")), {1: b""})
        self.assertEqual(self.ask("CheckRequest", field(2, b"tools/list")), {1: b""})

    def test_listed_output_schemas_allow_the_descriptor(self):
        schema = {"type": "object", "properties": {"orders": {"type": "array"}}, "required": ["orders"], "additionalProperties": False}
        tools = {"tools": [{"name": "orders", "inputSchema": {"type": "object"}, "outputSchema": schema}]}
        answer = self.ask("CheckResponse", field(2, b"tools/list") + field(4, json.dumps(tools).encode()))
        listed = json.loads(answer[2])["tools"][0]["outputSchema"]
        large = {"content": [], "structuredContent": {"orders": rows(300)}}
        descriptor = json.loads(self.call("orders", {}, large)[2])["structuredContent"]
        jsonschema.validate(descriptor, listed)
        jsonschema.validate({"orders": []}, listed)
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate({"orders": 1}, listed)

    def test_a_wrong_setting_ends_the_server_with_a_sentence(self):
        wrong = os.environ | {"MCP_LRO_UNIT": "pages", "PYTHONPATH": str(Path(__file__).parents[1])}
        command = [sys.executable, "-m", "lro_filter.agentgateway", "127.0.0.1:0"]
        ended = subprocess.run(command, env=wrong, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("pages", ended.stderr)
        self.assertNotIn("Traceback", ended.stderr)


if __name__ == "__main__":
    unittest.main()
