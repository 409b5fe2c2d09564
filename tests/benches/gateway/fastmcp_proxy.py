"""FastMCP as a gateway before the command in the arguments, with its limiter of large results at its default size."""

import logging
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
from fastmcp.server.middleware.response_limiting import ResponseLimitingMiddleware

LIMIT_BYTES = 50_000

logging.disable(logging.CRITICAL)
proxy = create_proxy(Client(StdioTransport(sys.argv[1], sys.argv[2:])))
proxy.add_middleware(ResponseLimitingMiddleware(max_size=LIMIT_BYTES))
proxy.run(transport="stdio", show_banner=False)
