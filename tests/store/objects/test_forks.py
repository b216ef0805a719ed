"""A process that was forked after a cloud was used is told so; before, and with spawn, it works."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable

from tessel.errors import ForkUnsafeError
from tessel.store.objects import MemoryObjects, ObjectStore
from tests.store.objects.servers import CREDENTIALS, MotoServer


def _in_fork(act: Callable[[], str]) -> str:
    """Return what a forked child makes of a call; the child ends without any clean-up."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = act()
        except BaseException as error:
            answer = f"{type(error).__name__} {error}"
        os.write(writer, answer.encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer


def test_every_call_in_a_forked_child_is_refused(moto: MotoServer) -> None:
    bucket = moto.new_bucket()
    objects = moto.open(f"s3://{bucket}/a")
    objects.put_if_absent("a", b"1")
    acts: dict[str, Callable[[ObjectStore], object]] = {
        "put": lambda o: o.put_if_absent("b", b""),
        "get": lambda o: o.get("a"),
        "range": lambda o: o.get_range("a", 0, 1),
        "list": lambda o: list(o.list()),
        "size": lambda o: o.size("a"),
        "exists": lambda o: o.exists("a"),
        "delete": lambda o: o.delete("a"),
        "open": lambda o: moto.open(f"s3://{bucket}/b"),
    }
    for name, act in acts.items():
        answer = _in_fork(lambda act=act: str(act(objects)))  # type: ignore[misc]
        assert answer.startswith(ForkUnsafeError.__name__), (name, answer)
        assert "spawn" in answer
    assert objects.get("a").to_pybytes() == b"1", "the parent goes on"


def test_a_child_of_a_child_is_refused_too(moto: MotoServer) -> None:
    objects = moto.open(f"s3://{moto.new_bucket()}/a")
    answer = _in_fork(lambda: _in_fork(lambda: str(objects.exists("a"))))
    assert answer.startswith(ForkUnsafeError.__name__)


def test_other_stores_work_in_a_forked_child(moto: MotoServer) -> None:
    moto.open(f"s3://{moto.new_bucket()}/a").exists("a")
    memory = MemoryObjects.named("")
    memory.put_if_absent("a", b"1")
    assert _in_fork(lambda: memory.get("a").to_pybytes().decode()) == "1"


_FORK_FIRST = """
import os, sys
from tessel.store.objects import CloudOptions, S3Credentials, open_objects

def use():
    options = CloudOptions(endpoint=sys.argv[1], region="us-east-1", allow_http=True)
    objects = open_objects(sys.argv[2], credentials=S3Credentials("k", "s"), options=options)
    objects.put_if_absent(f"by/{os.getpid()}", b"1")

child = os.fork()
if child == 0:
    use()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
use()
"""


def test_a_fork_before_the_first_use_is_none(moto: MotoServer) -> None:
    uri = f"s3://{moto.new_bucket()}/a"
    subprocess.run([sys.executable, "-c", _FORK_FIRST, moto.url, uri], check=True)
    assert len(list(moto.open(uri).list("by/"))) == 2


def _put_from_a_new_process(url: str, uri: str) -> None:
    from tessel.store.objects import CloudOptions, open_objects

    options = CloudOptions(endpoint=url, region="us-east-1", allow_http=True)
    open_objects(uri, credentials=CREDENTIALS, options=options).put_if_absent("a", b"spawned")


def test_a_spawned_process_works(moto: MotoServer) -> None:
    uri = f"s3://{moto.new_bucket()}/a"
    objects = moto.open(uri)
    assert not objects.exists("a")
    process = multiprocessing.get_context("spawn").Process(
        target=_put_from_a_new_process, args=(moto.url, uri)
    )
    process.start()
    process.join()
    assert process.exitcode == 0
    assert objects.get("a").to_pybytes() == b"spawned"
