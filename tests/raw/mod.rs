//! A client of one request at a time, without opinions: what is asked is sent, in the version that is asked.
#![expect(
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    reason = "a module of several test binaries, each of which uses a part"
)]

use std::sync::atomic::{AtomicU32, Ordering};

use bytes::{Bytes, BytesMut};
use kafka_2pc::broker::{Broker, Dialer};
use kafka_2pc::ids::Identity;
use kafka_2pc::record::{Compression, CompressionLevels, RecordRef};
use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::batch::{BatchBuilder, Batches, HEADER_BYTES, Stamp};
use kafka_2pc::wire::frame::{RequestHeader, decode_response_header};
use kafka_2pc::wire::guard;
use kafka_protocol::messages::WriteTxnMarkersRequest;
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, DescribeProducersRequest, DescribeTransactionsRequest, EndTxnRequest,
    FetchRequest, FetchResponse, FindCoordinatorRequest, InitProducerIdRequest, MetadataRequest,
    ProduceRequest, TopicName, TransactionalId,
    add_partitions_to_txn_request::AddPartitionsToTxnTopic,
    create_topics_request::{CreatableTopic, CreatableTopicConfig},
    describe_producers_request::TopicRequest,
    describe_transactions_response::TransactionState,
    fetch_request, produce_request,
};
use kafka_protocol::messages::{CreateTopicsRequest, describe_producers_response::ProducerState};
use kafka_protocol::protocol::{Decodable, Request, StrBytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// A socket, or a stream in memory.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// One connection.
pub struct Connection(Box<dyn Wire>);

/// A cluster, reached by new connections.
#[derive(Clone)]
pub struct Cluster {
    pub bootstrap: String,
    dialer: Option<Dialer>,
}

/// Producer id, epoch.
pub type Pair = (i64, i16);

impl Connection {
    pub async fn open(address: &str) -> Self {
        Self(Box::new(TcpStream::connect(address).await.unwrap()))
    }

    /// Sends a frame's content and reads that of the answer; `None` when the connection is closed instead.
    pub async fn exchange(&mut self, frame: &[u8]) -> Option<Bytes> {
        self.0.write_i32(i32::try_from(frame.len()).unwrap()).await.ok()?;
        self.0.write_all(frame).await.ok()?;
        let length = usize::try_from(self.0.read_i32().await.ok()?).ok()?;
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer).await.ok()?;
        Some(answer.into())
    }

    pub async fn try_call<R: Request>(&mut self, version: i16, request: &R) -> Option<R::Response> {
        let api = Api::from_key(R::KEY).unwrap();
        let mut frame = BytesMut::new();
        let client_id = Some("raw".to_owned());
        RequestHeader { api, version, correlation_id: 7, client_id }.encode(&mut frame);
        request.encode(&mut frame, version).unwrap();
        let mut answer = self.exchange(&frame).await?;
        assert_eq!(decode_response_header(&mut answer, api, version), Ok(7));
        guard::check_response(api, version, &answer).unwrap();
        Some(R::Response::decode(&mut answer, version).unwrap())
    }

    pub async fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.try_call(version, request).await.expect("the connection was closed")
    }
}

pub fn text(s: &str) -> StrBytes {
    StrBytes::from_string(s.to_owned())
}

pub fn topic(name: &str) -> TopicName {
    TopicName(text(name))
}

pub fn id(name: &str) -> TransactionalId {
    TransactionalId(text(name))
}

