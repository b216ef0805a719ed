"""Trades arrive on a socket as packed rows, are filtered on arrival, and committed as time passes.

An exchange sends trades in messages that the network cuts anywhere. The condition runs over rows
where they lie, before they are columns; what is left is committed every quarter of a second, with
the number of the last trade in the same commit. Whoever starts again after a crash asks the stream
for its position, and has every trade once.
"""

import asyncio
import random

import pyarrow as pa

import tessel as ts
from tessel.store.rows import CommitStream, RowListener, RowPipeline, Rows, RowSchema

SCHEMA = RowSchema.from_arrow(
    pa.schema(
        [
            ("number", pa.int64()),
            ("time", pa.timestamp("us")),
            ("symbol", pa.string()),
            ("price", pa.float64()),
            ("quantity", pa.int32()),
        ]
    )
)
PIPELINE = RowPipeline(
    SCHEMA,
    where="price > 100",
    select={"time": "time", "symbol": "symbol", "notional": "price * quantity"},
)
MESSAGES, TRADES_A_MESSAGE = 40, 250
COMMIT_SECONDS = 0.25


def trades(message: int) -> Rows:
    """Make the trades of a message."""
    pick = random.Random(message)
    numbers = range(message * TRADES_A_MESSAGE, (message + 1) * TRADES_A_MESSAGE)
    columns = {
        "number": numbers,
        "time": pa.array([1_700_000_000_000_000 + number for number in numbers]).view(
            pa.timestamp("us")
        ),
        "symbol": [pick.choice(["ABC", "XYZ"]) for _ in numbers],
        "price": [round(pick.uniform(90, 110), 2) for _ in numbers],
        "quantity": pa.array([pick.randint(1, 100) for _ in numbers], pa.int32()),
    }
    return Rows.from_batch(SCHEMA, pa.table(columns))


async def exchange(address: tuple[str, int]) -> None:
    """Send all messages, in pieces that end anywhere."""
    _, writer = await asyncio.open_connection(*address)
    for message in range(MESSAGES):
        content = trades(message).to_bytes()
        for at in range(0, len(content), 1000):
            writer.write(content[at : at + 1000])
        await writer.drain()
        await asyncio.sleep(0.02)
    writer.close()
    await writer.wait_closed()


async def receive(stream: CommitStream) -> None:
    """Take trades until the exchange closes."""

    async def deliver(rows: Rows) -> None:
        kept = PIPELINE.run(rows)
        last = int(rows.field("number")[-1])
        # The exchange waits while this does: no more is read than can be kept.
        await asyncio.to_thread(stream.append, kept, position=last)

    async def commit() -> None:
        while True:  # also what waits while nothing arrives
            await asyncio.sleep(COMMIT_SECONDS)
            await asyncio.to_thread(stream.flush_if_due)

    async with RowListener(SCHEMA, deliver, ("127.0.0.1", 0)) as listener:
        committing = asyncio.create_task(commit())
        assert isinstance(listener.address, tuple)
        await exchange(listener.address)
        stop = asyncio.Event()
        stop.set()
        await listener.serve_until(stop)
        committing.cancel()


if __name__ == "__main__":
    store = ts.open("memory://trades")
    with CommitStream(store, "trades", index="time", max_delay_seconds=COMMIT_SECONDS) as stream:
        asyncio.run(receive(stream))
    print("committed to trade", stream.position)
    print("more than one commit:", len(store.versions("trades")) > 1)

    expected = [PIPELINE.run(trades(message)) for message in range(MESSAGES)]
    kept = store.read("trades").to_arrow()
    assert kept.equals(pa.Table.from_batches(expected).cast(kept.schema))
    print(f"{kept.num_rows} of {MESSAGES * TRADES_A_MESSAGE} trades were kept")
    query = ts.QueryBuilder().group_by("symbol").agg(total=("notional", "sum"), n="size")
    print(store.read("trades", query=query))
