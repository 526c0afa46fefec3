from types import SimpleNamespace

from stand_in import serve


def run_app_in_thread(app, *, host, port):
    assert (host, port) == ("127.0.0.1", 0)
    return SimpleNamespace(port=int(serve(app).rsplit(":", 1)[1]))
