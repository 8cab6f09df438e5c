//! One connection to one broker: a task that owns the socket.
//!
//! Callers hand over a question and wait for its answer; dropping the waiting future changes nothing on the
//! wire. A frame whose first byte was written is finished, or the connection is closed.

use std::{
    collections::{HashMap, VecDeque},
    io::IoSlice,
    sync::Arc,
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf},
    sync::{mpsc, oneshot, watch},
};

use super::{
    clock::Clock,
    connector::{Connector, Stream},
    probe::{Probe, ProbeEvent},
};
use crate::{
    exchange::{Answered, ApiVersions, BrokerProfile, Call, ExchangeError, Head},
    ids::Moment,
    proto::connection::{self as machine, Effect, Greeting, Input, Limits, Request, Sent},
    wire::{
        api::Api,
        frame::{self, FrameDecoder},
        versions,
    },
};

/// Settings of a connection.
#[derive(Debug, Clone)]
pub struct ConnectionConfig {
    /// `client.id`.
    pub client_id: Arc<str>,
    /// Name resolution, connect and handshake together (`socket.connection.setup.timeout.ms`).
    pub setup_timeout: Duration,
    /// The largest answer that is read, in bytes.
    pub max_frame_bytes: usize,
    /// Requests written and not yet answered (`max.in.flight.requests.per.connection`).
    pub in_flight: usize,
    /// Watches requests and answers.
    pub probe: Probe,
}

/// Why a question got no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The request did not reach the broker.
    #[error("not sent: {0}")]
    NotSent(String),
    /// Whatever listens there does not speak Kafka's protocol.
    #[error("not a Kafka broker: {0}")]
    NotKafka(String),
    /// The request may have reached the broker and may have been carried out.
    #[error("no answer, and the request may have been carried out: {0}")]
    MaybeSent(String),
    /// The question can't be put to this broker, or its answer makes no sense.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
}

impl CallError {
    /// True when the broker may have carried the request out.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        match self {
            Self::NotSent(_) | Self::NotKafka(_) => false,
            Self::MaybeSent(_) => true,
            Self::Exchange(e) => matches!(e, ExchangeError::Malformed { .. }),
        }
    }
}

/// A handle to the connection's task. Clones share it; when the last one is dropped, the socket is closed.
#[derive(Debug, Clone)]
pub struct Connection {
    submit: mpsc::UnboundedSender<Submission>,
    profile: watch::Receiver<Profile>,
}

/// What the broker can do, and when it said so; `None` before the handshake is done.
type Profile = Option<(Moment, BrokerProfile)>;

struct Submission {
    api: Api,
    encode: Encode,
    timeout: Duration,
    reply: oneshot::Sender<Result<(i16, Bytes, Report), CallError>>,
}

/// Encodes a question once the broker's versions are known; the head's version is chosen by it.
type Encode = Box<dyn FnOnce(&BrokerProfile, Head) -> Result<(i16, Vec<Bytes>), ExchangeError> + Send>;

/// What whoever reads an answer finds in it that concerns the connection.
enum Found {
    /// The broker asked for so long a silence.
    Silence(Duration),
    /// It makes no sense: what follows it is not to be trusted.
    Nonsense(String),
}

/// Tells the connection's task of it.
type Report = mpsc::UnboundedSender<Found>;

impl Connection {
    /// Opens a connection in the background, after `delay`.
    ///
    /// Must be called within a tokio runtime. Questions can be put at once; they wait for the handshake.
    pub fn open(
        connector: Arc<dyn Connector>,
        (host, port): (Arc<str>, u16),
        delay: Duration,
        config: ConnectionConfig,
        clock: Clock,
    ) -> Self {
        let (submit, submitted) = mpsc::unbounded_channel();
        let (told, profile) = watch::channel(None);
        let task = Task::new(submitted, told, config, clock);
        #[expect(clippy::disallowed_methods, reason = "a connection is a task")]
        tokio::spawn(task.run(connector, host, port, delay));
        Self { submit, profile }
    }

