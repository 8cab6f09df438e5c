//! The port of the embedded broker.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_2pc::{
    broker::{Broker, BrokerConfig, Network, Profile},
    ids::TopicId,
    wire::{
        api::Api,
        frame::{FrameDecoder, RequestHeader, put_frame},
        guard::{Direction, sample},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    runtime::{Builder, Runtime},
    time::timeout,
};

mod check;
mod mend;

use self::mend::Known;
use crate::pipeline::{self, Passage};

/// Stands between the requests of an input, so that a mutation of one leaves the others as they are.
pub const SEPARATOR: [u8; 4] = [0xfb, b'2', b'p', 0xfb];

/// The topics that are there, with their partitions: those of the recorded seeds.
pub(super) const TOPICS: [(&str, i32); 2] = [("fuzz-a", 1), ("fuzz-b", 2)];

/// Longer than any wait that a request may ask for; the clock jumps.
const PATIENCE: Duration = Duration::from_secs(3600);
const MOST_REQUESTS: usize = 40;

/// Bits of the first byte: the profile, and how the rest is sent.
const RAW: u8 = 1 << 7;
const AS_IT_IS: u8 = 1 << 6;

/// A byte that chooses the broker's profile and the way, then requests without lengths with [`SEPARATOR`]s between
/// them, or just bytes.
///
/// Requests are sent one by one, with the identity that the broker gave out last, its topics' ids and right checksums in
/// them, or as they are; bytes are sent at once. Every answer belongs to its request and is what a client reads, every
/// request has one or ends its connection, other connections are served, and every log can be read.
pub fn broker(input: &[u8]) {
    let [way, rest @ ..] = input else { return };
    let profiles = Profile::all();
    let profile = profiles[usize::from(*way) % profiles.len()].clone();
    runtime().block_on(async {
        let config = BrokerConfig {
            profile,
            network: Network::Memory,
            sweep_interval: Duration::from_secs(600),
            ..BrokerConfig::default()
        };
        let Ok(broker) = Broker::start(config).await else { panic!("the broker does not start") };
        let ids = TOPICS.map(|(name, partitions)| broker.create_topic(name, partitions));
        let ids = ids.map(|id| id.unwrap_or(TopicId::UNKNOWN));
        if way & RAW == 0 {
            let known = Known { topic_ids: ids, identity: None };
            one_by_one(&broker, rest, (way & AS_IT_IS == 0).then_some(known)).await;
        } else {
            at_once(&broker, rest).await;
        }
        check::check(&broker).await;
        broker.stop().await;
    });
}

fn runtime() -> Runtime {
    let built = Builder::new_current_thread().enable_time().start_paused(true).build();
    built.unwrap_or_else(|error| panic!("{error}"))
}

/// A connection to the only node.
pub(super) fn connect(broker: &Broker) -> DuplexStream {
    let connected = broker.dialer().connect("node-1", 9092);
    connected.unwrap_or_else(|error| panic!("nobody listens: {error}"))
}

async fn one_by_one(broker: &Broker, input: &[u8], mut known: Option<Known>) {
    let mut stream = connect(broker);
    for request in split(input).take(MOST_REQUESTS) {
        let request = match &known {
            Some(known) => known.mended(request),
            None => Bytes::copy_from_slice(request),
        };
        let Some(answer) = ask(&mut stream, &request).await else {
            stream = connect(broker);
            continue;
        };
        if let (Some(known), Answer::Frame(header, frame)) = (&mut known, answer) {
            known.learn(&header, frame);
        }
    }
}

enum Answer {
    /// A request whose producer wants none.
    Silence,
    Frame(RequestHeader, Bytes),
}