/// A name that no other test of this or an earlier run uses.
pub fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let run = std::time::UNIX_EPOCH.elapsed().unwrap().as_micros();
    format!("{prefix}-{run}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> i64 {
    i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

/// One batch of `count` records inside a transaction.
pub fn batch(pair: Pair, base_sequence: i32, count: usize) -> Bytes {
    batch_at(pair, base_sequence, count, now_ms())
}

/// The same, at another time.
pub fn batch_at(pair: Pair, base_sequence: i32, count: usize, time_ms: i64) -> Bytes {
    let mut builder = BatchBuilder::new();
    for _ in 0..count {
        builder.append(&RecordRef::value(b"value"), time_ms).unwrap();
    }
    seal(builder, pair, base_sequence)
}

/// The same in another codec.
pub fn batch_in(compression: Compression, pair: Pair, base_sequence: i32, count: usize) -> Bytes {
    let batch = Batches::new(batch(pair, base_sequence, count)).next().unwrap().unwrap();
    batch.recompressed(compression, CompressionLevels::default()).unwrap().bytes().clone()
}

/// The same batch outside of any transaction, of no producer.
pub fn anonymous(batch: &[u8]) -> Bytes {
    let mut batch = batch.to_vec();
    batch[22] &= !(1 << 4);
    batch[43..57].fill(0xff);
    with_crc(batch)
}

/// The batch with other bytes in place of its records, and the checksum made valid again.
pub fn with_body(batch: &[u8], body: &[u8]) -> Bytes {
    let mut batch = batch[..HEADER_BYTES].to_vec();
    batch.extend_from_slice(body);
    let length = i32::try_from(batch.len() - 12).unwrap();
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    with_crc(batch)
}

/// The batch with another count of records and last offset, and the checksum made valid again.
pub fn with_count(batch: &[u8], count: i32) -> Bytes {
    let mut batch = batch.to_vec();
    batch[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    batch[57..61].copy_from_slice(&count.to_be_bytes());
    with_crc(batch)
}

fn with_crc(mut batch: Vec<u8>) -> Bytes {
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch.into()
}

/// One record of this value.
pub fn batch_of(pair: Pair, base_sequence: i32, value: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new();
    builder.append(&RecordRef::value(value), now_ms()).unwrap();
    seal(builder, pair, base_sequence)
}

fn seal(builder: BatchBuilder, (id, epoch): Pair, base_sequence: i32) -> Bytes {
    let mut sealed = builder.seal(Compression::None).unwrap();
    sealed.stamp(Stamp::Transactional { identity: Identity::new(id, epoch), base_sequence });
    sealed.freeze()
}

impl Cluster {
    pub fn new(bootstrap: impl Into<String>) -> Self {
        Self { bootstrap: bootstrap.into(), dialer: None }
    }

    /// Nodes in memory.
    pub fn in_memory(broker: &Broker) -> Self {
        Self { bootstrap: broker.bootstrap(), dialer: Some(broker.dialer()) }
    }

    async fn dial(&self, address: &str) -> std::io::Result<Connection> {
        let stream: Box<dyn Wire> = match &self.dialer {
            None => Box::new(TcpStream::connect(address).await?),
            Some(dialer) => {
                let (host, port) = address.rsplit_once(':').unwrap();
                Box::new(dialer.connect(host, port.parse().unwrap())?)
            }
        };
        Ok(Connection(stream))
    }

    /// A connection to the first bootstrap server that answers.
    pub async fn any(&self) -> Connection {
        for address in self.bootstrap.split(',') {
            if let Ok(connection) = self.dial(address).await {
                return connection;
            }
        }
        panic!("no bootstrap server answers");
    }

    pub async fn create_topic(&self, name: &str, partitions: i32) {
        assert_eq!(self.create_topic_with(name, partitions, &[]).await, 0);
    }

    /// CreateTopics 5 with these settings of the topic.
    pub async fn create_topic_with(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> i16 {
        let config = |(name, value): &(&str, &str)| {
            CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
        };
        let new = CreatableTopic::default()
            .with_name(topic(name))
            .with_num_partitions(partitions)
            .with_replication_factor(-1)
            .with_configs(configs.iter().map(config).collect());
        let request = CreateTopicsRequest::default().with_topics(vec![new]).with_timeout_ms(10_000);
        let created = self.any().await.call(5, &request).await.topics.remove(0);
        if created.error_code != 0 {
            return created.error_code;
        }
        // A real broker answers before every node knows the leader.
        for _ in 0..100 {
            if self.leader_address(name, 0).await.is_some() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        0
    }

    async fn leader_address(&self, name: &str, partition: usize) -> Option<String> {
        let wanted = kafka_protocol::messages::metadata_request::MetadataRequestTopic::default()
            .with_name(Some(topic(name)));
        let metadata =
            self.any().await.call(9, &MetadataRequest::default().with_topics(Some(vec![wanted]))).await;
        let leader =
            metadata.topics[0].partitions.iter().find(|p| p.partition_index == partition as i32)?.leader_id;
        let node = metadata.brokers.iter().find(|b| b.node_id == leader)?;
        Some(format!("{}:{}", &*node.host, node.port))
    }

    pub async fn leader(&self, name: &str, partition: usize) -> Connection {
        self.dial(&self.leader_address(name, partition).await.expect("no leader")).await.unwrap()
    }

    pub async fn coordinator(&self, transactional_id: &str) -> Connection {
        let request = FindCoordinatorRequest::default()
            .with_key_type(1)
            .with_coordinator_keys(vec![text(transactional_id)]);
        let found = self.any().await.call(4, &request).await.coordinators.remove(0);
        assert_eq!(found.error_code, 0);
        self.dial(&format!("{}:{}", &*found.host, found.port)).await.unwrap()
    }

    pub async fn try_init(&self, transactional_id: &str, own: Option<Pair>) -> Result<Pair, i16> {
        let (own_id, own_epoch) = own.unwrap_or((-1, -1));
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id(transactional_id)))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id(own_id.into())
            .with_producer_epoch(own_epoch);
        let answer = self.coordinator(transactional_id).await.call(4, &request).await;
        if answer.error_code == 0 {
            Ok((answer.producer_id.0, answer.producer_epoch))
        } else {
            Err(answer.error_code)
        }
    }

    /// InitProducerId until no transaction is in its way.
    pub async fn init(&self, transactional_id: &str, own: Option<Pair>) -> Result<Pair, i16> {
        loop {
            match self.try_init(transactional_id, own).await {
                // Busy with the transaction before; or not there yet, as on a cluster that has just been started.
                Err(14..=16 | 51) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
                outcome => return outcome,
            }
        }
    }

    /// InitProducerId with the own pair until the epoch is this one, on one connection.
    pub async fn init_until(&self, transactional_id: &str, mut pair: Pair, epoch: i16) -> Pair {
        let mut coordinator = self.coordinator(transactional_id).await;
        while pair.1 < epoch {
            let request = InitProducerIdRequest::default()
                .with_transactional_id(Some(id(transactional_id)))
                .with_transaction_timeout_ms(60_000)
                .with_producer_id(pair.0.into())
                .with_producer_epoch(pair.1);
            let answer = coordinator.call(4, &request).await;
            assert_eq!(answer.error_code, 0);
            pair = (answer.producer_id.0, answer.producer_epoch);
        }
        pair
    }

    /// AddPartitionsToTxn 3 for one partition.
    pub async fn add(&self, transactional_id: &str, pair: Pair, name: &str, partition: i32) -> i16 {
        let topic =
            AddPartitionsToTxnTopic::default().with_name(topic(name)).with_partitions(vec![partition]);
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(id(transactional_id))
            .with_v3_and_below_producer_id(pair.0.into())
            .with_v3_and_below_producer_epoch(pair.1)
            .with_v3_and_below_topics(vec![topic]);
        let answer = self.coordinator(transactional_id).await.call(3, &request).await;
        answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    }

    /// One batch to one partition: its offset, or the error.
    pub async fn produce(
        &self,
        version: i16,
        transactional_id: &str,
        to: (&str, i32),
        records: Bytes,
    ) -> Result<i64, i16> {
        self.send(version, Some(id(transactional_id)), to, records).await
    }

    async fn send(
        &self,
        version: i16,
        transactional_id: Option<TransactionalId>,
        to: (&str, i32),
        records: Bytes,
    ) -> Result<i64, i16> {
        let data =
            produce_request::PartitionProduceData::default().with_index(to.1).with_records(Some(records));
        let topic = produce_request::TopicProduceData::default()
            .with_name(topic(to.0))
            .with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_transactional_id(transactional_id)
            .with_acks(-1)
            .with_timeout_ms(10_000)
            .with_topic_data(vec![topic]);
        loop {
            let mut leader = self.leader(to.0, usize::try_from(to.1).unwrap()).await;
            let answer = leader.call(version, &request).await;
            let partition = &answer.responses[0].partition_responses[0];
            match partition.error_code {
                0 => return Ok(partition.base_offset),
                // A real node knows a new topic a moment after its creation.
                6 => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                code => return Err(code),
            }
        }
    }

    /// The same batch of nobody's, outside of a transaction.
    pub async fn produce_plain(&self, version: i16, to: (&str, i32), records: Bytes) -> Result<i64, i16> {
        self.send(version, None, to, records).await
    }

    /// EndTxn: error code and pair.
    pub async fn end(&self, version: i16, transactional_id: &str, pair: Pair, commit: bool) -> (i16, Pair) {
        let request = EndTxnRequest::default()
            .with_transactional_id(id(transactional_id))
            .with_producer_id(pair.0.into())
            .with_producer_epoch(pair.1)
            .with_committed(commit);
        let answer = self.coordinator(transactional_id).await.call(version, &request).await;
        (answer.error_code, (answer.producer_id.0, answer.producer_epoch))
    }

    pub async fn describe(&self, transactional_id: &str) -> TransactionState {
        let request =
            DescribeTransactionsRequest::default().with_transactional_ids(vec![id(transactional_id)]);
        self.coordinator(transactional_id).await.call(0, &request).await.transaction_states.remove(0)
    }

    /// Describes until no transition is under way.
    pub async fn settled(&self, transactional_id: &str) -> TransactionState {
        loop {
            let state = self.describe(transactional_id).await;
            if !state.transaction_state.starts_with("Prepare") {
                return state;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Describes until the state is this one.
    pub async fn settled_as(&self, transactional_id: &str, state: &str) -> TransactionState {
        loop {
            let found = self.describe(transactional_id).await;
            if &*found.transaction_state == state {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    pub async fn producers(&self, name: &str, partition: i32) -> Vec<ProducerState> {
        let topic = TopicRequest::default().with_name(topic(name)).with_partition_indexes(vec![partition]);
        let request = DescribeProducersRequest::default().with_topics(vec![topic]);
        let mut leader = self.leader(name, usize::try_from(partition).unwrap()).await;
        leader.call(0, &request).await.topics.remove(0).partitions.remove(0).active_producers
    }

    /// WriteTxnMarkers 1 for one partition, as an administrator's tool sends it: with the coordinator's epoch that the partition
    /// knows, which is above 0 where the coordinator has moved.
    pub async fn mark(&self, to: (&str, i32), pair: Pair, commit: bool) -> i16 {
        let known = self.producers(to.0, to.1).await.into_iter().find(|p| p.producer_id.0 == pair.0);
        let coordinator_epoch = known.map_or(0, |producer| producer.coordinator_epoch.max(0));
        let partitions =
            WritableTxnMarkerTopic::default().with_name(topic(to.0)).with_partition_indexes(vec![to.1]);
        let marker = WritableTxnMarker::default()
            .with_producer_id(pair.0.into())
            .with_producer_epoch(pair.1)
            .with_transaction_result(commit)
            .with_coordinator_epoch(coordinator_epoch)
            .with_topics(vec![partitions]);
        let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
        let mut leader = self.leader(to.0, usize::try_from(to.1).unwrap()).await;
        let answer = leader.call(1, &request).await;
        answer.markers[0].topics[0].partitions[0].error_code
    }

    /// Fetch 12 of one partition from `offset`; isolation 1 is read_committed.
    pub async fn fetch(&self, name: &str, partition: i32, offset: i64, isolation: i8) -> FetchResponse {
        self.fetch_by(12, (name, partition), offset, isolation).await
    }

    /// The same by another version.
    pub async fn fetch_by(
        &self,
        version: i16,
        (name, partition): (&str, i32),
        offset: i64,
        isolation: i8,
    ) -> FetchResponse {
        let wanted = fetch_request::FetchPartition::default()
            .with_partition(partition)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(1 << 20);
        let topic =
            fetch_request::FetchTopic::default().with_topic(topic(name)).with_partitions(vec![wanted]);
        let request = FetchRequest::default()
            .with_replica_id((-1).into())
            .with_max_wait_ms(100)
            .with_min_bytes(1)
            .with_max_bytes(1 << 20)
            .with_isolation_level(isolation)
            .with_session_epoch(-1)
            .with_topics(vec![topic]);
        loop {
            let mut leader = self.leader(name, usize::try_from(partition).unwrap()).await;
            let answer = leader.call(version, &request).await;
            // As with Produce.
            if answer.responses[0].partitions[0].error_code != 6 {
                return answer;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}
