//! Between the client and any broker: sees every frame, and may do something to it.
//!
//! It is a [`Connector`] of the client, so it works against real brokers as well as against the embedded one, and no
//! address has to be rewritten.
//!
//! ```text
//! client ── duplex ── pump { plans: drop, hold, cut, .. } ── net ── broker
//!                       └─► log of answers: API, version, error codes
//! ```

mod answers;
mod codes;
mod dial;
mod pump;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use kafka_2pc::net::{Connector, Stream};
use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::batch::{BatchHeader, Batches};
use kafka_2pc::wire::frame::{FrameDecoder, decode_response_header};
use kafka_protocol::messages::ProduceRequest;
use kafka_protocol::protocol::{Decodable, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

pub use answers::Mangled;
pub use codes::codes;
pub use dial::Dial;

use self::answers::{Change, Mangling};
use self::dial::Dials;
use crate::bench::within;
use crate::net::Net;
use crate::outcome::{Failure, Shown, equal};

/// One request that left the client, whatever became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Which connection it was on; connections are numbered as they are opened.
    pub connection: u64,
    /// Its API.
    pub api: Api,
    /// Its version.
    pub version: i16,
    /// When it left, counted over all requests and answers.
    pub order: u64,
    /// When it left, by the runtime's clock.
    pub at: Instant,
    body: Bytes,
}

/// One answer that the client was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Which connection it came on.
    pub connection: u64,
    /// Its API.
    pub api: Api,
    /// Its version.
    pub version: i16,
    /// Every error code in it, in order; empty for an API without any.
    pub codes: Vec<i16>,
    /// When it came, counted over all requests and answers.
    pub order: u64,
    /// When it came, by the runtime's clock.
    pub at: Instant,
    body: Bytes,
}

/// What the tap does to a request.
#[derive(Debug)]
pub enum Act {
    /// The connection is closed, and the broker never sees it.
    Drop,
    /// The broker gets it, and the connection is closed when its answer comes.
    ApplyThenDrop,
    /// The connection is closed, and the request is kept, to be delivered late: see [`Tap::hold`].
    Hold(oneshot::Sender<Held>),
    /// Only that many of its bytes leave, then the connection is closed.
    Cut(usize),
    /// It arrives with one bit changed, four bytes before its end: in a Produce of one partition that lies in its records, so
    /// that their checksum is wrong.
    Damage,
    /// It waits, and its connection with it, as on a slow network: see [`Tap::pause`].
    Pause(Gate),
    /// The broker gets it at once, and its answer waits: see [`Tap::pause_answer`].
    PauseAnswer(Gate),
}

/// The tap's end of a [`Paused`] request.
#[derive(Debug)]
pub struct Gate {
    reached: oneshot::Sender<()>,
    open: oneshot::Receiver<()>,
}

/// A request that waits on its way, on a connection that lives. It goes on when this is dropped.
#[derive(Debug)]
pub struct Paused {
    reached: oneshot::Receiver<()>,
    open: oneshot::Sender<()>,
}

/// A request whose connection died, and that is still on its way.
#[derive(Debug)]
pub struct Held {
    net: Net,
    address: (String, u16),
    api: Api,
    version: i16,
    frame: Bytes,
}

/// The tap of one or several clients.
#[derive(Debug, Clone, Default)]
pub struct Tap(Arc<State>, Net);

#[derive(Debug, Default)]
struct State {
    answers: Mutex<Vec<Answer>>,
    requests: Mutex<Vec<Sent>>,
    connections: AtomicU64,
    order: AtomicU64,
    plans: Mutex<Vec<Plan>>,
    changes: Mutex<Vec<Change>>,
    manglings: Mutex<Vec<Mangling>>,
    dials: Mutex<Dials>,
    cut: watch::Sender<u64>,
}

#[derive(Debug)]
struct Plan {
    api: Api,
    nth: u32,
    act: Act,
}

impl Tap {
    /// A tap on a way to brokers.
    #[must_use]
    pub fn on(net: Net) -> Self {
        Self(Arc::default(), net)
    }

    /// The same tap, for clients of another cluster.
    #[must_use]
    pub fn moved_to(&self, net: Net) -> Self {
        Self(Arc::clone(&self.0), net)
    }

    /// The `nth` request of an API from now on meets this; 1 is the next one.
    pub fn plan(&self, api: Api, nth: u32, act: Act) {
        lock(&self.0.plans).push(Plan { api, nth: nth.max(1), act });
    }

    /// The next request of an API is held: its connection dies, the broker sees it when it is
    /// [delivered](Held::deliver).
    pub fn hold(&self, api: Api) -> oneshot::Receiver<Held> {
        let (told, held) = oneshot::channel();
        self.plan(api, 1, Act::Hold(told));
        held
    }

    /// The next request of an API waits on its way until it is [released](Paused::release). What the client sends on the
    /// same connection waits behind it.
    #[must_use]
    pub fn pause(&self, api: Api) -> Paused {
        self.pause_nth(api, 1)
    }

    /// The same for the `nth` request from now on.
    #[must_use]
    pub fn pause_nth(&self, api: Api, nth: u32) -> Paused {
        let (told, reached) = oneshot::channel();
        let (open, opened) = oneshot::channel();
        self.plan(api, nth, Act::Pause(Gate { reached: told, open: opened }));
        Paused { reached, open }
    }

