#!/usr/bin/env python3
"""An MCP server on standard input and output that probes its isolation. Uses only Python's standard library.

    nosy.py [--needs NAME] [MARK]

With --needs it ends at once unless the variable is set. MARK does nothing: it is there to find the process by.
"""

import ctypes
import json
import os
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MNT_DETACH = 2
PTRACE_ATTACH = 16
MOST_BYTES = 1 << 16


def call(name, *arguments):
    """Calls the C library; returns the error message, or None."""
    ctypes.set_errno(0)
    if getattr(LIBC, name)(*arguments) < 0:
        return os.strerror(ctypes.get_errno())
    return None


def found(path):
    """Files and directories below a path, and the path itself when it is a non-empty file."""
    try:
        if os.path.isdir(path):
            entries = os.listdir(path)
            return [path + "/" + entry for entry in entries]
        with open(path, "rb") as file:
            return [path] if file.read(MOST_BYTES) else []
    except OSError:
        return []


def opened(path):
    """Whether it can be opened."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        return True
    except OSError:
        return False


def in_child(act):
    """Runs a function in a separate process, so that it has no side effects; returns its result."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            result = act()
        except OSError as error:
            result = str(error)
        os.write(writer, json.dumps(result).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        result = stream.read()
    os.waitpid(pid, 0)
    return json.loads(result or "null")


def uncover(paths, before):
    """The visible files after `before`, and after unmounting everything possible."""

    def act():
        errors = [before()] if before else []
        for path in paths:
            errors.append(call("umount2", path.encode(), MNT_DETACH))
        return {"errors": errors, "found": [one for path in paths for one in found(path)]}

    return in_child(act)


def join_namespace(pid):
    descriptor = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    return call("setns", descriptor, 0)


def new_namespaces():
    return call("unshare", CLONE_NEWUSER | CLONE_NEWNS)


def become_root():
    return call("setresuid", 0, 0, 0)


def look(arguments):
    """Everything visible of these paths, of a process, and of the environment."""
    paths, pid = arguments["paths"], arguments["pid"]
    # Descriptor numbers may be visible, but not their files.
    descriptors = [path for path in found(f"/proc/{pid}/fd") if opened(path)]
    around = [f"/proc/{pid}/{place}" for place in ("environ", "mem", "maps", "auxv")]
    around += [f"/proc/{pid}/{way}{path}" for way in ("root", "cwd/../../../../../..") for path in paths]
    return {
        "uid": os.getuid(),
        "environment": dict(os.environ),
        "direct": [one for path in paths for one in found(path)],
        "process": [one for path in around for one in found(path)] + descriptors,
        "trace": call("ptrace", PTRACE_ATTACH, pid, 0, 0),
        "unmounted": uncover(paths, None),
        "namespaces": uncover(paths, new_namespaces),
        "root": uncover(paths, become_root),
        "joined": uncover(paths, lambda: join_namespace(pid)),
        "status": [line for line in open("/proc/self/status").read().splitlines() if line.startswith(("Cap", "NoNew"))],
    }


def write(arguments):
    """Writes to a path; returns the error, or None."""
    try:
        with open(arguments["path"], "wb") as file:
            file.write(b"forged")
    except OSError as error:
        return str(error)
    return None


def complain(arguments):
    """Writes to standard error, or to another stream."""
    text = arguments["text"].encode()
    for _ in range(arguments["times"]):
        rest = text
        while rest:
            rest = rest[os.write(arguments.get("stream", 2), rest) :]
    return "complained"


TOOLS = {"look": look, "write": write, "complain": complain}


def answer(message):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        info = {"name": "nosy", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    if method == "tools/call":
        result = TOOLS[params["name"]](params.get("arguments") or {})
        return {"content": [{"type": "text", "text": json.dumps(result)}]}
    return {}


def main():
    if "--needs" in sys.argv and sys.argv[sys.argv.index("--needs") + 1] not in os.environ:
        print("something is missing", file=sys.stderr)
        sys.exit(3)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}), flush=True)


main()
