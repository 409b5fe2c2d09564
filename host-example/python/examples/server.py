"""A FastMCP server that offloads large results: the three lines to add are numbered."""

from fastmcp import FastMCP

from lro_filter.middleware import LROMiddleware  # 1

mcp = FastMCP("orders")
lro = LROMiddleware(level="full")  # 2; every setting has a default
mcp.add_middleware(lro)  # 3


@mcp.tool
def orders(count: int = 10_000) -> dict:
    """All orders."""
    states = ("paid", "open", "failed")
    rows = [{"id": n, "state": states[n % 3], "amount": n * 7 % 1000, "note": f"order {n}"} for n in range(count)]
    return {"currency": "EUR", "orders": rows}


if __name__ == "__main__":
    mcp.run(show_banner=False)
