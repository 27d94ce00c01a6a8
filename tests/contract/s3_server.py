"""An S3 server for tests, on loopback: `python s3_server.py PORT`. It makes the buckets below when it starts.

It is moto's, which honours conditional puts; one request at a time, because moto looks and then writes, and between the
two another request must not come. Two buckets misbehave on purpose:
- `deaf` does not hear conditions, as some stores that speak S3 do;
- `forgetful` does what it is asked and then says, once per object, that it failed.
"""

from __future__ import annotations

import os
import sys
import urllib.request

BUCKETS = ("plain", "deaf", "forgetful")
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests", "AWS_REGION": "us-east-1"}


class Misbehaving:
    """Passes requests on, but for the two buckets."""

    def __init__(self, app):
        self._app = app
        self._failed = set()

    def __call__(self, environ, start_response):
        path = environ["PATH_INFO"]
        if path.startswith("/deaf/"):
            environ.pop("HTTP_IF_NONE_MATCH", None)
        fails = environ["REQUEST_METHOD"] == "PUT" and path.startswith("/forgetful/") and path not in self._failed
        if not fails or ".millpond" in path:
            return self._app(environ, start_response)
        self._failed.add(path)
        b"".join(self._app(environ, lambda *_: None))
        start_response("500 Internal Server Error", [("Content-Type", "text/plain")])
        return [b"something went wrong"]


def main(port: int) -> None:
    os.environ.update(CREDENTIALS)
    from moto.moto_server.werkzeug_app import create_backend_app
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", port, Misbehaving(create_backend_app("s3")), threaded=False)
    import threading

    def make_buckets():
        for bucket in BUCKETS:
            urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/{bucket}", method="PUT")).close()
        sys.stdout.write("ready\n")
        sys.stdout.flush()

    threading.Thread(target=make_buckets).start()
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
