//! One connection against a peer that is slow, silent, hostile, or no Kafka; without sockets, in time that is not real.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use std::{io, sync::Arc, time::Duration};

use bytes::BytesMut;
use futures::future::BoxFuture;
use kafka_2pc::{
    exchange::{ExchangeError, Metadata, MetadataAnswer},
    net::{CallError, Clock, Connection, ConnectionConfig, Connector, Probe, Stream},
    wire::{
        api::Api,
        frame::{RequestHeader, encode_response_header},
    },
};
use kafka_protocol::{
    messages::{ApiVersionsResponse, MetadataResponse, api_versions_response::ApiVersion},
    protocol::{Encodable, StrBytes},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    sync::mpsc,
    task::JoinHandle,
    time::Instant,
};

/// Opens streams whose other ends come out of a channel.
struct Pipes(mpsc::UnboundedSender<DuplexStream>);

impl Connector for Pipes {
    fn connect<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let sent = self.0.send(theirs).map_err(|_| io::ErrorKind::ConnectionRefused.into());
        Box::pin(async move { sent.map(|()| Box::new(ours) as Box<dyn Stream>) })
    }
}

const TIMEOUT: Duration = Duration::from_secs(30);

async fn open() -> (Connection, Peer) {
    let (sender, mut streams) = mpsc::unbounded_channel();
    let config = ConnectionConfig {
        client_id: "test".into(),
        setup_timeout: Duration::from_secs(10),
        max_frame_bytes: 100_000,
        in_flight: 5,
        probe: Probe::default(),
    };
    let at = (Arc::from("there"), 1);
    let connection = Connection::open(Arc::new(Pipes(sender)), at, Duration::ZERO, config, Clock::start());
    (connection, Peer(streams.recv().await.unwrap()))
}

/// The other end.
struct Peer(DuplexStream);

impl Peer {
    async fn frame(&mut self) -> RequestHeader {
        let length = self.0.read_i32().await.unwrap();
        let mut frame = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut frame).await.unwrap();
        RequestHeader::decode(&mut frame.into()).unwrap()
    }

    async fn answer<R: Encodable>(&mut self, header: &RequestHeader, version: i16, body: &R) {
        self.0.write_all(&frame(header, header.correlation_id, version, body)).await.unwrap();
    }

    async fn greet(&mut self) {
        let header = self.frame().await;
        assert_eq!(header.api, Api::ApiVersions);
        let api = |api: Api, max| {
            ApiVersion::default().with_api_key(api.key()).with_min_version(0).with_max_version(max)
        };
        let keys = vec![api(Api::ApiVersions, 3), api(Api::Metadata, 9)];
        let version = header.version;
        self.answer(&header, version, &ApiVersionsResponse::default().with_api_keys(keys)).await;
    }

    async fn metadata(&mut self, header: &RequestHeader, name: &str) {
        self.answer(header, 9, &metadata(name, 0)).await;
    }
}

fn metadata(name: &str, throttle_ms: i32) -> MetadataResponse {
    let name = StrBytes::from_string(name.to_owned());
    MetadataResponse::default().with_cluster_id(Some(name)).with_throttle_time_ms(throttle_ms)
}

fn frame<R: Encodable>(header: &RequestHeader, correlation: i32, version: i16, body: &R) -> Vec<u8> {
    let mut out = BytesMut::new();
    encode_response_header(&mut out, header.api, version, correlation);
    body.encode(&mut out, version).unwrap();
    let length = i32::try_from(out.len()).unwrap();
    [&length.to_be_bytes()[..], &out].concat()
}

type Asked = JoinHandle<Result<MetadataAnswer, CallError>>;

fn ask(connection: &Connection) -> Asked {
    tokio::spawn(connection.call(Arc::new(Metadata { topics: None }), TIMEOUT))
}

async fn name(asked: Asked) -> String {
    asked.await.unwrap().unwrap().cluster_id.unwrap().to_string()
}

async fn ready() -> (Connection, Peer) {
    let (connection, mut peer) = open().await;
    peer.greet().await;
    connection.ready().await.unwrap();
    (connection, peer)
}

