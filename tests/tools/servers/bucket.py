"""A server of the S3 API, in memory, with a bucket: prints its port, and ends with its standard input."""

import os
import sys
import urllib.request

from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
port = server.get_host_and_port()[1]
# It does not check the signature, but wants one.
signature = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
headers = {"Authorization": signature}
urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/lro-tests", headers=headers, method="PUT"))
print(port, flush=True)
sys.stdin.read()
os._exit(0)
