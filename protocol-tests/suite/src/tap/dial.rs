//! Connections that are made: to whom, and what becomes of them.

use std::{fmt, io};

use super::{Tap, lock};

/// What becomes of an attempt to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dial {
    /// Nobody listens there.
    Refuse,
    /// Nobody answers there, ever.
    Hang,
    /// Who listens there listens here, in truth.
    To(String, u16),
}

type Rule = Box<dyn FnMut(&str, u16) -> Option<Dial> + Send>;

/// What was dialed, and the rule for it.
#[derive(Default)]
pub(super) struct Dials {
    made: Vec<(String, u16)>,
    rule: Option<Rule>,
}

impl Tap {
    /// Each attempt to connect is asked about from now on; `None` lets it happen.
    pub fn on_dial(&self, rule: impl FnMut(&str, u16) -> Option<Dial> + Send + 'static) {
        lock(&self.0.dials).rule = Some(Box::new(rule));
    }

    /// Host and port of every attempt to connect so far, in order.
    #[must_use]
    pub fn dials(&self) -> Vec<(String, u16)> {
        lock(&self.0.dials).made.clone()
    }

    pub(super) async fn dial(&self, host: &str, port: u16) -> io::Result<(String, u16)> {
        let dial = {
            let mut dials = lock(&self.0.dials);
            dials.made.push((host.to_owned(), port));
            dials.rule.as_mut().and_then(|rule| rule(host, port))
        };
        match dial {
            None => Ok((host.to_owned(), port)),
            Some(Dial::To(host, port)) => Ok((host, port)),
            Some(Dial::Refuse) => Err(io::ErrorKind::ConnectionRefused.into()),
            Some(Dial::Hang) => std::future::pending().await,
        }
    }
}

impl fmt::Debug for Dials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dials").field("made", &self.made).finish_non_exhaustive()
    }
}