    /// The answer to the next request of an API waits on its way until it is [released](Paused::release), and with it
    /// everything on its connection. It is [reached](Paused::reached) when the broker has answered.
    #[must_use]
    pub fn pause_answer(&self, api: Api) -> Paused {
        let (told, reached) = oneshot::channel();
        let (open, opened) = oneshot::channel();
        self.plan(api, 1, Act::PauseAnswer(Gate { reached: told, open: opened }));
        Paused { reached, open }
    }

    /// Every connection that is open now is closed, as by brokers that have seen them idle for too long.
    pub fn disconnect(&self) {
        self.0.cut.send_modify(|n| *n += 1);
    }

    /// Forgets what did not happen yet.
    pub fn clear(&self) {
        lock(&self.0.plans).clear();
        lock(&self.0.changes).clear();
        lock(&self.0.manglings).clear();
    }

    /// All answers so far, in the order in which they came.
    #[must_use]
    pub fn answers(&self) -> Vec<Answer> {
        lock(&self.0.answers).clone()
    }

    /// All requests so far, in the order in which they left.
    #[must_use]
    pub fn requests(&self) -> Vec<Sent> {
        lock(&self.0.requests).clone()
    }

    /// How many requests of an API have left.
    #[must_use]
    pub fn count(&self, api: Api) -> usize {
        lock(&self.0.requests).iter().filter(|sent| sent.api == api).count()
    }

    fn next_order(&self) -> u64 {
        self.0.order.fetch_add(1, Ordering::Relaxed)
    }

    fn on_request(&self, sent: Sent) -> Option<Act> {
        let api = sent.api;
        lock(&self.0.requests).push(sent);
        let mut plans = lock(&self.0.plans);
        let matching = plans.iter_mut().filter(|plan| plan.api == api);
        matching.for_each(|plan| plan.nth = plan.nth.saturating_sub(1));
        let due = plans.iter().position(|plan| plan.nth == 0)?;
        let act = plans.remove(due).act;
        plans.iter_mut().filter(|plan| plan.nth == 0).for_each(|plan| plan.nth = 1);
        Some(act)
    }

    fn on_answer(&self, answer: Answer) {
        lock(&self.0.answers).push(answer);
    }
}

impl Connector for Tap {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let (host, port) = &self.dial(host, port).await?;
            let broker = self.1.open(host, *port).await?;
            let (client, ours) = tokio::io::duplex(1 << 16);
            let number = self.0.connections.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(pump::run(self.clone(), number, ours, broker, (host.clone(), *port)));
            Ok(Box::new(client) as Box<dyn Stream>)
        })
    }
}

impl Sent {
    /// The request, as `R`.
    ///
    /// # Errors
    /// It is of another API.
    pub fn decode<R: Request>(&self) -> Result<R, Failure> {
        equal("the API", self.api.key(), R::KEY)?;
        R::decode(&mut self.body.clone(), self.version).map_err(Failure::wrong)
    }

    /// The record batches of a Produce request: topic (its id from version 13 on), partition, and each batch's header.
    ///
    /// # Errors
    /// It is no Produce, or a batch is malformed.
    pub fn batches(&self) -> Result<Vec<(String, i32, BatchHeader)>, Failure> {
        let mut found = Vec::new();
        for topic in self.decode::<ProduceRequest>()?.topic_data {
            let name = if self.version < 13 { topic.name.to_string() } else { topic.topic_id.to_string() };
            for partition in topic.partition_data {
                for batch in Batches::new(partition.records.unwrap_or_default()) {
                    found.push((name.clone(), partition.index, *batch?.header()));
                }
            }
        }
        Ok(found)
    }
}

impl Answer {
    #[cfg(test)]
    pub(crate) fn of(api: Api, version: i16, codes: &[i16]) -> Self {
        Self {
            connection: 0,
            api,
            version,
            codes: codes.to_vec(),
            order: 0,
            at: Instant::now(),
            body: Bytes::new(),
        }
    }

    /// The answer to a request of type `R`.
    ///
    /// # Errors
    /// It is of another API.
    pub fn decode<R: Request>(&self) -> Result<R::Response, Failure> {
        equal("the API", self.api.key(), R::KEY)?;
        R::Response::decode(&mut self.body.clone(), self.version).map_err(Failure::wrong)
    }
}

impl Paused {
    /// Done when the request has left the client.
    ///
    /// # Errors
    /// It never will.
    pub async fn reached(&mut self) -> Shown {
        Ok(within(&mut self.reached).await??)
    }

    /// Lets it go on.
    pub fn release(self) {
        // The connection may be gone.
        let _ = self.open.send(());
    }
}

impl Held {
    /// Which request it is.
    #[must_use]
    pub const fn api(&self) -> Api {
        self.api
    }

    /// Lets the request reach the broker, on a connection of its own, and returns the error codes of the answer.
    ///
    /// # Errors
    /// The broker can't be reached, or closes the connection instead of an answer.
    pub async fn deliver(&self) -> io::Result<Vec<i16>> {
        let mut broker = self.net.open(&self.address.0, self.address.1).await?;
        broker.write_all(&pump::framed(&self.frame)).await?;
        let mut buffer = BytesMut::new();
        loop {
            let frame = FrameDecoder::default().next_frame(&mut buffer).map_err(io::Error::other)?;
            if let Some(mut body) = frame {
                decode_response_header(&mut body, self.api, self.version).map_err(io::Error::other)?;
                return codes(self.api, self.version, body).map_err(io::Error::other);
            }
            if broker.read_buf(&mut buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
