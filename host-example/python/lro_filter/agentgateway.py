"""A policy server for agentgateway, which asks it about calls of tools: `python -m lro_filter.agentgateway HOST:PORT`.

Settings are the variables `MCP_LRO_…`. It needs the extra `agentgateway`.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.struct_pb2 import Struct

from .errors import LROError
from .gateway import GatewayFilter

__all__ = ["serve"]

MESSAGE_BYTES_MAX = 256 << 20
"""Largest result that is taken: of a larger one, the `failureMode` in agentgateway's configuration decides."""

SERVICE = "agentgateway.dev.ext_mcp.ExtMcp"
PACKAGE = "lro_filter.agentgateway"

TEXT, BYTES = descriptor_pb2.FieldDescriptorProto.TYPE_STRING, descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
STRUCT, PASS = f".{Struct.DESCRIPTOR.full_name}", f".{PACKAGE}.Pass"

FIELDS: dict[str, dict[str, tuple[int, int | str]]] = {
    "Request": {"method": (2, TEXT), "params": (4, BYTES)},
    "RequestResult": {"passed": (1, PASS), "metadata": (5, STRUCT)},
    "Response": {"method": (2, TEXT), "metadata": (3, STRUCT), "result": (4, BYTES)},
    "ResponseResult": {"passed": (1, PASS), "replacement": (2, BYTES)},
    "Pass": {},
}
"""Numbers and types of the fields that are used in the messages of the service, as agentgateway 1.4.1 has them."""

CALL = "lro"
"""Key of what agentgateway hands on from a call to its response, as its configuration says: the parameters of the call, as JSON."""


def _messages() -> dict[str, Any]:
    """The classes of the messages."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{PACKAGE}.proto", package=PACKAGE, syntax="proto3")
    file.dependency.append(Struct.DESCRIPTOR.file.name)
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            made = message.field.add(name=field, number=number, label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL)
            if isinstance(kind, str):
                made.type_name = kind
            else:
                made.type = kind
    pool = descriptor_pool.Default()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in FIELDS}


MESSAGES = _messages()


async def serve(address: str) -> None:
    """Answers agentgateway at an address, such as `127.0.0.1:8809`, without TLS, until the task is cancelled.

    Raises:
        SettingsError: A setting is invalid.
        ComponentError: The policy cannot be loaded.
    """
    gateway = GatewayFilter(None)

    async def check_request(request: Any, _: Any) -> Any:
        answer = MESSAGES["RequestResult"](passed=MESSAGES["Pass"]())
        if request.method == "tools/call":
            # A response comes without its request: agentgateway hands this on.
            answer.metadata[CALL] = request.params.decode()
        return answer

    async def check_response(response: Any, _: Any) -> Any:
        replacement = None
        if response.method == "tools/call":
            call = json.loads(response.metadata[CALL]) if CALL in response.metadata else {}
            tool = call.get("name", "tool")
            replacement = await gateway.replacement(response.result.decode(), tool, call.get("arguments"))
        elif response.method == "tools/list":
            replacement = await asyncio.to_thread(gateway.tools_list, response.result.decode())
        answer = MESSAGES["ResponseResult"]
        return answer(passed=MESSAGES["Pass"]()) if replacement is None else answer(replacement=replacement.encode())

    methods = {
        "CheckRequest": _method(check_request, "Request", "RequestResult"),
        "CheckResponse": _method(check_response, "Response", "ResponseResult"),
    }
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", MESSAGE_BYTES_MAX)])
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, methods)])
    port = server.add_insecure_port(address)
    await server.start()
    print(f"listening on {address.rpartition(':')[0]}:{port}", file=sys.stderr, flush=True)
    await server.wait_for_termination()


def _method(answer: Callable, request: str, response: str) -> grpc.RpcMethodHandler:
    return grpc.unary_unary_rpc_method_handler(
        answer, request_deserializer=MESSAGES[request].FromString, response_serializer=MESSAGES[response].SerializeToString
    )


def main() -> None:
    """The command."""
    if len(sys.argv) != 2 or ":" not in sys.argv[1]:
        sys.exit("usage: python -m lro_filter.agentgateway HOST:PORT")
    try:
        asyncio.run(serve(sys.argv[1]))
    except (LROError, RuntimeError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
