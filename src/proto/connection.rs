//! One connection to a broker: the greeting, the order of answers, the window, the time limits.
//!
//! ```text
//!   opened ──► Greeting(ApiVersions v) ──accepted──► Open ──broken / timed out / out of order──► Closed
//!                 │  ▲
//!                 └──┘ the broker knows a lower version only
//! ```
//! A broker answers the requests of a connection in the order in which they came, so an answer whose
//! correlation id is not the oldest one outstanding means that the stream can no longer be trusted.

use std::{collections::VecDeque, time::Duration};

use crate::ids::Moment;

/// What a connection is asked and told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The socket is connected.
    Opened,
    /// ApiVersions was answered.
    Greeted(Greeting),
    /// A request whose bytes are ready.
    Submitted(Request),
    /// A frame arrived that carries this correlation id.
    Received {
        /// The frame's correlation id.
        correlation: i32,
    },
    /// The broker asked for silence (KIP-219): nothing is written before `until`.
    Throttled {
        /// The end of the silence.
        until: Moment,
    },
    /// Time passed.
    Tick,
    /// The socket failed or was closed.
    Broken(String),
}

/// A request as the machine knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The driver's name for the request.
    pub ticket: u64,
    /// The correlation id in its header.
    pub correlation: i32,
    /// How long its answer may take once it was written.
    pub timeout: Duration,
}

/// An answer to ApiVersions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeting {
    /// The broker named its versions.
    Accepted,
    /// The broker does not know the version that was used; it may have named its highest.
    UnknownVersion {
        /// The highest ApiVersions version that the broker named.
        highest: Option<i16>,
    },
    /// Whatever it is, it is not the answer of a Kafka broker.
    NotKafka(String),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Ask ApiVersions in this version.
    Greet {
        /// The version.
        version: i16,
    },
    /// The handshake is done.
    Ready,
    /// Write this request's bytes.
    Write {
        /// Its ticket.
        ticket: u64,
    },
    /// Hand the frame that was just received to this request.
    Deliver {
        /// Its ticket.
        ticket: u64,
    },
    /// This request will not be answered.
    Fail {
        /// Its ticket.
        ticket: u64,
        /// Whether the broker can have got it.
        sent: Sent,
    },
    /// Close the socket; nothing works after this.
    Close {
        /// Why.
        cause: String,
    },
}

/// Whether a broker can have got a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Not a byte of it was written.
    No,
    /// It may have been received and carried out.
    Maybe,
}

/// A call that the machine's state does not allow; the state is as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Misuse;

/// The longest silence that is kept. A broker asks for seconds; a number beyond this is an error of its own, and
/// nothing may wait for weeks because of it.
const MOST_SILENCE: Duration = Duration::from_secs(60);

/// Limits of a connection.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests written and not answered (`max.in.flight.requests.per.connection`, default 5).
    pub in_flight: usize,
    /// How long the handshake may take (`socket.connection.setup.timeout.ms`, default 10 s).
    pub greeting: Duration,
    /// The version of ApiVersions to begin with.
    pub first_greeting: i16,
}

/// The machine.
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    state: State,
    queued: VecDeque<Request>,
    in_flight: VecDeque<(Request, Moment)>,
    silent_until: Moment,
    effects: VecDeque<Effect>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Opening,
    Greeting { version: i16, deadline: Moment },
    Open,
    Closed,
}

