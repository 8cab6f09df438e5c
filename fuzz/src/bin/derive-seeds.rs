//! Makes seeds of what was recorded: of the frames that `record-frames` kept, and of the states of jobs.
//!
//! ```text
//! cargo run --bin derive-seeds -- FRAMES STATES    writes into corpus
//! ```
//! What machines decide by has no recording: their seeds are numbers.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use bytes::{Bytes, BytesMut};
use kafka_2pc::{
    checkpoint::{Checkpoint, InputPosition},
    proto::{committable::Committable, pool::WriterState},
    record::Record,
    wire::{
        api::Api,
        batch::Batches,
        frame::{RequestHeader, decode_response_header},
        guard::{
            self, Direction,
            sample::{self, Choices, Seeded},
        },
    },
};
use kafka_2pc_fuzz::{seeds::sessions, targets::SEPARATOR};
use kafka_protocol::{
    messages::{FetchResponse, ProduceRequest},
    protocol::{Decodable, Encodable},
};

/// Requests in a row, in one seed of the broker.
const SESSION: usize = 10;
/// Seeds of each target whose input is decisions.
const NUMBERS: usize = 12;
/// Batches with one codec that are kept.
const BATCHES: usize = 10;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let [frames, states] = arguments.as_slice() else { anyhow::bail!("usage: derive-seeds FRAMES STATES") };
    let mut seeds =
        Seeds { corpus: Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus"), ..Seeds::default() };
    seeds.frames(&files(&frames.join("request"))?, &files(&frames.join("response"))?)?;
    for (path, bytes) in files(states)? {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("checkpoint-")) {
            seeds.state(&bytes)?;
        } else if let Ok(committable) = Committable::from_bytes(&bytes) {
            seeds.committable(&committable)?;
        }
    }
    seeds.records()?;
    seeds.numbers()
}

/// Files with their content, below a folder, the oldest first.
fn files(folder: &Path) -> io::Result<Vec<(PathBuf, Bytes)>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.metadata()?.modified()?, path));
            }
        }
    }
    found.sort();
    found.into_iter().map(|(_, path)| Ok((path.clone(), fs::read(path)?.into()))).collect()
}

#[derive(Debug, Default)]
struct Seeds {
    corpus: PathBuf,
    /// How many batches of a codec were taken.
    batches: BTreeMap<u8, usize>,
}

impl Seeds {
    fn put(&self, target: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.corpus.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{:08x}-{}", crc32c::crc32c(bytes), bytes.len())), bytes)
    }

    fn frames(
        &mut self,
        requests: &[(PathBuf, Bytes)],
        responses: &[(PathBuf, Bytes)],
    ) -> anyhow::Result<()> {
        for (_, frame) in requests {
            self.put("request", frame)?;
            self.produced(frame.clone())?;
        }
        for (_, seed) in responses {
            self.put("response", seed)?;
            self.fetched(seed.clone())?;
        }
        let framed =
            |frame: &Bytes| [&u32::try_from(frame.len()).unwrap_or(0).to_be_bytes(), &frame[..]].concat();
        let all: Vec<&Bytes> = requests.iter().map(|(_, frame)| frame).collect();
        for three in all.chunks(3).take(8) {
            let stream: Vec<u8> = three.iter().flat_map(|frame| framed(frame)).collect();
            self.put("frame", &[&[0x10, 0][..], &stream].concat())?;
            // As bytes, to the port.
            self.put("broker", &[&[0x80][..], &stream].concat())?;
        }
        for (session, way) in all.chunks(SESSION).zip((0..6).cycle()) {
            let requests: Vec<&[u8]> = session.iter().map(|frame| &frame[..]).collect();
            self.put("broker", &[&[way][..], &requests.join(&SEPARATOR[..])].concat())?;
        }
        for (session, way) in sessions().iter().zip((0..6).cycle()) {
            self.put("broker", &[&[way][..], &session.join(&SEPARATOR[..])].concat())?;
        }
        Ok(())
    }

    /// The batches of a Produce request.
    fn produced(&mut self, mut frame: Bytes) -> anyhow::Result<()> {
        let Ok(header) = RequestHeader::decode(&mut frame) else { return Ok(()) };
        let known = sample::versions(Direction::Request, Api::Produce).contains(header.version);
        if header.api != Api::Produce
            || !known
            || guard::check_request(Api::Produce, header.version, &frame).is_err()
        {
            return Ok(());
        }
        let request = ProduceRequest::decode(&mut frame, header.version)?;
        let partitions = request.topic_data.into_iter().flat_map(|topic| topic.partition_data);
        partitions.filter_map(|partition| partition.records).try_for_each(|records| self.payload(&records))
    }