    /// What the broker said that it can do, and when; waits for the handshake.
    ///
    /// # Errors
    /// [`CallError::NotSent`] if the connection can't be made.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn ready(&self) -> Result<(Moment, BrokerProfile), CallError> {
        let mut profile = self.profile.clone();
        let told = profile.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
        told.ok_or_else(|| CallError::NotSent("the connection was closed".into()))
    }

    /// True once the handshake is done.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.profile.borrow().is_some()
    }

    /// True when the connection is of no use any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.submit.is_closed()
    }

    /// Puts a question. It is queued at once, in the order of the calls; the future waits for the answer.
    ///
    /// # Errors
    /// [`CallError`].
    ///
    /// # Cancel safety
    /// Dropping the future does not take the request back.
    pub fn call<C: Call + 'static>(
        &self,
        call: Arc<C>,
        timeout: Duration,
    ) -> impl Future<Output = Result<C::Answer, CallError>> + Send + 'static + use<C> {
        let (reply, answer) = oneshot::channel();
        let (api, question, client) = (call.api(), Arc::clone(&call), self.clone());
        let encode: Encode = Box::new(move |profile, head| {
            let version = profile.choose(question.api(), question.cap(), question.floor())?;
            Ok((version, question.frame(&Head { version, ..head })?))
        });
        let queued = self.submit.send(Submission { api, encode, timeout, reply }).is_ok();
        async move {
            let _open = client;
            if !queued {
                return Err(CallError::NotSent("the connection is closed".into()));
            }
            let lost = |_| CallError::MaybeSent("the connection's task ended".into());
            let (version, mut frame, report) = answer.await.map_err(lost)??;
            let malformed = |e: frame::HeaderError| ExchangeError::Malformed {
                api: api.name(),
                version,
                detail: e.to_string(),
            };
            let header = frame::decode_response_header(&mut frame, api, version).map_err(malformed);
            let Answered { answer, throttle: silence } =
                header.and_then(|_| call.decode(version, frame)).inspect_err(|e| {
                    // A connection that is closed already needs no word of it.
                    _ = report.send(Found::Nonsense(e.to_string()));
                })?;
            if !silence.is_zero() {
                _ = report.send(Found::Silence(silence));
            }
            Ok(answer)
        }
    }
}

/// The correlation id of the handshake; requests count from 1.
const GREETING: i32 = 0;

struct Task {
    machine: machine::Connection,
    config: ConnectionConfig,
    clock: Clock,
    submitted: mpsc::UnboundedReceiver<Submission>,
    profile: watch::Sender<Profile>,
    report: Report,
    found: mpsc::UnboundedReceiver<Found>,
    ready: bool,
    /// Was anything answered but the handshake?
    answered: bool,
    /// What came before the handshake was done can't come from a Kafka broker.
    not_kafka: bool,
    greeting_version: i16,
    /// Questions that came before the handshake was done.
    early: VecDeque<Submission>,
    pending: HashMap<u64, Pending>,
    next_ticket: u64,
    out: VecDeque<Chunk>,
    received: Option<Bytes>,
}

struct Pending {
    api: Api,
    version: i16,
    frame: Vec<Bytes>,
    reply: oneshot::Sender<Result<(i16, Bytes, Report), CallError>>,
}

/// Bytes to write; the last chunk of a frame names its API.
struct Chunk {
    bytes: Bytes,
    last_of: Option<Api>,
}

/// The machine said that the connection must end.
struct Closed(String);

impl Task {
    fn new(
        submitted: mpsc::UnboundedReceiver<Submission>,
        profile: watch::Sender<Profile>,
        config: ConnectionConfig,
        clock: Clock,
    ) -> Self {
        let (report, found) = mpsc::unbounded_channel();
        let first_greeting = versions::supported(Api::ApiVersions).max.min(3);
        let limits = Limits { in_flight: config.in_flight, greeting: config.setup_timeout, first_greeting };
        Self {
            machine: machine::Connection::new(limits),
            config,
            clock,
            submitted,
            profile,
            report,
            found,
            ready: false,
            answered: false,
            not_kafka: false,
            greeting_version: first_greeting,
            early: VecDeque::new(),
            pending: HashMap::new(),
            next_ticket: 1,
            out: VecDeque::new(),
            received: None,
        }
    }

    async fn run(mut self, connector: Arc<dyn Connector>, host: Arc<str>, port: u16, delay: Duration) {
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let limit = self.config.setup_timeout;
        let cause = match tokio::time::timeout(limit, connector.connect(&host, port)).await {
            Ok(Ok(stream)) => {
                let (reader, writer) = tokio::io::split(stream);
                self.serve(reader, writer).await.0
            }
            Ok(Err(e)) => e.to_string(),
            Err(_) => format!("no connection within {limit:?}"),
        };
        tracing::debug!(%host, port, %cause, "connection closed");
        self.refuse_all(&format!("{host}:{port}: {cause}"));
    }

