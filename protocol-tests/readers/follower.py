#!/usr/bin/env python3
"""Follows a topic of numbered records with librdkafka while it is written, and holds each record against what must come next.

Of --partitions partitions, partition p holds the numbers p, p + partitions, p + 2 * partitions and so on, each once and in
order; a value is its number with zeros before it. How many records were read is written into --progress, for a writer that
waits for its reader. When --done appears, which holds how many there are, the rest is read, and standard output gets a summary:

  records   values read
  wrong     values that were not the next number of their partition
  examples  a few of these: partition, offset, expected, found

Exit status: 0 everything was read (whatever the numbers say), 1 an error, 3 nothing came for a while.
"""

import argparse
import contextlib
import json
import os
import sys
import time

EXAMPLES = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ["--bootstrap", "--topic", "--progress", "--done"]:
        parser.add_argument(name, required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--patience", type=float, default=60.0, help="seconds in which at least one record must come")
    arguments = parser.parse_args()
    summary = {"records": 0, "wrong": 0, "examples": []}
    status = 0
    try:
        status = follow(arguments, summary)
    except Exception as e:  # every failure of the library belongs into the summary
        summary["error"], status = f"{type(e).__name__}: {e}", 1
    print(json.dumps(summary), flush=True)
    return status


def follow(arguments, summary):
    import confluent_kafka as ck

    consumer = ck.Consumer({
        "bootstrap.servers": arguments.bootstrap,
        "group.id": "follower",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        # Where retention is faster than we are, that is an error and no gap.
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 50,
        "queued.max.messages.kbytes": 32768,
    })
    expected = list(range(arguments.partitions))
    last = time.monotonic()
    with contextlib.closing(consumer):
        consumer.assign([ck.TopicPartition(arguments.topic, p, 0) for p in range(arguments.partitions)])
        while not done(arguments, summary):
            messages = consumer.consume(num_messages=5000, timeout=0.05)
            for message in messages:
                if message.error() is not None:
                    raise ck.KafkaException(message.error())
                partition, found = message.partition(), int(message.value())
                if found != expected[partition]:
                    summary["wrong"] += 1
                    if len(summary["examples"]) < EXAMPLES:
                        summary["examples"].append([partition, message.offset(), expected[partition], found])
                expected[partition] = found + arguments.partitions
            summary["records"] += len(messages)
            if messages:
                last = time.monotonic()
                put(arguments.progress, summary["records"])
            elif time.monotonic() - last > arguments.patience:
                summary["error"] = f"nothing came for {arguments.patience} s"
                return 3
        # What should not be there would be behind the end.
        for message in consumer.consume(num_messages=100, timeout=2.0):
            if message.error() is None:
                summary["records"] += 1
    return 0


def put(path, number):
    """In one step, so that nobody reads half a number."""
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(str(number))
    os.rename(path + ".new", path)


def done(arguments, summary):
    try:
        with open(arguments.done, encoding="ascii") as file:
            return summary["records"] >= int(file.read())
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    sys.exit(main())
