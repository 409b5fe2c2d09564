#!/usr/bin/env python3
"""An MCP server that misbehaves on request. Uses only Python's standard library.

    faulty.py [--exit STATUS] [--deaf] [MARK]     on standard input and output
    faulty.py --http [--only legacy|modern|neither] [--tokens A,B] [MARK]
                                                  Streamable HTTP; says `serving http://127.0.0.1:PORT/mcp` on stderr;
                                                  of one generation of the protocol, and only with one of these tokens

What a call does is the name of its tool. MARK does nothing: it is there to find the process by.
In raw bytes that a tool is given as base64, `@ID@` stands for the JSON of the id of the request, and `@TOKEN@` for that of
its progress token.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time

PIECE = 1 << 20
MODERN = "io.modelcontextprotocol/protocolVersion"


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


def tool_result(text, modern):
    result = {"content": [{"type": "text", "text": text}]}
    if modern:
        result["resultType"] = "complete"
    return result


def records(count):
    """A JSON text with this many records."""
    return json.dumps([{"number": number, "name": f"record {number}", "text": "x" * 40} for number in range(count)])


class Call:
    """A request for a tool."""

    def __init__(self, message):
        self.id = compact(message["id"])
        params = message["params"]
        self.tool = params["name"]
        self.arguments = params.get("arguments") or {}
        meta = params.get("_meta") or {}
        self.modern = MODERN in meta
        self.token = compact(meta.get("progressToken"))

    def answer(self, text):
        return compact({"jsonrpc": "2.0", "id": json.loads(self.id), "result": tool_result(text, self.modern)})

    def raw(self, name="raw"):
        raw = base64.b64decode(self.arguments[name])
        return raw.replace(b"@ID@", self.id).replace(b"@TOKEN@", self.token)

    def progress(self, number):
        params = {"progressToken": json.loads(self.token), "progress": number}
        return compact({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def log(self, number, size):
        params = {"level": "info", "data": f"{number} " + "n" * size}
        return compact({"jsonrpc": "2.0", "method": "notifications/message", "params": params})

    def huge(self, size):
        """An answer of about this many bytes in pieces: a JSON text of records."""
        before, after = b'{"jsonrpc":"2.0",', b"}"
        if self.arguments.get("id") == "after":
            after = b',"id":' + self.id + b"}"
        else:
            before += b'"id":' + self.id + b","
        kind = b'"resultType":"complete",' if self.modern else b""
        yield before + b'"result":{' + kind + b'"content":[{"type":"text","text":"['
        record = b'{\\"number\\":1234567,\\"name\\":\\"a record of the many\\",\\"text\\":\\"' + b"x" * 180 + b'\\"}'
        piece = (record + b",") * (PIECE // (len(record) + 1))
        for _ in range(max(size // len(piece), 1)):
            yield piece
        yield record + b']"}]}' + after


def common(call):
    """The answer of a well-behaved tool; `None` for the others."""
    if call.tool == "echo":
        return call.answer(call.arguments.get("text", ""))
    if call.tool == "records":
        return call.answer(records(call.arguments["count"]))
    if call.tool == "slow":
        time.sleep(call.arguments["ms"] / 1000)
        return call.answer("slept")
    return None


def other_answer(message):
    """The answer to a request other than a call."""
    method = message["method"]
    if method == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}, "logging": {}},
            "serverInfo": {"name": "faulty", "version": "1"},
        }
    elif method == "server/discover":
        result = {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "faulty", "version": "1"},
        }
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
        result = {"tools": [{"name": name, "inputSchema": schema} for name in ("echo", "heard")]}
        if MODERN in ((message.get("params") or {}).get("_meta") or {}):
            result["resultType"] = "complete"
    elif method == "ping":
        result = {}
    else:
        error = {"code": -32601, "message": f"no method {method}"}
        return compact({"jsonrpc": "2.0", "id": message["id"], "error": error})
    return compact({"jsonrpc": "2.0", "id": message["id"], "result": result})


class Stdio:
    """The server on standard input and output, with a thread per call."""

    def __init__(self):
        self.lock = threading.Lock()
        self.heard = []
        self.deaf = False

    def write(self, *pieces):
        with self.lock:
            for piece in pieces:
                while piece:
                    piece = piece[os.write(1, piece) :]

    def line(self, message):
        self.write(message + b"\n")

    def serve(self):
        for line in sys.stdin.buffer:
            try:
                message = json.loads(line)
            except ValueError:
                self.heard.append({"broken": line[:200].decode(errors="replace")})
                continue
            for part in message if isinstance(message, list) else [message]:
                self.take(part)
            while self.deaf:
                time.sleep(1)

    def take(self, message):
        if not isinstance(message, dict):
            self.heard.append({"broken": repr(message)})
            return
        method = message.get("method")
        self.heard.append({"method": method, "id": message.get("id"), "params": brief(message.get("params"))})
        if method == "tools/call":
            call = Call(message)
            if call.tool == "deaf":
                self.deaf = True
            if call.tool == "stubborn":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            threading.Thread(target=self.run, args=(call,), daemon=not call.arguments.get("finish")).start()
        elif method and "id" in message:
            self.line(other_answer(message))

    def run(self, call):
        answer = common(call)
        if answer is not None:
            return self.line(answer)
        getattr(self, "tool_" + call.tool)(call)

    def tool_heard(self, call):
        self.line(call.answer(json.dumps(self.heard)))

    def tool_about(self, call):
        self.line(call.answer(json.dumps({"pid": os.getpid(), "arguments": sys.argv})))

    def tool_huge(self, call):
        self.write(*call.huge(call.arguments["bytes"]), b"\n")

    def tool_silent(self, call):
        pass

    def tool_deaf(self, call):
        self.line(call.answer("deaf from now on"))

    def tool_raw(self, call):
        """Exactly these bytes."""
        self.write(call.raw())

    def tool_half(self, call):
        """These bytes, and the end."""
        self.write(call.raw())
        os._exit(call.arguments.get("status", 0))

    def tool_die(self, call):
        """The first megabyte of a result, and kill -9."""
        self.write(next(call.huge(1)), b"z" * call.arguments.get("bytes", 1 << 20))
        os.kill(os.getpid(), signal.SIGKILL)

    def tool_exit(self, call):
        os._exit(call.arguments["status"])

    def tool_orphan(self, call):
        """A child keeps standard output open; this process dies."""
        subprocess.Popen(["sleep", "60.25"], stdin=subprocess.DEVNULL)
        os.kill(os.getpid(), signal.SIGKILL)

    def tool_child(self, call):
        """Starts a child that ignores signals to end."""
        child = subprocess.Popen(
            ["sh", "-c", "trap '' TERM HUP; sleep 60.25; :", sys.argv[-1]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        self.line(call.answer(str(child.pid)))

    def tool_stubborn(self, call):
        """Ignores signals to end and the end of its input."""
        threading.Thread(target=time.sleep, args=(60,)).start()
        self.line(call.answer("stubborn"))

    def tool_progress(self, call):
        for number in range(call.arguments["count"]):
            self.line(call.progress(number))
            time.sleep(call.arguments.get("ms", 0) / 1000)
        self.line(call.answer("made progress"))

    def tool_flood(self, call):
        size = call.arguments.get("size", 0)
        if size:
            for number in range(call.arguments["count"]):
                self.line(call.progress(number)[:-1] + b',"x":"' + b"n" * size + b'"}' if call.modern else call.log(number, size))
        else:
            lines = b"".join(call.log(number, 0) + b"\n" for number in range(call.arguments["count"]))
            self.write(lines)
        self.line(call.answer(records(call.arguments.get("records", 0))))

    def tool_later(self, call):
        """An answer, and then notifications."""
        self.line(call.answer("later"))
        time.sleep(call.arguments["ms"] / 1000)
        for number in range(call.arguments["count"]):
            self.line(call.log(number, 0))


def brief(params):
    """Parameters without long strings."""
    if isinstance(params, dict):
        return {key: brief(value) for key, value in params.items()}
    return params[:100] if isinstance(params, str) else params


def option(name):
    """The value of an option on the command line."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


