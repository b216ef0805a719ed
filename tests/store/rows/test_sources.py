"""RowListener and FileTail: rows from sockets and growing files."""

from __future__ import annotations

import asyncio
import threading

import pyarrow as pa
import pytest

from tessel.errors import InvalidInputError, RowFormatError, TesselError
from tessel.store.rows import FileTail, RowListener, Rows, RowSchema

SCHEMA = RowSchema.from_arrow(pa.schema([("sender", pa.int32()), ("number", pa.int64())]))


def message(sender: int, numbers: range) -> bytes:
    table = pa.table({"sender": pa.array([sender] * len(numbers), pa.int32()), "number": numbers})
    return Rows.from_batch(SCHEMA, table).to_bytes()


async def send(address: tuple[str, int] | str, content: bytes, *, step: int = 1000) -> None:
    if isinstance(address, str):
        reader, writer = await asyncio.open_unix_connection(address)
    else:
        reader, writer = await asyncio.open_connection(*address)
    for at in range(0, len(content), step):
        writer.write(content[at : at + step])
        await writer.drain()
    writer.write_eof()
    await reader.read()
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_rows_of_several_senders_are_all_there_in_their_order(kind, tmp_path):
    received: list[Rows] = []
    address = ("127.0.0.1", 0) if kind == "tcp" else tmp_path / "rows.sock"

    async def run() -> None:
        async with RowListener(SCHEMA, received.append, address) as listener:
            contents = [
                b"".join(message(sender, range(at, at + 10)) for at in range(0, 200, 10))
                for sender in range(5)
            ]
            sending = (
                send(listener.address, content, step=7 + 100 * at)
                for at, content in enumerate(contents)
            )
            await asyncio.gather(*sending)
            stop = asyncio.Event()
            stop.set()
            await listener.serve_until(stop)

    asyncio.run(run())
    table = pa.Table.from_batches([rows.to_batch() for rows in received])
    for sender in range(5):
        mine = table.filter(pa.compute.equal(table["sender"], sender))
        assert mine["number"].to_pylist() == list(range(200))
    assert not (tmp_path / "rows.sock").exists()


def test_a_sender_that_sends_something_else_does_not_stop_the_others():
    received: list[Rows] = []
    errors: list[TesselError] = []

    async def run() -> None:
        listener = RowListener(SCHEMA, received.append, ("127.0.0.1", 0), on_error=errors.append)
        async with listener:
            await send(listener.address, b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n" * 2)
            await send(listener.address, message(1, range(3))[:-5])
            await send(listener.address, message(2, range(3)))

    asyncio.run(run())
    assert [type(error) for error in errors] == [RowFormatError, RowFormatError]
    assert "ends with" in str(errors[1])
    assert [row.get("sender") for rows in received for row in rows] == [2, 2, 2]


def test_without_a_place_for_errors_they_are_raised_on_leaving():
    async def run() -> None:
        async with RowListener(SCHEMA, print, ("127.0.0.1", 0)) as listener:
            await send(listener.address, b"x" * 100)

    with pytest.raises(RowFormatError, match="begins with"):
        asyncio.run(run())


def test_a_slow_consumer_slows_its_sender_and_loses_nothing():
    """While a delivery is awaited no more is read: the sender cannot finish."""
    received: list[Rows] = []
    free = asyncio.Event()

    async def deliver(rows: Rows) -> None:
        await free.wait()
        received.append(rows)

    content = b"".join(message(1, range(at, at + 20_000)) for at in range(0, 1_000_000, 20_000))

    async def run() -> None:
        async with RowListener(SCHEMA, deliver, ("127.0.0.1", 0)) as listener:
            sending = asyncio.create_task(send(listener.address, content, step=1 << 18))
            for _ in range(2000):
                await asyncio.sleep(0)
            assert not sending.done()
            free.set()
            await sending

    asyncio.run(run())
    assert sum(map(len, received)) == 1_000_000


def test_addresses_that_are_none_are_refused():
    with pytest.raises(InvalidInputError, match="is no address"):
        RowListener(SCHEMA, print, 9000)
    with pytest.raises(InvalidInputError, match="not open"):
        _ = RowListener(SCHEMA, print, ("127.0.0.1", 0)).address


def test_a_file_is_read_to_its_end(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(b"".join(message(1, range(at, at + 5)) for at in range(0, 50, 5)))
    tail = FileTail(path, SCHEMA)
    found = [row.get("number") for rows in tail.read() for row in rows]
    assert found == list(range(50))
    assert tail.position == path.stat().st_size


def test_a_growing_file_is_followed_and_taken_up_again(tmp_path):
    path = tmp_path / "rows"
    content = b"".join(message(1, range(at, at + 5)) for at in range(0, 100, 5))
    path.write_bytes(b"")
    stop = threading.Event()
    found: list[int] = []
    tail = FileTail(path, SCHEMA, poll_seconds=0.001)

    def follow() -> None:
        for rows in tail.follow(stop):
            found.extend(row.get("number") for row in rows)

    reader = threading.Thread(target=follow)
    reader.start()
    with path.open("ab", buffering=0) as file:
        for at in range(0, len(content), 37):
            file.write(content[at : at + 37])
    stop.set()
    reader.join()
    assert found == list(range(100))
    with path.open("ab") as file:
        file.write(message(1, range(100, 103)))
    again = FileTail(path, SCHEMA, position=tail.position)
    assert [row.get("number") for rows in again.read() for row in rows] == [100, 101, 102]


@pytest.mark.parametrize("again", [True, False], ids=["the same", "another"])
@pytest.mark.parametrize("layout", ["packed", "aligned"])
def test_a_tail_that_is_left_goes_on_behind_the_rows_it_gave(layout, again, tmp_path):
    """Of whole batches that are read in one go, the position is after those that were given."""
    schema = RowSchema.from_arrow(SCHEMA.arrow, layout=layout)
    path = tmp_path / "rows"
    parts = [
        pa.record_batch({"sender": pa.array([0] * 5, pa.int32()), "number": range(at, at + 5)})
        for at in range(0, 50, 5)
    ]
    path.write_bytes(b"".join(Rows.from_batch(schema, part).to_bytes() for part in parts))
    found: list[object] = []
    tail = FileTail(path, schema)
    for _ in range(11):
        if not again:
            tail = FileTail(path, schema, position=tail.position)
        for rows in tail.read():
            found += [row.get("number") for row in rows]
            break
    assert found == list(range(50))
    assert tail.position == path.stat().st_size


def test_half_a_row_at_the_end_is_reported_and_where_to_go_on(tmp_path):
    path = tmp_path / "rows"
    whole = message(1, range(5))
    path.write_bytes(whole + message(1, range(5, 8))[:-3])
    tail = FileTail(path, SCHEMA)
    with pytest.raises(RowFormatError, match="no whole row"):
        list(tail.read())
    assert tail.position == len(whole)


def test_a_file_that_became_shorter_is_an_error(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(message(1, range(5)))
    stop = threading.Event()
    tail = FileTail(path, SCHEMA, poll_seconds=0.001)
    rows = tail.follow(stop)
    next(rows)
    path.write_bytes(b"")
    with pytest.raises(RowFormatError, match="cut or written anew"):
        next(rows)
    with pytest.raises(InvalidInputError):
        FileTail(path, SCHEMA, position=-1)