/// Sends a request and waits; `None` when the connection has ended.
async fn ask(stream: &mut DuplexStream, request: &Bytes) -> Option<Answer> {
    let mut rest = request.clone();
    let header = RequestHeader::decode(&mut rest).ok();
    let mut framed = BytesMut::new();
    let put = put_frame(&mut framed, |out| {
        out.extend_from_slice(request);
        Ok::<(), kafka_2pc::wire::frame::FrameError>(())
    });
    assert_eq!(put, Ok(()));
    stream.write_all(&framed).await.ok()?;
    let wants_none = header.as_ref().is_some_and(|header| is_silent(header, &rest));
    if wants_none {
        return Some(Answer::Silence);
    }
    let waited = timeout(PATIENCE, next_frame(stream, &mut BytesMut::new())).await;
    let frame = waited.unwrap_or_else(|_| panic!("no answer to {header:?}"))?;
    let header = header.unwrap_or_else(|| panic!("an answer to what is no request"));
    answers(&header, &frame);
    Some(Answer::Frame(header, frame))
}

/// A Produce with `acks` 0 has no answer. The field stands behind a nullable text from version 3 on; the embedded broker
/// reads no earlier one.
fn is_silent(header: &RequestHeader, body: &[u8]) -> bool {
    header.api == Api::Produce && mend::acks(header.version, body) == Some(0)
}

/// An answer is what a client can read, and is for this request.
fn answers(header: &RequestHeader, frame: &Bytes) {
    let id = kafka_2pc::wire::frame::correlation_id(frame);
    assert_eq!(id, Some(header.correlation_id), "an answer to another request than {header:?}");
    if !sample::versions(Direction::Response, header.api).contains(header.version) {
        // Only ApiVersions answers what it does not know.
        assert_eq!(header.api, Api::ApiVersions, "{header:?}");
        return;
    }
    match pipeline::response(header.api, header.version, frame.clone()) {
        Ok(Passage::Decoded { .. }) => {}
        Ok(passage) => panic!("an answer to {header:?} is {passage:?}"),
        Err(violation) => panic!("an answer to {header:?}: {}", violation.0),
    }
}

/// Sends everything, and looks at the answers that come.
async fn at_once(broker: &Broker, input: &[u8]) {
    let (mut from_broker, mut to_broker) = tokio::io::split(connect(broker));
    let send = async {
        // The broker may have closed the connection.
        let _ = to_broker.write_all(input).await;
        let _ = to_broker.shutdown().await;
    };
    let read = async {
        let mut frames = Vec::new();
        let mut buffer = BytesMut::new();
        while let Ok(Some(frame)) = timeout(PATIENCE, next_frame(&mut from_broker, &mut buffer)).await {
            frames.push(frame);
        }
        frames
    };
    let ((), frames) = tokio::join!(send, read);
    let mut requests = headers(input).into_iter();
    for frame in frames {
        // Answers are in the order of the requests, some of which have none.
        let id = kafka_2pc::wire::frame::correlation_id(&frame);
        let header = requests.find(|header| Some(header.correlation_id) == id);
        answers(&header.unwrap_or_else(|| panic!("an answer to nothing that was asked: {id:?}")), &frame);
    }
}

/// The headers of the requests in a stream.
fn headers(stream: &[u8]) -> Vec<RequestHeader> {
    let decoder = FrameDecoder::requests(BrokerConfig::default().max_request_bytes);
    let mut buffer = BytesMut::from(stream);
    let frames = std::iter::from_fn(|| decoder.next_frame(&mut buffer).ok().flatten());
    frames.map_while(|mut frame| RequestHeader::decode(&mut frame).ok()).collect()
}

/// The next frame without its length; `None` at the end of the connection.
pub(super) async fn next_frame(
    stream: &mut (impl AsyncReadExt + Unpin),
    buffer: &mut BytesMut,
) -> Option<Bytes> {
    loop {
        match FrameDecoder::default().next_frame(buffer) {
            Ok(Some(frame)) => return Some(frame),
            Ok(None) => {}
            Err(error) => panic!("the broker sends no frame: {error}"),
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// What stands between separators.
fn split(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(input);
    std::iter::from_fn(move || {
        let bytes = rest?;
        let at = bytes.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
        let (part, behind) = match at {
            Some(at) => (&bytes[..at], Some(&bytes[at + SEPARATOR.len()..])),
            None => (bytes, None),
        };
        rest = behind;
        Some(part)
    })
}