impl Connection {
    /// A connection whose socket is still being connected.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Opening,
            queued: VecDeque::new(),
            in_flight: VecDeque::new(),
            silent_until: Moment::default(),
            effects: VecDeque::new(),
        }
    }

    /// Takes a fact or a request.
    ///
    /// # Errors
    /// [`Misuse`] after the connection was closed; a request is then not taken.
    pub fn handle(&mut self, now: Moment, input: Input) -> Result<(), Misuse> {
        if self.state == State::Closed {
            return Err(Misuse);
        }
        match input {
            Input::Opened => self.greet(now, self.limits.first_greeting),
            Input::Greeted(greeting) => self.greeted(now, greeting),
            Input::Submitted(request) => self.queued.push_back(request),
            Input::Received { correlation } => self.received(correlation),
            Input::Throttled { until } => {
                let most = now.after(MOST_SILENCE);
                self.silent_until = self.silent_until.max(until.min(most));
            }
            Input::Tick => {}
            Input::Broken(cause) => self.close(cause),
        }
        self.expire(now);
        self.write_queued(now);
        Ok(())
    }

    /// The next thing to do; drain it before the next [`handle`](Self::handle).
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Input::Tick`] is due, if at all.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        let silence = (self.state == State::Open && !self.queued.is_empty() && self.has_room())
            .then_some(self.silent_until);
        let answer = self.in_flight.front().map(|(_, deadline)| *deadline);
        let greeting = match self.state {
            State::Greeting { deadline, .. } => Some(deadline),
            State::Opening | State::Open | State::Closed => None,
        };
        [silence, answer, greeting].into_iter().flatten().min()
    }

    fn greet(&mut self, now: Moment, version: i16) {
        let deadline = match self.state {
            State::Greeting { deadline, .. } => deadline,
            State::Opening | State::Open | State::Closed => now.after(self.limits.greeting),
        };
        self.state = State::Greeting { version, deadline };
        self.effects.push_back(Effect::Greet { version });
    }

    fn greeted(&mut self, now: Moment, greeting: Greeting) {
        let State::Greeting { version, .. } = self.state else {
            return self.close("an ApiVersions answer came unasked".into());
        };
        match greeting {
            Greeting::Accepted => {
                self.state = State::Open;
                self.effects.push_back(Effect::Ready);
            }
            Greeting::UnknownVersion { highest } => {
                // A broker of before 2.4 does not name its range: version 0 is what every broker knows.
                let next = highest.unwrap_or(0).min(version - 1);
                if next < 0 {
                    return self.close("the broker knows no version of ApiVersions".into());
                }
                self.greet(now, next);
            }
            Greeting::NotKafka(what) => self.close(what),
        }
    }

    fn received(&mut self, correlation: i32) {
        match self.in_flight.pop_front() {
            Some((request, _)) if request.correlation == correlation => {
                self.effects.push_back(Effect::Deliver { ticket: request.ticket });
            }
            Some(oldest) => {
                let expected = oldest.0.correlation;
                self.in_flight.push_front(oldest);
                self.close(format!(
                    "the answer carries correlation id {correlation}, expected was {expected}"
                ));
            }
            None => self.close(format!("an answer with correlation id {correlation} came unasked")),
        }
    }

    fn expire(&mut self, now: Moment) {
        if let State::Greeting { deadline, .. } = self.state {
            if deadline <= now {
                let limit = self.limits.greeting;
                return self.close(format!("no answer to ApiVersions within {limit:?}"));
            }
        }
        let late = self.in_flight.front().filter(|(_, deadline)| *deadline <= now);
        if let Some(timeout) = late.map(|(request, _)| request.timeout) {
            self.close(format!("no answer within {timeout:?}"));
        }
    }

    fn write_queued(&mut self, now: Moment) {
        while self.state == State::Open && self.has_room() && self.silent_until <= now {
            let Some(request) = self.queued.pop_front() else { return };
            self.effects.push_back(Effect::Write { ticket: request.ticket });
            let deadline = now.after(request.timeout);
            self.in_flight.push_back((request, deadline));
        }
    }

    fn has_room(&self) -> bool {
        self.in_flight.len() < self.limits.in_flight
    }

    fn close(&mut self, cause: String) {
        self.state = State::Closed;
        for (request, _) in self.in_flight.drain(..) {
            self.effects.push_back(Effect::Fail { ticket: request.ticket, sent: Sent::Maybe });
        }
        for request in self.queued.drain(..) {
            self.effects.push_back(Effect::Fail { ticket: request.ticket, sent: Sent::No });
        }
        self.effects.push_back(Effect::Close { cause });
    }
}

#[cfg(test)]
mod tests;
