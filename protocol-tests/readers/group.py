#!/usr/bin/env python3
"""Tells where a consumer group stands in a topic, asked with librdkafka.

usage: group.py BOOTSTRAP GROUP TOPIC [metadata]

One JSON object on standard output: by partition [committed offset or -1, high watermark, leader epoch or null, metadata or
null]. Metadata is asked for with aiokafka, if at all: confluent-kafka reads past the end of it. An offset that an open transaction holds back is not told: the one before it is.
"""

import asyncio
import json
import sys

from confluent_kafka import Consumer, TopicPartition

TIMEOUT = 30

bootstrap, group, topic = sys.argv[1:4]


async def texts():
    """The metadata of each partition, by aiokafka."""
    from aiokafka.admin import AIOKafkaAdminClient

    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        offsets = await admin.list_consumer_group_offsets(group)
        return {at.partition: kept.metadata for at, kept in offsets.items() if at.topic == topic}
    finally:
        await admin.close()


metadata = asyncio.run(texts()) if sys.argv[4:] == ["metadata"] else {}
consumer = Consumer({
    "bootstrap.servers": bootstrap,
    "group.id": group,
    "enable.auto.commit": False,
    # With read_committed it would wait for the end of such a transaction.
    "isolation.level": "read_uncommitted",
})
partitions = sorted(consumer.list_topics(topic, timeout=TIMEOUT).topics[topic].partitions)
told = {}
for at in consumer.committed([TopicPartition(topic, p) for p in partitions], timeout=TIMEOUT):
    if at.error is not None:
        raise RuntimeError(f"{topic}-{at.partition}: {at.error}")
    _, high = consumer.get_watermark_offsets(TopicPartition(topic, at.partition), timeout=TIMEOUT)
    told[at.partition] = [max(at.offset, -1), high, at.leader_epoch, metadata.get(at.partition)]
consumer.close()
print(json.dumps(told))
