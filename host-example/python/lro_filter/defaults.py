"""Defaults of the host, from `defaults.json`, which its tests write: see `tests/documents/settings.rs`."""

import json
from pathlib import Path
from typing import Any

__all__ = ["DEFAULTS", "LIMITS", "PRESETS"]

DEFAULTS: dict[str, Any] = json.loads(Path(__file__).with_name("defaults.json").read_text("utf-8"))
"""Defaults by name of the setting."""

LIMITS: dict[str, int] = DEFAULTS["limits"]
"""Defaults by name of the limit."""

PRESETS: dict[str, dict] = DEFAULTS["presets"]
"""Named thresholds, each as the record `size` of `wit/types.wit`."""