    async fn serve(
        &mut self,
        mut reader: ReadHalf<Box<dyn Stream>>,
        mut writer: WriteHalf<Box<dyn Stream>>,
    ) -> Closed {
        let decoder = FrameDecoder::responses(self.config.max_frame_bytes);
        let mut buffer = BytesMut::with_capacity(16 * 1024);
        let mut step = self.tell(Input::Opened);
        loop {
            if let Err(closed) = step {
                return closed;
            }
            let deadline = self.machine.next_deadline();
            let slices: Vec<IoSlice<'_>> = self.out.iter().take(64).map(|c| IoSlice::new(&c.bytes)).collect();
            step = tokio::select! {
                written = writer.write_vectored(&slices), if !slices.is_empty() => match written {
                    Ok(0) => self.tell(Input::Broken("the socket takes no more bytes".into())),
                    Ok(n) => { self.wrote(n); Ok(()) }
                    Err(e) => self.tell(Input::Broken(e.to_string())),
                },
                read = reader.read_buf(&mut buffer) => match read {
                    Ok(0) => self.tell(Input::Broken(self.hung_up().into())),
                    Ok(_) => self.read(decoder, &mut buffer),
                    Err(e) => self.tell(Input::Broken(e.to_string())),
                },
                submission = self.submitted.recv() => match submission {
                    // Whoever asks after an answer that wanted silence, or made no sense, has told of it before.
                    Some(submission) => match self.heed() {
                        Ok(()) => self.submit(submission),
                        Err(closed) => {
                            // It was not sent, and is told that.
                            self.early.push_back(submission);
                            Err(closed)
                        }
                    },
                    None => Err(Closed("no longer used".into())),
                },
                Some(found) = self.found.recv() => self.found(found),
                () = self.clock.sleep_until(deadline) => self.tell(Input::Tick),
            };
        }
    }

    fn heed(&mut self) -> Result<(), Closed> {
        while let Ok(found) = self.found.try_recv() {
            self.found(found)?;
        }
        Ok(())
    }

    fn found(&mut self, found: Found) -> Result<(), Closed> {
        self.tell(match found {
            Found::Silence(silence) => Input::Throttled { until: self.clock.now().after(silence) },
            Found::Nonsense(what) => Input::Broken(what),
        })
    }

