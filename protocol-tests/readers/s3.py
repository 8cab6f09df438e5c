"""An S3 server for tests: moto, on a free port of this machine, with its state in memory.

    s3.py BUCKET DOWN [--no-conditions]

The first line of output is its address; then comes a line for each request: METHOD PATH CONDITION STATUS. One request is
served at a time, so that conditional writes are atomic, as in S3. While a file DOWN exists every request is refused with
503, and nothing is done. With --no-conditions it forgets `If-None-Match`, as servers do that do not know conditional writes.
"""

import logging
import os
import sys
import threading

from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server
from werkzeug.test import Client

BUCKET, DOWN = sys.argv[1:3]
CONDITIONS = "--no-conditions" not in sys.argv
UNAVAILABLE = b"<Error><Code>ServiceUnavailable</Code><Message>Please reduce your request rate.</Message></Error>"

moto = create_backend_app("s3")
one_at_a_time = threading.Lock()


def serve(environ, start_response):
    said = []

    def start(status, headers, exc_info=None):
        said.append(status)
        return start_response(status, headers, exc_info)

    condition = environ.get("HTTP_IF_NONE_MATCH", "-")
    if not CONDITIONS:
        environ.pop("HTTP_IF_NONE_MATCH", None)
    with one_at_a_time:
        if os.path.exists(DOWN):
            start("503 Service Unavailable", [("Content-Type", "application/xml")])
            body = [UNAVAILABLE]
        else:
            body = list(moto(environ, start))
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] == "GET" and environ.get("QUERY_STRING"):
            path = "LIST"
        print(environ["REQUEST_METHOD"], path, condition, said[0].split()[0], flush=True)
    return body


logging.getLogger("werkzeug").setLevel(logging.ERROR)
created = Client(moto).put("/" + BUCKET, headers={"Host": "127.0.0.1"})
assert created.status_code == 200, created.get_data()
server = make_server("127.0.0.1", 0, serve, threaded=True, request_handler=MotoRequestHandler)
print(f"http://127.0.0.1:{server.port}", flush=True)
server.serve_forever()
