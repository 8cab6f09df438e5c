"""Commits, aborts and reads with librdkafka (confluent-kafka), and commits offsets in a transaction.

usage: librdkafka.py BOOTSTRAP TOPIC    (the topic has two partitions)
"""
import sys
import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

bootstrap, topic = sys.argv[1:3]
group = "group-" + topic


def consumer(isolation, **more):
    return Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "isolation.level": isolation,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        **more,
    })


def read(isolation):
    c = consumer(isolation)
    c.assign([TopicPartition(topic, p, 0) for p in (0, 1)])
    ends, values, deadline = set(), [], time.monotonic() + 15
    while len(ends) < 2 and time.monotonic() < deadline:
        message = c.poll(0.5)
        if message is None:
            continue
        if message.error() is None:
            values.append(message.value().decode())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ends.add(message.partition())
        else:
            raise RuntimeError(message.error())
    c.close()
    return sorted(values)


def wait_for(expected, isolation):
    """Markers follow the answer of EndTxn, so the last records show a moment later."""
    deadline = time.monotonic() + 15
    while (found := read(isolation)) != expected:
        assert time.monotonic() < deadline, f"{isolation}: {found} instead of {expected}"


def produce(p, number):
    for k in range(5):
        p.produce(topic, value=f"{number}-{k}".encode(), partition=k % 2)
    assert p.flush(15) == 0


producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "rd-" + topic, "transaction.timeout.ms": 60000})
producer.init_transactions(15)
for number in range(6):
    producer.begin_transaction()
    produce(producer, number)
    (producer.commit_transaction if number % 2 == 0 else producer.abort_transaction)(15)
every = [f"{n}-{k}" for n in range(6) for k in range(5)]
wait_for(sorted(v for v in every if int(v[0]) % 2 == 0), "read_committed")
wait_for(sorted(every), "read_uncommitted")

# Offsets go with the transaction: an aborted one leaves them alone.
offsets = consumer("read_committed")
for end, expected in ((producer.abort_transaction, -1001), (producer.commit_transaction, 3)):
    producer.begin_transaction()
    produce(producer, 9)
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 3)], offsets.consumer_group_metadata(), 15)
    end(15)
    deadline = time.monotonic() + 15
    while (found := offsets.committed([TopicPartition(topic, 0)], 15)[0].offset) != expected:
        assert time.monotonic() < deadline, f"committed offset {found} instead of {expected}"
offsets.close()

# A subscribed consumer: a group of one member.
member = consumer("read_committed")
member.subscribe([topic])
seen, deadline = 0, time.monotonic() + 20
while seen == 0 and time.monotonic() < deadline:
    message = member.poll(0.5)
    seen += message is not None and message.error() is None
assert seen, "the group got nothing"
member.commit(asynchronous=False)
member.close()

# A second producer of the same id fences the first.
producer.begin_transaction()
produce(producer, 7)
second = Producer({"bootstrap.servers": bootstrap, "transactional.id": "rd-" + topic})
second.init_transactions(15)
try:
    producer.commit_transaction(15)
except Exception as error:
    assert error.args[0].code() == KafkaError._FENCED, error
else:
    raise AssertionError("the fenced producer committed")
print("librdkafka: ok")