    /// A listener that wants a login answers the handshake, and closes the connection at the first question.
    fn hung_up(&self) -> &'static str {
        match self.ready {
            true if self.answered => "closed by the broker",
            true => {
                "closed by the broker at the first request: it stopped, or this listener wants a login (SASL)"
            }
            false => "closed by the broker before the handshake; does this listener want TLS or a login?",
        }
    }

    fn submit(&mut self, submission: Submission) -> Result<(), Closed> {
        if !self.ready {
            self.early.push_back(submission);
            return Ok(());
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let correlation = i32::try_from(ticket & 0x7fff_ffff).unwrap_or(i32::MAX);
        let head = Head { version: 0, correlation, client_id: Arc::clone(&self.config.client_id) };
        let Submission { api, encode, timeout, reply } = submission;
        let encoded = self.profile.borrow().as_ref().map(|(_, profile)| encode(profile, head));
        match encoded {
            None => Ok(()),
            Some(Err(e)) => {
                // Whoever asked may have gone.
                _ = reply.send(Err(e.into()));
                Ok(())
            }
            Some(Ok((version, frame))) => {
                self.pending.insert(ticket, Pending { api, version, frame, reply });
                self.tell(Input::Submitted(Request { ticket, correlation, timeout }))
            }
        }
    }

    fn read(&mut self, decoder: FrameDecoder, buffer: &mut BytesMut) -> Result<(), Closed> {
        loop {
            match decoder.next_frame(buffer) {
                Ok(None) => return Ok(()),
                Ok(Some(frame)) => self.received(frame)?,
                Err(e) => {
                    self.not_kafka |= !self.ready;
                    return self.tell(Input::Broken(format!("not an answer of a Kafka broker: {e}")));
                }
            }
        }
    }

    fn received(&mut self, frame: Bytes) -> Result<(), Closed> {
        let Some(correlation) = frame::correlation_id(&frame) else {
            return self.tell(Input::Broken("an answer without a header".into()));
        };
        if self.ready || correlation != GREETING {
            self.received = Some(frame);
            return self.tell(Input::Received { correlation });
        }
        let (greeting, profile) = self.greeting(frame);
        self.not_kafka |= matches!(greeting, Greeting::NotKafka(_));
        if let Some(profile) = profile {
            self.profile.send_replace(Some((self.clock.now(), profile)));
        }
        self.tell(Input::Greeted(greeting))
    }

    fn greeting(&self, mut frame: Bytes) -> (Greeting, Option<BrokerProfile>) {
        let version = self.greeting_version;
        let not_kafka = |what: String| (Greeting::NotKafka(what), None);
        if let Err(e) = frame::decode_response_header(&mut frame, Api::ApiVersions, version) {
            return not_kafka(e.to_string());
        }
        ApiVersions.decode(version, frame).map_or_else(|e| not_kafka(e.to_string()), |a| a.answer)
    }

    /// Feeds the machine and carries out what it says.
    fn tell(&mut self, input: Input) -> Result<(), Closed> {
        if self.machine.handle(self.clock.now(), input).is_err() {
            return Err(Closed("closed".into()));
        }
        let mut closed = Ok(());
        let mut failed = Vec::new();
        while let Some(effect) = self.machine.poll_effect() {
            match effect {
                Effect::Greet { version } => self.greet(version),
                Effect::Ready => self.ready = true,
                Effect::Write { ticket } => self.write(ticket),
                Effect::Deliver { ticket } => self.deliver(ticket),
                Effect::Fail { ticket, sent } => failed.push((ticket, sent)),
                Effect::Close { cause } => closed = Err(Closed(cause)),
            }
        }
        if let Err(Closed(cause)) = &closed {
            failed.into_iter().for_each(|(ticket, sent)| self.fail(ticket, sent, cause));
        }
        closed?;
        if self.ready && !self.early.is_empty() {
            let early = std::mem::take(&mut self.early);
            return early.into_iter().try_for_each(|submission| self.submit(submission));
        }
        Ok(())
    }

    fn greet(&mut self, version: i16) {
        self.greeting_version = version;
        let head = Head { version, correlation: GREETING, client_id: Arc::clone(&self.config.client_id) };
        if let Ok(frame) = ApiVersions.frame(&head) {
            self.push(Api::ApiVersions, frame);
        }
    }

    fn write(&mut self, ticket: u64) {
        let Some(pending) = self.pending.get_mut(&ticket) else { return };
        let (api, frame) = (pending.api, std::mem::take(&mut pending.frame));
        self.push(api, frame);
    }

    fn push(&mut self, api: Api, frame: Vec<Bytes>) {
        let last = frame.len().saturating_sub(1);
        let chunks = frame.into_iter().enumerate();
        self.out.extend(chunks.map(|(i, bytes)| Chunk { bytes, last_of: (i == last).then_some(api) }));
    }

    fn wrote(&mut self, mut written: usize) {
        while let Some(chunk) = self.out.front_mut() {
            if chunk.bytes.len() > written {
                chunk.bytes.advance(written);
                return;
            }
            written -= chunk.bytes.len();
            let last_of = chunk.last_of;
            self.out.pop_front();
            if let Some(api) = last_of {
                self.config.probe.tell(ProbeEvent::Written(api));
            }
        }
    }

    fn deliver(&mut self, ticket: u64) {
        let (Some(pending), Some(frame)) = (self.pending.remove(&ticket), self.received.take()) else {
            return;
        };
        self.answered = true;
        self.config.probe.tell(ProbeEvent::Answered(pending.api));
        // Whoever asked may have gone.
        _ = pending.reply.send(Ok((pending.version, frame, self.report.clone())));
    }

    fn fail(&mut self, ticket: u64, sent: Sent, cause: &str) {
        let Some(pending) = self.pending.remove(&ticket) else { return };
        let error = match sent {
            Sent::No => CallError::NotSent(cause.into()),
            Sent::Maybe => CallError::MaybeSent(cause.into()),
        };
        _ = pending.reply.send(Err(error));
    }

    /// Ends every question that has not been answered.
    fn refuse_all(&mut self, cause: &str) {
        self.submitted.close();
        // The machine has failed what it knew, unless the socket was never opened.
        for (_, pending) in self.pending.drain() {
            _ = pending.reply.send(Err(CallError::MaybeSent(cause.into())));
        }
        while let Ok(submission) = self.submitted.try_recv() {
            self.early.push_back(submission);
        }
        for submission in self.early.drain(..) {
            let error = if self.not_kafka { CallError::NotKafka } else { CallError::NotSent };
            _ = submission.reply.send(Err(error(cause.into())));
        }
    }
}
