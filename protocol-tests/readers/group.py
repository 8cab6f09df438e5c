#!/usr/bin/env python3
"""Tells where a consumer group stands in a topic, asked with librdkafka.

usage: group.py BOOTSTRAP GROUP TOPIC

One JSON object on standard output: by partition [committed offset or -1, high watermark]. An offset that an open
transaction holds back is not told: the one before it is.
"""

import json
import sys

from confluent_kafka import Consumer, TopicPartition

TIMEOUT = 30

bootstrap, group, topic = sys.argv[1:4]
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
    told[at.partition] = [max(at.offset, -1), high]
consumer.close()
print(json.dumps(told))
