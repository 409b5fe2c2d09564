"""Large results of MCP tools become files and a short descriptor: the lro-filter policy for Python servers.

    from lro_filter import lro_offload          # a decorator for one tool
    from lro_filter import LROOffloader         # an object to call
    from lro_filter import LROContext           # a `with` block
    from lro_filter import list_items, records          # async iterators over pages of a list and over an offload
    from lro_filter.middleware import LROMiddleware     # all tools of a FastMCP server

The modules `litellm`, `contextforge` and `agentgateway` are for the gateways of these names.

See the README for settings and limits.
"""

from .breaker import BreakerSettings
from .component import Limits, Policy, load
from .errors import ComponentError, ListError, LROError, PolicyError, Rejected, ResultError, SettingsError, StoreError
from .offloader import LROContext, LROOffloader, lro_offload
from .reading import list_items, records
from .settings import OffloadSection, Settings
from .sizes import estimate_size
from .version import __version__


__all__ = [
    "BreakerSettings",
    "ComponentError",
    "LROContext",
    "LROError",
    "LROOffloader",
    "Limits",
    "ListError",
    "OffloadSection",
    "Policy",
    "PolicyError",
    "Rejected",
    "ResultError",
    "Settings",
    "SettingsError",
    "StoreError",
    "__version__",
    "estimate_size",
    "list_items",
    "load",
    "lro_offload",
    "records",
]