def serve_http():
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    import queue
    import select

    state = {"sessions": {}, "heard": [], "resumed": {}, "gone": 0, "count": 0, "refused": 0, "deaf": False, "page": None, "begin": None}
    only = option("--only")
    tokens = {"Bearer " + token for token in (option("--tokens") or "").split(",") if token}
    protected = bool(tokens)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def note(self, body):
            headers = [[name.lower(), value] for name, value in self.headers.items()]
            with lock:
                state["heard"].append({"verb": self.command, "path": self.path, "headers": headers, "body": body})

        def reply(self, body, status=200, kind="application/json", headers=()):
            self.send_response(status)
            if body or kind:
                self.send_header("Content-Type", kind)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def begin(self, kind, headers=()):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()

        def chunk(self, data):
            self.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")
            self.wfile.flush()

        def finish_chunks(self):
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()

        def event(self, data, more=b""):
            self.chunk(more + b"event: message\ndata: " + data + b"\n\n")

        def drop(self):
            """Ends the connection in the middle."""
            import socket

            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def session(self):
            """The session of the request; answers with 404 when it does not exist."""
            id = self.headers.get("Mcp-Session-Id")
            if id is None or id in state["sessions"]:
                return True
            self.reply(b"no such session", 404, "text/plain")
            return False

        def do_GET(self):
            self.note(None)
            if self.path.startswith("/.well-known/"):
                return self.reply(compact({"path": self.path}), headers=[("X-Upstream", "yes"), ("Set-Cookie", "upstream=secret")])
            if not self.session():
                return None
            if state["refused"] > 0:
                state["refused"] -= 1
                return self.reply(b"in a moment", 503, "text/plain")
            last = self.headers.get("Last-Event-ID")
            if last == "event-8":
                self.begin("text/event-stream")
                self.chunk(b"retry: 0\nid: event-8\ndata:\n\n")
                return self.finish_chunks()
            if last in state["resumed"]:
                self.begin("text/event-stream")
                self.event(state["resumed"].pop(last))
                return self.finish_chunks()
            messages = state["sessions"].get(self.headers.get("Mcp-Session-Id"))
            if messages is None:
                return self.reply(b"", 405, "text/plain")
            self.begin("text/event-stream")
            self.chunk(b": here\n\n")
            while True:
                message = messages.get()
                if message is None:
                    return self.finish_chunks()
                self.event(message)

        def do_DELETE(self):
            self.note(None)
            if self.session():
                state["sessions"].pop(self.headers.get("Mcp-Session-Id"), None)
                self.reply(b"", 204, "text/plain")

        def do_POST(self):
            length = self.headers.get("Content-Length")
            body = self.rfile.read(int(length)) if length is not None else self.read_chunks()
            message = json.loads(body)
            meta = (message.get("params") or {}).get("_meta")
            self.note({"method": message.get("method"), "id": message.get("id"), "bytes": len(body), "meta": meta})
            if protected and self.headers.get("Authorization") not in tokens:
                challenge = 'Bearer resource_metadata="http://example.org/metadata"'
                return self.reply(b"unauthorized", 401, "text/plain", [("WWW-Authenticate", challenge)])
            if not self.session():
                return None
            method = message.get("method")
            is_modern = MODERN in ((message.get("params") or {}).get("_meta") or {})
            if (method == "initialize" and only in ("modern", "neither")) or (is_modern and only in ("legacy", "neither")):
                error = {"code": -32022, "message": f"only {only}"}
                return self.reply(compact({"jsonrpc": "2.0", "id": message["id"], "error": error}), 400)
            if "id" not in message or method is None:
                if state["deaf"]:
                    return self.linger(60000)
                if state["page"] is not None:
                    return self.reply(state["page"], 500, "text/html")
                return self.reply(b"", 202, "text/plain")
            if method == "initialize" and state["begin"] in ("endless", "silent", "error"):
                return self.begin_badly(message)
            if method == "initialize":
                with lock:
                    state["count"] += 1
                    id = f"session-{state['count']}"
                    state["sessions"][id] = queue.Queue()
                if state["begin"] == "open":
                    state["begin"] = None
                    self.begin("text/event-stream", [("Mcp-Session-Id", id)])
                    self.event(other_answer(message))
                    return self.linger(60000)
                return self.reply(other_answer(message), headers=[("Mcp-Session-Id", id)])
            if method != "tools/call":
                answer = other_answer(message)
                missing = MODERN in ((message.get("params") or {}).get("_meta") or {}) and b"-32601" in answer
                return self.reply(answer, 404 if missing else 200)
            call = Call(message)
            answer = common(call)
            if answer is not None:
                return self.answer(call, answer)
            return getattr(self, "tool_" + call.tool)(call)

        def begin_badly(self, message):
            """An answer to `initialize` with which no session begins."""
            how, state["begin"] = state["begin"], None
            if how == "silent":
                return self.linger(60000)
            headers = [("Mcp-Session-Id", "none")]
            if how == "error":
                error = {"code": -32603, "message": "no more sessions today"}
                return self.reply(compact({"jsonrpc": "2.0", "id": message["id"], "error": error}), headers=headers)
            self.begin("application/json", headers)
            self.close_connection = True
            try:
                while True:
                    self.chunk(b" " * PIECE)
            except OSError:
                return None

        def read_chunks(self):
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def answer(self, call, answer):
            if not call.arguments.get("sse"):
                return self.reply(answer)
            self.begin("text/event-stream")
            self.event(answer)
            self.finish_chunks()

        def tool_revoke(self, call):
            tokens.discard(self.headers.get("Authorization"))
            self.reply(call.answer("revoked"))

        def tool_heard(self, call):
            with lock:
                heard = json.dumps({"heard": state["heard"], "gone": state["gone"]})
            self.reply(call.answer(heard))

        def tool_huge(self, call):
            sse = call.arguments.get("sse")
            self.begin("text/event-stream" if sse else "application/json")
            if sse:
                self.chunk(b"event: message\ndata: ")
            for piece in call.huge(call.arguments["bytes"]):
                self.chunk(piece)
            if sse:
                self.chunk(b"\n\n")
            self.finish_chunks()

        def tool_raw(self, call):
            """These bytes as the body, in pieces of a size."""
            raw, size = call.raw(), call.arguments.get("size", 1 << 20)
            self.begin(call.arguments.get("type", "text/event-stream"))
            for start in range(0, len(raw), size):
                self.chunk(raw[start : start + size])
            self.finish_chunks()

        def tool_status(self, call):
            self.reply(call.raw(), call.arguments["status"], call.arguments.get("type", "text/html"))

        def tool_cut(self, call):
            """Half of a body, and the end of the connection."""
            sse = call.arguments.get("sse")
            self.begin("text/event-stream" if sse else "application/json")
            self.chunk((b"data: " if sse else b"") + next(call.huge(1)))
            self.drop()

        def tool_closed(self, call):
            """The connection ends without a response."""
            self.drop()

        def tool_silent(self, call):
            if call.arguments.get("sse"):
                self.begin("text/event-stream")
                self.chunk(b": nothing\n\n")
            self.linger(call.arguments.get("ms", 60000))

        def linger(self, ms):
            """Waits, and notes when the client is gone."""
            ready, _, _ = select.select([self.connection], [], [], ms / 1000)
            if ready:
                with lock:
                    state["gone"] += 1
            self.close_connection = True

        def tool_progress(self, call):
            self.begin("text/event-stream")
            for number in range(call.arguments["count"]):
                self.event(call.progress(number))
                time.sleep(call.arguments.get("ms", 0) / 1000)
            self.event(call.answer("made progress"))
            self.finish_chunks()

        def tool_flood(self, call):
            self.begin("text/event-stream")
            for number in range(call.arguments["count"]):
                self.event(call.log(number, call.arguments.get("size", 0)))
            self.event(call.answer("flooded"))
            self.finish_chunks()

        def tool_resume(self, call):
            """A stream that ends before the answer; a GET with the id of its last event resumes it, but for the first ones."""
            state["refused"] = call.arguments.get("refused", 0)
            state["resumed"]["event-7"] = call.answer("resumed")
            self.begin("text/event-stream")
            self.chunk(b"retry: %d\nid: event-7\ndata:\n\n" % call.arguments.get("retry", 1000))
            self.finish_chunks()

        def tool_hollow(self, call):
            """A stream that ends at once, and so does each that resumes it: after no time."""
            self.begin("text/event-stream")
            self.chunk(b"retry: 0\nid: event-8\ndata:\n\n")
            self.finish_chunks()

        def tool_ends(self, call):
            """A stream that ends before the answer and cannot be resumed."""
            self.begin("text/event-stream")
            self.event(call.log(1, 0))
            self.finish_chunks()

        def tool_forget(self, call):
            """Ends all sessions. `then` says how the next `initialize` is answered."""
            state["begin"] = call.arguments.get("then")
            with lock:
                sessions, state["sessions"] = state["sessions"], {}
            for messages in sessions.values():
                messages.put(None)
            self.reply(call.answer("forgotten"))

        def tool_hang_up(self, call):
            """Ends the streams of all sessions, and opens none for some time."""
            state["refused"] = call.arguments["refused"]
            for messages in state["sessions"].values():
                messages.put(None)
            self.reply(call.answer("hung up"))

        def tool_deaf(self, call):
            """From now on, notifications and responses are not answered."""
            state["deaf"] = True
            self.reply(call.answer("deaf"))

        def tool_page(self, call):
            """From now on, notifications and responses are answered with these bytes as a page of an error."""
            state["page"] = call.raw()
            self.reply(call.answer("from now on"))

        def tool_say(self, call):
            """Sends a message on the streams of all sessions."""
            for messages in list(state["sessions"].values()):
                messages.put(call.raw())
            self.reply(call.answer("said"))

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_):
            pass

    server = Server(("127.0.0.1", 0), Handler)
    print(f"serving http://127.0.0.1:{server.server_port}/mcp", file=sys.stderr, flush=True)
    server.serve_forever()


def main():
    if "--exit" in sys.argv:
        os._exit(int(sys.argv[sys.argv.index("--exit") + 1]))
    if "--deaf" in sys.argv:
        time.sleep(60)
    elif "--http" in sys.argv:
        serve_http()
    else:
        Stdio().serve()


main()
