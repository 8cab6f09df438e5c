#!/usr/bin/env python3
"""Writes one transaction with aiokafka, a producer in Python with codecs of its own, and commits it.

Options, values and shapes are those of writer.py, and so is what it prints. It has no other --end than commit.
"""

import asyncio
import sys
import time

import aiokafka

import writer


async def write(arguments):
    if arguments.end != "commit" or arguments.transactions != 1 or arguments.keyed:
        raise SystemExit("only one transaction, committed, of plain lines")
    values = writer.read_lines(arguments.lines) if arguments.lines else writer.numbered(arguments)
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=arguments.bootstrap,
        transactional_id=arguments.transactional_id,
        transaction_timeout_ms=arguments.transaction_timeout_ms,
        compression_type=None if arguments.compression == "none" else arguments.compression,
        # Of all records in one batch.
        max_batch_size=1_000_000,
        linger_ms=arguments.linger_ms,
    )
    await producer.start()
    try:
        writer.say(step="initialized", transactional_id=arguments.transactional_id)
        started = time.monotonic()
        async with producer.transaction():
            partitions = len(await producer.partitions_for(arguments.topic))
            sent = [await producer.send(arguments.topic, **record) for record in records(arguments, values, partitions)]
            await producer.flush()
            delivered = [(done.partition, done.offset) for done in await asyncio.gather(*sent)]
            writer.say(step="flushed", transaction=0, records=len(delivered), offsets=writer.ends_of(delivered))
        writer.say(step="committed", transaction=0, seconds=round(time.monotonic() - started, 3))
    finally:
        await producer.stop()


def records(arguments, values, partitions):
    for number, value in enumerate(values, arguments.start):
        partition = number % partitions if arguments.partition is None else arguments.partition
        if not arguments.shapes:
            yield {"value": value, "key": str(number).encode(), "partition": partition}
            continue
        shape = writer.shape(number, value)
        shape["timestamp_ms"] = shape.pop("timestamp")
        yield {**shape, "partition": partition}


if __name__ == "__main__":
    sys.exit(asyncio.run(write(writer.parse())))