#[tokio::test(start_paused = true)]
async fn questions_wait_for_the_greeting_and_are_answered_in_order() {
    let (connection, mut peer) = open().await;
    let asked = [ask(&connection), ask(&connection)];
    peer.greet().await;
    for (i, asked) in asked.into_iter().enumerate() {
        let header = peer.frame().await;
        assert_eq!((header.api, header.version), (Api::Metadata, 9), "the highest that both know");
        peer.metadata(&header, &i.to_string()).await;
        assert_eq!(name(asked).await, i.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_answer_makes_no_sense_is_not_used_on() {
    let (connection, mut peer) = ready().await;
    let asked = [ask(&connection), ask(&connection)];
    let [first, second] = [peer.frame().await, peer.frame().await];
    let mut bad = frame(&first, first.correlation_id, 9, &metadata("bad", 0));
    bad.push(0);
    let length = i32::try_from(bad.len() - 4).unwrap();
    bad[..4].copy_from_slice(&length.to_be_bytes());
    peer.0.write_all(&bad).await.unwrap();
    let [one, other] = asked;
    let error = one.await.unwrap().unwrap_err();
    assert!(matches!(&error, CallError::Exchange(ExchangeError::Malformed { .. })), "{error}");
    let error = other.await.unwrap().unwrap_err();
    assert!(error.outcome_unknown() && matches!(error, CallError::MaybeSent(_)), "{error}");
    // What comes behind it is not read any more, and what is asked now is not sent.
    _ = peer.0.write_all(&frame(&second, second.correlation_id, 9, &metadata("late", 0))).await;
    let error = ask(&connection).await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::NotSent(_)), "{error}");
    assert!(connection.is_closed());
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_come_a_byte_at_a_time() {
    let (connection, mut peer) = ready().await;
    let asked = ask(&connection);
    let header = peer.frame().await;
    for byte in frame(&header, header.correlation_id, 9, &metadata("slow", 0)) {
        peer.0.write_all(&[byte]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(name(asked).await, "slow");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_drips_longer_than_the_timeout_is_given_up() {
    let (connection, mut peer) = ready().await;
    let (asked, start) = (ask(&connection), Instant::now());
    let header = peer.frame().await;
    let dripping = tokio::spawn(async move {
        for byte in frame(&header, header.correlation_id, 9, &metadata(&"x".repeat(1000), 0)) {
            if peer.0.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let e = asked.await.unwrap().unwrap_err();
    assert!(e.outcome_unknown() && e.to_string().contains("30s"), "{e}");
    assert_eq!(start.elapsed(), TIMEOUT);
    assert!(connection.is_closed());
    dripping.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn silence_fails_all_that_is_in_flight_as_unknown_and_the_rest_as_not_sent() {
    let (connection, mut peer) = ready().await;
    let asked: Vec<_> = (0..7).map(|_| ask(&connection)).collect();
    for _ in 0..5 {
        peer.frame().await;
    }
    let mut unknown = Vec::new();
    for asked in asked {
        unknown.push(asked.await.unwrap().unwrap_err().outcome_unknown());
    }
    assert_eq!(unknown, [true, true, true, true, true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_greet_is_given_up_after_the_setup_timeout() {
    let (connection, _peer) = open().await;
    let start = Instant::now();
    let e = ask(&connection).await.unwrap().unwrap_err();
    assert!(!e.outcome_unknown() && e.to_string().contains("ApiVersions"), "{e}");
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn garbage_before_the_greeting_is_no_kafka_and_after_it_a_broken_connection() {
    let garbage: [&[u8]; 5] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-2.0-x\r\n",
        &[0x15, 3, 3, 0, 2, 2, 40],
        &[255; 64],
        &[0; 64],
    ];
    for bytes in garbage {
        let (connection, mut peer) = open().await;
        let asked = ask(&connection);
        peer.0.write_all(bytes).await.unwrap();
        let e = asked.await.unwrap().unwrap_err();
        assert!(matches!(e, CallError::NotKafka(_)), "{bytes:?}: {e}");

        let (connection, mut peer) = ready().await;
        let asked = ask(&connection);
        peer.frame().await;
        peer.0.write_all(bytes).await.unwrap();
        let e = asked.await.unwrap().unwrap_err();
        assert!(e.outcome_unknown(), "{bytes:?}: {e}");
        assert!(connection.is_closed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_over_the_limit_is_not_waited_for() {
    let (connection, mut peer) = ready().await;
    let asked = ask(&connection);
    peer.frame().await;
    peer.0.write_i32(100_001).await.unwrap();
    let e = asked.await.unwrap().unwrap_err();
    assert!(e.outcome_unknown() && e.to_string().contains("100001"), "{e}");
}

#[tokio::test(start_paused = true)]
async fn answers_out_of_order_repeated_or_unasked_close_the_connection() {
    for case in ["other", "repeated", "unasked"] {
        let (connection, mut peer) = ready().await;
        let asked = [ask(&connection), ask(&connection)];
        let headers = [peer.frame().await, peer.frame().await];
        let [first, second] = headers.each_ref().map(|h| h.correlation_id);
        let wrong = match case {
            "other" => second,
            "repeated" => {
                peer.metadata(&headers[0], "first").await;
                first
            }
            _ => 77,
        };
        peer.0.write_all(&frame(&headers[0], wrong, 9, &metadata("wrong", 0))).await.unwrap();
        let [first, second] = asked;
        let first = first.await.unwrap();
        assert_eq!(first.is_ok(), case == "repeated", "{case}");
        let e = second.await.unwrap().unwrap_err();
        assert!(e.outcome_unknown() && e.to_string().contains("correlation"), "{case}: {e}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_makes_no_sense_fails_its_question_alone() {
    let (connection, mut peer) = ready().await;
    let asked = [ask(&connection), ask(&connection)];
    let headers = [peer.frame().await, peer.frame().await];
    let mut hostile = BytesMut::new();
    encode_response_header(&mut hostile, Api::Metadata, 9, headers[0].correlation_id);
    // A count of two thousand million brokers.
    hostile.extend_from_slice(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 7]);
    peer.0.write_i32(i32::try_from(hostile.len()).unwrap()).await.unwrap();
    peer.0.write_all(&hostile).await.unwrap();
    peer.metadata(&headers[1], "fine").await;
    let [first, second] = asked;
    let e = first.await.unwrap().unwrap_err();
    assert!(matches!(e, CallError::Exchange(_)) && e.outcome_unknown(), "{e}");
    assert_eq!(name(second).await, "fine");
}

#[tokio::test(start_paused = true)]
async fn an_older_greeting_is_tried_again_in_the_version_that_the_broker_knows() {
    let (connection, mut peer) = open().await;
    let asked = ask(&connection);
    let first = peer.frame().await;
    assert_eq!(first.version, 3);
    peer.answer(&first, 0, &ApiVersionsResponse::default().with_error_code(35)).await;
    let second = peer.frame().await;
    assert_eq!((second.api, second.version), (Api::ApiVersions, 0));
    let key = ApiVersion::default().with_api_key(3).with_max_version(9);
    peer.answer(&second, 0, &ApiVersionsResponse::default().with_api_keys(vec![key])).await;
    let header = peer.frame().await;
    peer.metadata(&header, "old").await;
    assert_eq!(name(asked).await, "old");
}

#[tokio::test(start_paused = true)]
async fn a_throttled_connection_is_silent_for_as_long_and_never_for_weeks() {
    for (ms, silent) in [(500, 500), (i32::MAX, 60_000), (-5, 0)] {
        let (connection, mut peer) = ready().await;
        let asked = ask(&connection);
        let header = peer.frame().await;
        peer.answer(&header, 9, &metadata("throttled", ms)).await;
        assert_eq!(name(asked).await, "throttled");
        let (asked, start) = (ask(&connection), Instant::now());
        let header = peer.frame().await;
        let waited = start.elapsed().as_millis();
        assert!((silent - 2..=silent + 2).contains(&i128::try_from(waited).unwrap()), "{ms}: {waited}");
        peer.metadata(&header, "later").await;
        assert_eq!(name(asked).await, "later");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_waits_for_is_sent_and_its_answer_passed_over() {
    let (connection, mut peer) = ready().await;
    let dropped = ask(&connection);
    tokio::task::yield_now().await;
    dropped.abort();
    let asked = ask(&connection);
    let headers = [peer.frame().await, peer.frame().await];
    for header in &headers {
        peer.metadata(header, "both").await;
    }
    assert_eq!(name(asked).await, "both");
}

#[tokio::test(start_paused = true)]
async fn the_socket_is_closed_with_the_last_handle() {
    let (connection, mut peer) = ready().await;
    drop(connection.clone());
    let asked = ask(&connection);
    let header = peer.frame().await;
    drop(connection);
    // A question that is under way holds it open.
    peer.metadata(&header, "last").await;
    assert_eq!(name(asked).await, "last");
    assert_eq!(peer.0.read(&mut [0; 8]).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_hangs_up_is_told_from_one_that_hangs_up_on_strangers() {
    let (connection, peer) = open().await;
    let asked = ask(&connection);
    drop(peer);
    let e = asked.await.unwrap().unwrap_err().to_string();
    assert!(e.contains("TLS"), "{e}");
    let (connection, mut peer) = ready().await;
    let asked = ask(&connection);
    peer.frame().await;
    drop(peer);
    let e = asked.await.unwrap().unwrap_err();
    assert!(e.outcome_unknown() && !e.to_string().contains("TLS"), "{e}");
    assert!(e.to_string().contains("SASL"), "it may want a login: {e}");
    let (connection, mut peer) = ready().await;
    let asked = ask(&connection);
    let header = peer.frame().await;
    peer.metadata(&header, "known").await;
    name(asked).await;
    let asked = ask(&connection);
    peer.frame().await;
    drop(peer);
    let e = asked.await.unwrap().unwrap_err().to_string();
    assert!(!e.contains("SASL"), "it has answered before: {e}");
}
