//! Requests without any client: what a stranger, a zombie or an administrator sends.

use std::collections::BTreeMap;
use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_2pc::ids::{Identity, TransactionalId};
use kafka_2pc::net::Stream;
use kafka_2pc::wire::frame::FrameDecoder;
use kafka_protocol::messages::{ApiVersionsRequest, InitProducerIdRequest, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::bench::within;
use crate::net::{Net, parts};
use crate::outcome::{Failure, Shown, equal, holds};

/// A connection that sends what it is told.
pub struct Raw {
    broker: Box<dyn Stream>,
    read: BytesMut,
    newest: BTreeMap<i16, i16>,
}

impl Raw {
    /// Connects to `host:port`, and asks which versions are known there.
    ///
    /// # Errors
    /// Nobody listens there.
    pub async fn connect(net: &Net, address: &str) -> Result<Self, Failure> {
        let (host, port) = parts(address)?;
        let broker = within(net.open(&host, port)).await??;
        let mut raw = Self { broker, read: BytesMut::new(), newest: BTreeMap::new() };
        let known = raw.ask(0, &ApiVersionsRequest::default()).await?.api_keys;
        raw.newest = known.iter().map(|api| (api.api_key, api.max_version)).collect();
        Ok(raw)
    }

    /// Whether the broker offers the API of a request.
    #[must_use]
    pub fn offers<R: Request>(&self) -> bool {
        self.newest.contains_key(&R::KEY)
    }

    /// The newest version of a request that the broker offers.
    #[must_use]
    pub fn newest<R: Request>(&self) -> Option<i16> {
        self.newest.get(&R::KEY).copied()
    }

    /// Sends a request of this version, or of the newest that the broker knows if that is older, and reads its answer.
    ///
    /// # Errors
    /// It can't be sent, or is not answered.
    pub async fn ask<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response, Failure> {
        let version = self.newest.get(&R::KEY).map_or(version, |newest| version.min(*newest));
        self.broker.write_all(&frame(version, request)?).await?;
        self.answer::<R>(version).await
    }

    async fn answer<R: Request>(&mut self, version: i16) -> Result<R::Response, Failure> {
        loop {
            if let Some(mut body) = FrameDecoder::default().next_frame(&mut self.read)? {
                let header = R::Response::header_version(version);
                ResponseHeader::decode(&mut body, header).map_err(Failure::wrong)?;
                return R::Response::decode(&mut body, version).map_err(Failure::wrong);
            }
            let read = within(self.broker.read_buf(&mut self.read)).await??;
            holds(read > 0, "the connection was closed instead of an answer")?;
        }
    }

    /// Initializes an id that is idle again and again, until the next initialization grants `epoch`.
    ///
    /// # Errors
    /// An initialization is refused.
    pub async fn wear_out(&mut self, id: &TransactionalId, epoch: i16) -> Shown {
        const NEWEST: i16 = 4;
        let known = self.newest.get(&InitProducerIdRequest::KEY).copied();
        let version = known.map_or(NEWEST, |known| known.min(NEWEST));
        let request = initialize(id, 60_000);
        let one = frame(version, &request)?;
        let mut last = self.ask(version, &request).await?;
        while last.producer_epoch + 1 < epoch {
            let count = (epoch - 1 - last.producer_epoch).min(200);
            self.broker.write_all(&one.repeat(usize::try_from(count)?)).await?;
            for _ in 0..count {
                last = self.answer::<InitProducerIdRequest>(version).await?;
                equal("the answer to InitProducerId", last.error_code, 0)?;
            }
        }
        equal("the epoch", last.producer_epoch, epoch - 1)
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("newest", &self.newest).finish_non_exhaustive()
    }
}

/// InitProducerId for an id, as a new owner sends it.
#[must_use]
pub fn initialize(id: &TransactionalId, timeout_ms: i32) -> InitProducerIdRequest {
    InitProducerIdRequest::default()
        .with_transactional_id(Some(StrBytes::from_string(id.to_string()).into()))
        .with_transaction_timeout_ms(timeout_ms)
        .with_producer_id((-1).into())
        .with_producer_epoch(-1)
}

/// A pair of numbers as kafka-protocol has them.
#[must_use]
pub fn identity(producer_id: kafka_protocol::messages::ProducerId, epoch: i16) -> Identity {
    Identity::new(*producer_id, epoch)
}

fn frame<R: Request>(version: i16, request: &R) -> Result<Bytes, Failure> {
    let mut body = BytesMut::new();
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_client_id(Some(StrBytes::from_static_str("raw")));
    header.encode(&mut body, R::header_version(version)).map_err(Failure::wrong)?;
    request.encode(&mut body, version).map_err(Failure::wrong)?;
    let mut whole = BytesMut::with_capacity(body.len() + 4);
    whole.put_u32(u32::try_from(body.len())?);
    whole.put_slice(&body);
    Ok(whole.freeze())
}
