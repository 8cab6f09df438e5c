#!/usr/bin/env python3
"""Reads a topic with somebody else's client, librdkafka or aiokafka, and tells what is in it.

All partitions are assigned by hand (no group) and read from their start to their end as it was when reading began: for
read_committed that end is the last stable offset, for read_uncommitted the high watermark.

Without --expect-lines every record becomes a JSON line in --output (key, value and header values in base64, null as null), and
standard output gets one JSON summary. With --expect-lines the values are compared with the lines of a file instead:

  records       values read
  duplicated    values read more often than the file has them
  unexpected    values that the file does not have (not counted as duplicated)
  lost          lines of the file that were read too rarely
  out_of_order  values that break the file's order within their partition, or with --order key among those of their key (surplus and
                unexpected values are left out of it)

Exit status: 0 read to the end (whatever the comparison says), 1 an error, 3 the end was not reached in time.
"""

import argparse
import base64
import bisect
import contextlib
import json
import sys
import time
from collections import Counter

TIMED_OUT = 3
EXAMPLES = 5


class TimedOut(Exception):
    """The end was not reached in time."""


def main():
    arguments = parse()
    sink = Comparison(arguments.expect_lines, arguments.order) if arguments.expect_lines else Listing(arguments.output)
    summary = {"library": arguments.library, "isolation": arguments.isolation}
    status = 0
    started = time.monotonic()
    try:
        with contextlib.closing(sink):
            read = {"confluent": read_confluent, "aiokafka": read_aiokafka}[arguments.library]
            read(arguments, started + arguments.timeout, sink, summary)
    except TimedOut as e:
        summary["error"], status = f"timed out: {e}", TIMED_OUT
    except Exception as e:  # every failure of either library belongs into the summary
        summary["error"], status = f"{type(e).__name__}: {e}", 1
    summary.update(sink.summary())
    summary["seconds"] = round(time.monotonic() - started, 3)
    print(json.dumps(summary), flush=True)
    return status


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", choices=["confluent", "aiokafka"], required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--isolation", choices=["read_committed", "read_uncommitted"], default="read_committed")
    parser.add_argument("--until-end", action="store_true", help="stop at the end (the default without --count)")
    parser.add_argument("--count", type=int, help="stop after so many records, waiting for them beyond the end")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for everything")
    parser.add_argument("--output", help="file for the records; default: records are only counted")
    parser.add_argument("--expect-lines", help="file whose lines the values must equal")
    parser.add_argument("--order", choices=["partition", "key"], default="partition", help="among which records order is looked at")
    arguments = parser.parse_args()
    if arguments.until_end and arguments.count is not None:
        parser.error("--until-end and --count exclude each other")
    return arguments


class Listing:
    """Writes every record down."""

    def __init__(self, path):
        self.records = 0
        self.file = open(path, "w", encoding="ascii") if path else None

    def record(self, partition, offset, timestamp, key, value, headers):
        self.records += 1
        if self.file is None:
            return
        line = {
            "partition": partition,
            "offset": offset,
            "timestamp": timestamp,
            "key": encoded(key),
            "value": encoded(value),
            "headers": [[name, encoded(header)] for name, header in headers],
        }
        self.file.write(json.dumps(line) + "\n")

    def close(self):
        if self.file is not None:
            self.file.close()

    def summary(self):
        return {"records": self.records}


def encoded(data):
    return None if data is None else base64.b64encode(data).decode("ascii")


class Comparison:
    """Compares values with lines, as a multiset and in their order."""

    def __init__(self, path, order):
        self.order = order
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        self.places = {}
        for number, line in enumerate(lines):
            self.places.setdefault(line, []).append(number)
        self.seen = Counter()
        self.last = {}
        self.records = self.duplicated = self.unexpected = self.out_of_order = 0
        self.examples = {"duplicated": [], "unexpected": [], "out_of_order": [], "lost": []}

    def record(self, partition, offset, _timestamp, key, value, _headers):
        self.records += 1
        places = self.places.get(value)
        if places is None:
            self.unexpected += 1
            self.example("unexpected", partition, offset, value)
            return
        self.seen[value] += 1
        if self.seen[value] > len(places):
            self.duplicated += 1
            self.example("duplicated", partition, offset, value)
            return
        # The earliest place behind the last one keeps most room for what follows, so a value is out of order only if
        # no choice of places would have put it in order.
        lane = partition if self.order == "partition" else key
        last = self.last.get(lane, -1)
        at = bisect.bisect_right(places, last)
        if at == len(places):
            self.out_of_order += 1
            self.example("out_of_order", partition, offset, value)
        else:
            self.last[lane] = places[at]

    def example(self, kind, partition, offset, value):
        if len(self.examples[kind]) < EXAMPLES:
            self.examples[kind].append([partition, offset, (value or b"").decode("utf-8", "replace")])

    def close(self):
        pass

    def summary(self):
        lost = 0
        for line, places in self.places.items():
            missing = len(places) - min(self.seen[line], len(places))
            if missing:
                lost += missing
                self.example("lost", None, None, line)
        return {
            "records": self.records,
            "duplicated": self.duplicated,
            "lost": lost,
            "unexpected": self.unexpected,
            "out_of_order": self.out_of_order,
            "examples": {kind: found for kind, found in self.examples.items() if found},
        }


