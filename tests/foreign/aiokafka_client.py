"""Commits, aborts and reads with aiokafka.

usage: aiokafka_client.py BOOTSTRAP TOPIC    (the topic has two partitions)
"""
import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

bootstrap, topic = sys.argv[1:3]


async def read(isolation):
    partitions = [TopicPartition(topic, p) for p in (0, 1)]
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign(partitions)
        await consumer.seek_to_beginning()
        ends, values = await consumer.end_offsets(partitions), []
        while any([await consumer.position(p) < ends[p] for p in partitions]):
            for records in (await consumer.getmany(timeout_ms=500)).values():
                values += [r.value.decode() for r in records]
        return sorted(values)
    finally:
        await consumer.stop()


async def wait_for(expected, isolation):
    for _ in range(50):
        found = await read(isolation)
        if found == expected:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{isolation}: {found} instead of {expected}")


async def main():
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="aio-" + topic)
    await producer.start()
    try:
        for number in range(6):
            await producer.begin_transaction()
            for k in range(5):
                await producer.send_and_wait(topic, f"{number}-{k}".encode(), partition=k % 2)
            await (producer.commit_transaction if number % 2 == 0 else producer.abort_transaction)()
    finally:
        await producer.stop()
    every = [f"{n}-{k}" for n in range(6) for k in range(5)]
    await wait_for(sorted(v for v in every if int(v[0]) % 2 == 0), "read_committed")
    await wait_for(sorted(every), "read_uncommitted")
    print("aiokafka: ok")


asyncio.run(asyncio.wait_for(main(), 60))