    /// A Fetch response in a version that we read, and its batches.
    fn fetched(&mut self, seed: Bytes) -> anyhow::Result<()> {
        let [1, version, ..] = seed[..] else { return Ok(()) };
        let (version, mut body) = (i16::from(version), seed.slice(2..));
        decode_response_header(&mut body, Api::Fetch, version)?;
        guard::check_response(Api::Fetch, version, &body)?;
        let response = FetchResponse::decode(&mut body, version)?;
        let (ours, mut out) = (version.min(13), BytesMut::new());
        response.encode(&mut out, ours)?;
        if ours >= 4 {
            self.put("fetch", &[&[u8::try_from(ours - 4)?][..], &out].concat())?;
        }
        let partitions = response.responses.into_iter().flat_map(|topic| topic.partitions);
        partitions.filter_map(|partition| partition.records).try_for_each(|records| self.payload(&records))
    }

    fn payload(&mut self, payload: &Bytes) -> anyhow::Result<()> {
        let batches: Vec<_> = Batches::new(payload.clone()).map_while(Result::ok).collect();
        for batch in &batches {
            let codec = batch.header().codec();
            let taken = self.batches.entry(codec).or_default();
            *taken += 1;
            if *taken > BATCHES || batch.header().count == 0 {
                continue;
            }
            self.put("batch", batch.bytes())?;
            self.put("batch_peer", &[&[0][..], batch.bytes()].concat())?;
            self.put("decompress", &[&[codec, 0x10, 0][..], &batch.bytes()[61..]].concat())?;
        }
        // A walk over several, the last of which may be cut.
        if batches.len() > 2 && payload.len() < 1500 {
            self.put("batch", payload)?;
        }
        Ok(())
    }

    fn state(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let checkpoint = Checkpoint::from_bytes(bytes)?;
        self.put("checkpoint", bytes)?;
        for writer in &checkpoint.writers {
            self.put("writer_state", &writer.to_bytes())?;
            // The first format is the same without what ids were used for, which is one byte where there is nothing.
            let without = WriterState { history: None, ..writer.clone() }.to_bytes();
            self.put("writer_state", &sealed(*b"K2PW", &without[14..without.len() - 5]))?;
        }
        checkpoint.committables.iter().try_for_each(|listed| self.committable(&listed.committable))?;
        if let Some(position) = checkpoint.input()? {
            self.put("checkpoint", &first_format(&checkpoint, &position))?;
        }
        Ok(())
    }

    fn committable(&self, committable: &Committable) -> anyhow::Result<()> {
        self.put("committable", &committable.to_bytes())?;
        let id = committable.transactional_id.as_str().as_bytes();
        let parts: [&[u8]; 4] = [
            &committable.identity.epoch.0.to_be_bytes(),
            &committable.identity.producer_id.0.to_be_bytes(),
            &u16::try_from(id.len())?.to_be_bytes(),
            id,
        ];
        Ok(self.put("flink", &parts.concat())?)
    }

    fn records(&self) -> anyhow::Result<()> {
        let headers = vec![("a".into(), Some("b".into())), ("c".into(), None)];
        let full =
            Record { partition: Some(3), timestamp: Some(7), headers, ..Record::value("v").with_key("k") };
        for records in [vec![Record::default()], vec![full.clone()], vec![Record::value("x"), full]] {
            let mut bytes = Vec::new();
            records.iter().for_each(|record| record.encode(&mut bytes));
            self.put("record", &bytes)?;
        }
        Ok(())
    }

    fn numbers(&self) -> anyhow::Result<()> {
        let mut choices = Seeded(1);
        for target in ["read_committed", "transaction", "coordinator", "batch_peer"] {
            for _ in 0..NUMBERS {
                let length = 20 + choices.below(60);
                let mut bytes: Vec<u8> = (0..length).map(|_| choices.below(256).to_be_bytes()[3]).collect();
                if target == "batch_peer" {
                    bytes[0] |= 1;
                }
                self.put(target, &bytes)?;
            }
        }
        Ok(())
    }
}

/// The envelope of format 1.
fn sealed(magic: [u8; 4], body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u64).to_be_bytes();
    let mut sealed = [&magic[..], &[0, 1], &length, body].concat();
    let checksum = crc32c::crc32c(&sealed).to_be_bytes();
    sealed.extend_from_slice(&checksum);
    sealed
}

/// A checkpoint as the first release wrote it.
fn first_format(checkpoint: &Checkpoint, position: &InputPosition) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_be_bytes(), text.as_bytes()].concat();
    let bytes = |bytes: &[u8]| [&(bytes.len() as u64).to_be_bytes(), bytes].concat();
    let mut body = checkpoint.id.to_be_bytes().to_vec();
    for part in [&checkpoint.job_id, &checkpoint.cluster_id, &checkpoint.topic] {
        body.extend(text(part));
    }
    let position = position.to_bytes();
    body.extend_from_slice(&position[14..position.len() - 4]);
    body.extend((checkpoint.committables.len() as u64).to_be_bytes());
    for listed in &checkpoint.committables {
        body.push(0);
        body.extend(bytes(&listed.committable.to_bytes()));
    }
    body.extend((checkpoint.writers.len() as u64).to_be_bytes());
    checkpoint.writers.iter().for_each(|writer| body.extend(bytes(&writer.to_bytes())));
    sealed(*b"K2PK", &body)
}
