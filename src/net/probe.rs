//! A way to watch requests leave and answers arrive, for tests that must act at an exact step.

use std::{fmt, sync::Arc};

use crate::wire::api::Api;

/// A step of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeEvent {
    /// The last byte of the request was handed to the operating system; its answer was not read.
    Written(Api),
    /// The answer's frame was read; nothing was made of it yet.
    Answered(Api),
}

/// A callback for each [`ProbeEvent`]. It runs inside the connection's task and must not block.
#[derive(Clone, Default)]
pub struct Probe(Option<Arc<dyn Fn(ProbeEvent) + Send + Sync>>);

impl Probe {
    /// A probe that calls `callback`.
    pub fn new(callback: impl Fn(ProbeEvent) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(callback)))
    }

    pub(super) fn tell(&self, event: ProbeEvent) {
        if let Some(callback) = &self.0 {
            callback(event);
        }
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Probe(set)" } else { "Probe(none)" })
    }
}