class Progress:
    """Which partitions still have something before their end, and whether enough was read."""

    def __init__(self, arguments, deadline, starts, ends, summary):
        self.count, self.deadline, self.starts, self.ends = arguments.count, deadline, starts, ends
        self.left = {p for p in ends if starts[p] < ends[p]}
        self.read = 0
        summary["partitions"] = {str(p): {"start": starts[p], "end": ends[p]} for p in sorted(ends)}

    def wanted(self, partition, offset):
        return self.count is not None or offset < self.ends[partition]

    def at(self, partition, position):
        """The partition was read up to here; true when it is finished just now."""
        if partition in self.left and position >= self.ends[partition]:
            self.left.discard(partition)
            return True
        return False

    def done(self):
        finished = self.read >= self.count if self.count is not None else not self.left
        if not finished and time.monotonic() >= self.deadline:
            raise TimedOut(f"{self.read} records read, partitions before their end: {sorted(self.left)}")
        return finished


def read_confluent(arguments, deadline, sink, summary):
    import confluent_kafka as ck
    from confluent_kafka import admin

    summary["version"] = f"confluent-kafka {ck.__version__}, librdkafka {ck.libversion()[0]}"
    levels = {"read_committed": ck.IsolationLevel.READ_COMMITTED, "read_uncommitted": ck.IsolationLevel.READ_UNCOMMITTED}
    consumer = ck.Consumer({
        "bootstrap.servers": arguments.bootstrap,
        "group.id": "foreign-reader",
        "isolation.level": arguments.isolation,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 100,
    })
    with contextlib.closing(consumer):
        topic = consumer.list_topics(arguments.topic, timeout=remaining(deadline)).topics[arguments.topic]
        if topic.error is not None:
            raise ck.KafkaException(topic.error)
        client = admin.AdminClient({"bootstrap.servers": arguments.bootstrap})

        def offsets(spec):
            asked = {ck.TopicPartition(arguments.topic, p): spec for p in topic.partitions}
            futures = client.list_offsets(asked, isolation_level=levels[arguments.isolation])
            return {tp.partition: f.result(timeout=remaining(deadline)).offset for tp, f in futures.items()}

        starts, ends = offsets(admin.OffsetSpec.earliest()), offsets(admin.OffsetSpec.latest())
        progress = Progress(arguments, deadline, starts, ends, summary)
        consumer.assign([ck.TopicPartition(arguments.topic, p, starts[p]) for p in sorted(starts)])
        while not progress.done():
            for message in consumer.consume(num_messages=5000, timeout=0.2):
                partition, offset = message.partition(), message.offset()
                error = message.error()
                if error is None:
                    if progress.wanted(partition, offset):
                        progress.read += 1
                        sink.record(partition, offset, message.timestamp()[1], message.key(), message.value(), message.headers() or [])
                    offset += 1
                elif error.code() != ck.KafkaError._PARTITION_EOF:
                    raise ck.KafkaException(error)
                # Records that are aborted, and control records, are passed silently: only the end-of-partition event tells.
                progress.at(partition, offset)


def read_aiokafka(arguments, deadline, sink, summary):
    import asyncio

    asyncio.run(read_aiokafka_async(arguments, deadline, sink, summary))


async def read_aiokafka_async(arguments, deadline, sink, summary):
    import aiokafka

    summary["version"] = f"aiokafka {aiokafka.__version__}"
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=arguments.bootstrap,
        isolation_level=arguments.isolation,
        enable_auto_commit=False,
        auto_offset_reset="none",
        fetch_max_wait_ms=100,
    )
    await consumer.start()
    try:
        partitions = await partitions_of(consumer, arguments.topic, deadline)
        assigned = [aiokafka.TopicPartition(arguments.topic, p) for p in partitions]
        starts = {tp.partition: offset for tp, offset in (await consumer.beginning_offsets(assigned)).items()}
        ends = {tp.partition: offset for tp, offset in (await consumer.end_offsets(assigned)).items()}
        progress = Progress(arguments, deadline, starts, ends, summary)
        consumer.assign(assigned)
        for tp in assigned:
            consumer.seek(tp, starts[tp.partition])
        while not progress.done():
            for tp, records in (await consumer.getmany(timeout_ms=200, max_records=5000)).items():
                for record in records:
                    if progress.wanted(tp.partition, record.offset):
                        progress.read += 1
                        sink.record(tp.partition, record.offset, record.timestamp, record.key, record.value, record.headers)
            # The position moves over aborted and control records too.
            for tp in assigned:
                if tp.partition in progress.left:
                    progress.at(tp.partition, await consumer.position(tp))
    finally:
        await consumer.stop()


async def partitions_of(consumer, topic, deadline):
    """The partitions of a topic that the client has not heard of before."""
    import asyncio

    consumer._client.add_topic(topic)
    while True:
        partitions = consumer.partitions_for_topic(topic)
        if partitions:
            return sorted(partitions)
        if time.monotonic() >= deadline:
            raise TimedOut(f"no partitions of topic {topic}")
        await consumer._client.force_metadata_update()
        await asyncio.sleep(0.05)


def remaining(deadline):
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimedOut("before the first record")
    return left


if __name__ == "__main__":
    sys.exit(main())
