//! What no client can go below: each record is copied once into a batch, each batch is read once for its checksum and
//! written once. The records have no framing of their own, so only the null broker takes them.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use anyhow::{Result, ensure};
use kafka_2pc_bench_child::{Job, Outcome, Stopwatch, values};

/// Bytes of a batch before its records.
const HEADER: usize = 61;

/// Where the frame has `acks`: behind its length, its header and the transactional id.
const ACKS_AT: usize = 4 + 10 + 2;

pub(crate) fn produce(job: &Job) -> Result<Outcome> {
    let mut stream = TcpStream::connect(&job.bootstrap)?;
    stream.set_nodelay(true)?;
    let values = values(job.record_bytes);
    let mut batches: Vec<Batch> =
        (0..job.partitions).map(|p| Batch::new(&job.topic, p, job.batch_bytes)).collect();
    let watch = Stopwatch::start();
    for (n, value) in (0..job.records).zip(values.iter().cycle()) {
        let batch = &mut batches[usize::try_from(job.partition(n))?];
        if batch.bytes() + value.len() > job.batch_bytes {
            batch.write(&mut stream)?;
        }
        batch.frame.extend_from_slice(value);
        batch.records += 1;
    }
    let answered = batches.len();
    for batch in &mut batches {
        // The last of each partition is answered, so that everything has been read.
        batch.frame[ACKS_AT..ACKS_AT + 2].copy_from_slice(&(-1i16).to_be_bytes());
        batch.write(&mut stream)?;
    }
    for _ in 0..answered {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut answer)?;
        ensure!(answer.len() > 4, "an empty answer");
    }
    Ok(watch.stop().records(job.records))
}

/// A Produce request of version 7 with one batch, in one buffer.
struct Batch {
    frame: Vec<u8>,
    /// Where the batch begins.
    start: usize,
    records: i32,
}

impl Batch {
    fn new(topic: &str, partition: i32, capacity: usize) -> Self {
        let mut frame = vec![0; 4];
        // Produce, version 7, correlation 1, no client id.
        frame.extend_from_slice(&[0, 0, 0, 7, 0, 0, 0, 1, 0xff, 0xff]);
        // No transactional id, acks 0 (no answer), timeout, one topic.
        frame.extend_from_slice(&(-1i16).to_be_bytes());
        frame.extend_from_slice(&0i16.to_be_bytes());
        frame.extend_from_slice(&30_000i32.to_be_bytes());
        frame.extend_from_slice(&1i32.to_be_bytes());
        frame.extend_from_slice(&(topic.len() as u16).to_be_bytes());
        frame.extend_from_slice(topic.as_bytes());
        // One partition, the size of its batch.
        frame.extend_from_slice(&1i32.to_be_bytes());
        frame.extend_from_slice(&partition.to_be_bytes());
        frame.extend_from_slice(&[0; 4]);
        let start = frame.len();
        frame.reserve(capacity);
        frame.extend_from_slice(&[0; HEADER]);
        Self { frame, start, records: 0 }
    }

    fn bytes(&self) -> usize {
        self.frame.len() - self.start
    }

    /// Sends the batch and begins the next one in the same buffer.
    fn write(&mut self, stream: &mut TcpStream) -> Result<()> {
        let (start, bytes, whole) = (self.start, self.bytes(), self.frame.len());
        let frame = &mut self.frame;
        let mut put = |at: usize, field: &[u8]| frame[at..at + field.len()].copy_from_slice(field);
        put(0, &((whole - 4) as u32).to_be_bytes());
        put(start - 4, &(bytes as u32).to_be_bytes());
        put(start + 8, &((bytes - 12) as u32).to_be_bytes());
        put(start + 16, &[2]);
        put(start + 43, &(-1i64).to_be_bytes());
        put(start + 57, &self.records.to_be_bytes());
        let crc = crc32c::crc32c(&self.frame[start + 21..]);
        self.frame[start + 17..start + 21].copy_from_slice(&crc.to_be_bytes());
        stream.write_all(&self.frame)?;
        self.frame.truncate(start + HEADER);
        self.records = 0;
        Ok(())
    }
}
