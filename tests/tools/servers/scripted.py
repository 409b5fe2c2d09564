"""An MCP server on standard streams that replays a script byte for byte.

    scripted.py SCRIPT.json

The script is an object: what to do for a request or a notification. Its keys, the first that is there counts:

    METHOD WHAT#N   METHOD WHAT   METHOD#N   METHOD

WHAT is the member of the parameters that tells two of them apart (`name`, `taskId`, `uri` or `cursor`), N counts from 1
how often the method came for the same WHAT. A value is a list of steps:

    "TEXT"                 writes a line. @ID@ stands for the id of the request, @TOKEN@ for its progress token, @LINE@ for
                           the line it came in and @ANSWER@ for the line of the last "await", both as JSON strings;
                           @CALL@ for the id of the last call of a tool
    {"bytes": "BASE64"}    writes a line that need not be UTF-8
    {"await": METHOD}      waits for a message of this method, or for an answer to the request of this id
    {"sleep": SECONDS}
    {"script": SCRIPT}     has other keys, or other values, from now on

Without a value, `initialize` and `ping` are answered, `scripted/seen` gives all lines so far, another request is an error.
"""

import base64
import collections
import json
import sys
import time

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "scripted", "version": "1.0.0"},
}


class Server:
    def __init__(self, script):
        self.script = script
        self.counts = collections.Counter()
        self.seen = []
        self.waiting = collections.deque()
        self.answer = "null"
        self.call = None

    def read(self):
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit(0)
        line = line.decode().rstrip("\n")
        self.seen.append(line)
        return line

    def write(self, data):
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()

    def say(self, value):
        self.write(json.dumps(value, ensure_ascii=False).encode())

    def wait_for(self, wanted):
        while True:
            line = self.read()
            message = json.loads(line)
            if isinstance(message, dict) and wanted in (message.get("method"), message.get("id")):
                self.answer = json.dumps(line)
                return
            self.waiting.append(line)

    def steps(self, message):
        method, params = message["method"], message.get("params") or {}
        if not isinstance(params, dict):
            params = {}
        what = next((params[key] for key in ("name", "taskId", "uri", "cursor") if key in params), None)
        keys = [method] if what is None else [f"{method} {what}", method]
        for key in keys:
            self.counts[key] += 1
        found = (self.script.get(name) for key in keys for name in (f"{key}#{self.counts[key]}", key))
        return next((steps for steps in found if steps is not None), None)

    def run(self, steps, message, line):
        if message.get("method") == "tools/call":
            self.call = message.get("id")
        token = ((message.get("params") or {}).get("_meta") or {}).get("progressToken")
        for step in steps:
            match step:
                case str():
                    text = step.replace("@ID@", json.dumps(message.get("id"))).replace("@TOKEN@", json.dumps(token))
                    text = text.replace("@CALL@", json.dumps(self.call))
                    self.write(text.replace("@LINE@", json.dumps(line)).replace("@ANSWER@", self.answer).encode())
                case {"bytes": data}:
                    self.write(base64.b64decode(data).replace(b"@ID@", json.dumps(message.get("id")).encode()))
                case {"await": wanted}:
                    self.wait_for(wanted)
                case {"script": script}:
                    self.script |= script
                case {"sleep": seconds}:
                    time.sleep(seconds)

    def handle(self, line):
        message = json.loads(line)
        if isinstance(message, list):
            steps = self.script.get("batch")
            return self.run(steps, {}, line) if steps else None
        if "method" not in message:
            return None
        steps = self.steps(message)
        if steps is not None:
            return self.run(steps, message, line)
        if "id" not in message:
            return None
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        match message["method"]:
            case "initialize":
                return self.say(answer | {"result": INITIALIZE})
            case "ping":
                return self.say(answer | {"result": {}})
            case "scripted/seen":
                return self.say(answer | {"result": {"lines": self.seen}})
        return self.say(answer | {"error": {"code": -32601, "message": "Method not found"}})


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        server = Server(json.load(file))
    while True:
        server.handle(server.waiting.popleft() if server.waiting else server.read())


main()
