/** Defaults of the host, written by its tests with LRO_WRITE_SETTINGS=1. */

export const DEFAULTS = {
    "action": "offload",
    "advice": "",
    "breaker": {
        "failures": 5,
        "pauseMaxMs": 60000,
        "pauseMs": 1000
    },
    "ceilingUnit": "tokens",
    "descriptorLimit": 40000,
    "dialect": "sections",
    "enabled": true,
    "failure": "open",
    "fsync": "before",
    "headerType": "mcp_lro",
    "images": "keep",
    "imagesBytes": 8388608,
    "imagesMax": 20,
    "infer": true,
    "inlineLimit": 512,
    "level": "standard",
    "limits": {
        "crossingBytes": 8388608,
        "files": 256,
        "instances": 16,
        "logBytes": 4096,
        "memoryBytes": 67108864,
        "nameBytes": 128,
        "openFiles": 64,
        "tableElements": 100000,
        "waitMs": 10000,
        "wallTimeMs": 30000,
        "writtenBytes": 4294967296
    },
    "mode": "by-size",
    "quotaFile": 1073741824,
    "quotaTenant": 4294967296,
    "schema": "rewrite",
    "threshold": 50000,
    "tokenizer": "estimate",
    "truncateSuffix": "\n\n[truncated: the result was larger than the limit]",
    "ttlSeconds": 3600,
    "unit": "characters"
};
