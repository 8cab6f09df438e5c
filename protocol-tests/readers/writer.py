#!/usr/bin/env python3
"""Writes transactions with somebody else's producer (librdkafka), and leaves them as it is told.

init_transactions comes first and fences whoever held the transactional id: so a second run under the same id after one that
left its transaction open is "fence and replay". Every step is one JSON line on standard output, at once.

  --end commit     commit each transaction
  --end abort      flush, then abort each transaction
  --end open       flush the transaction and die without closing it: it stays open until it is fenced or times out
  --end hold       flush the transaction and keep it open until standard input has a line or closes, then commit or abort as the
                   line says (abort by default)

Values are the lines of --lines, or `PREFIX-NUMBER`; keys are the decimal number of the record, partitions go round robin. With
--shapes all records differ in what a copy could lose: null keys and values, headers (repeated, empty, null), timestamps.
--keyed a line is `KEY VALUE`, and its partition depends on its key alone.
"""

import argparse
import json
import os
import sys
import time
import zlib

import confluent_kafka as ck


def main():
    arguments = parse()
    values = read_lines(arguments.lines) if arguments.lines else numbered(arguments)
    producer = ck.Producer(configuration(arguments))
    producer.init_transactions(arguments.timeout)
    say(step="initialized", transactional_id=arguments.transactional_id)
    partitions = partition_count(producer, arguments)
    for number, chunk in enumerate(chunks(values, arguments)):
        delivered = write(producer, arguments, chunk, partitions)
        say(step="flushed", transaction=number, records=len(delivered), offsets=ends_of(delivered))
        end(producer, arguments, number)
    return 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--transactional-id", required=True)
    parser.add_argument("--records", type=int, default=10)
    parser.add_argument("--start", type=int, default=0, help="number of the first record")
    parser.add_argument("--prefix", default="value")
    parser.add_argument("--lines", help="file whose lines are written, instead of --records")
    parser.add_argument("--keyed", action="store_true", help="lines are KEY VALUE")
    parser.add_argument("--batch-records", type=int, default=10_000, help="the most records in a batch")
    parser.add_argument("--transactions", type=int, default=1, help="spread the records over so many transactions")
    parser.add_argument("--end", choices=["commit", "abort", "open", "hold"], default="commit")
    parser.add_argument("--shapes", action="store_true", help="records of every shape")
    parser.add_argument("--partition", type=int, help="write to this one only")
    parser.add_argument("--compression", choices=["none", "gzip", "snappy", "lz4", "zstd"], default="none")
    parser.add_argument("--linger-ms", type=int, default=5)
    parser.add_argument("--transaction-timeout-ms", type=int, default=60_000)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for each call")
    return parser.parse_args()


def configuration(arguments):
    return {
        "bootstrap.servers": arguments.bootstrap,
        "transactional.id": arguments.transactional_id,
        "transaction.timeout.ms": arguments.transaction_timeout_ms,
        # The client insists that its own delivery timeout is not longer than the transaction's.
        "delivery.timeout.ms": min(arguments.transaction_timeout_ms, 120_000),
        "compression.type": arguments.compression,
        "linger.ms": arguments.linger_ms,
        "batch.num.messages": arguments.batch_records,
    }


def read_lines(path):
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def numbered(arguments):
    return [f"{arguments.prefix}-{n}".encode() for n in range(arguments.start, arguments.start + arguments.records)]


def chunks(values, arguments):
    """The values with their numbers, in as many runs of nearly equal length as there shall be transactions."""
    everything = list(enumerate(values, arguments.start))
    size = -(-len(everything) // arguments.transactions) if everything else 1
    return [everything[at : at + size] for at in range(0, len(everything), size)]


def partition_count(producer, arguments):
    topic = producer.list_topics(arguments.topic, timeout=arguments.timeout).topics[arguments.topic]
    if topic.error is not None:
        raise ck.KafkaException(topic.error)
    return len(topic.partitions)


def write(producer, arguments, chunk, partitions):
    """One transaction, begun and flushed; where each record went."""
    delivered, failed = [], []

    def report(error, message):
        if error is None:
            delivered.append((message.partition(), message.offset()))
        else:
            failed.append(error)

    producer.begin_transaction()
    for number, value in chunk:
        key, place = str(number).encode(), number
        if arguments.keyed:
            key, value = value.split(b" ", 1)
            place = zlib.crc32(key)
        partition = place % partitions if arguments.partition is None else arguments.partition
        while True:
            try:
                record = shape(number, value) if arguments.shapes else {"value": value, "key": key}
                producer.produce(arguments.topic, partition=partition, on_delivery=report, **record)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush(arguments.timeout)
    if failed or len(delivered) != len(chunk):
        raise SystemExit(f"delivered {len(delivered)} of {len(chunk)}, errors {failed[:3]}")
    return delivered


def shape(number, value):
    """A record with as much of everything as its number says."""
    headers = [("number", str(number).encode()), ("same", b"1"), ("same", b"2"), ("null", None), ("empty", b"")]
    return {
        "key": None if number % 11 == 0 else str(number % 100).encode(),
        "value": None if number % 13 == 0 else value,
        "headers": headers[: number % 6],
        # Not in the order of offsets, and long ago: the time of the copy is another one.
        "timestamp": 1_600_000_000_000 + number * 7919 % 100_000,
    }


def ends_of(delivered):
    """First and last offset per partition."""
    ends = {}
    for partition, offset in delivered:
        first, last = ends.get(partition, (offset, offset))
        ends[partition] = (min(first, offset), max(last, offset))
    return {str(partition): ends[partition] for partition in sorted(ends)}


def end(producer, arguments, number):
    how = arguments.end
    if how == "hold":
        say(step="holding", transaction=number)
        how = sys.stdin.readline().strip() or "abort"
    if how == "open":
        say(step="left open", transaction=number)
        # Without the interpreter's own end: the client would abort the transaction on its way out.
        os._exit(0)
    started = time.monotonic()
    if how == "commit":
        producer.commit_transaction(arguments.timeout)
    elif how == "abort":
        producer.abort_transaction(arguments.timeout)
    else:
        raise SystemExit(f"told to {how!r}: neither commit nor abort")
    say(step="committed" if how == "commit" else "aborted", transaction=number, seconds=round(time.monotonic() - started, 3))


def say(**line):
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ck.KafkaException as e:
        error = e.args[0]
        say(step="failed", code=error.code(), error=error.str(), fatal=error.fatal(), retriable=error.retriable())
        sys.exit(1)
