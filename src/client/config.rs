//! Settings of a client.

use std::{sync::Arc, time::Duration};

use crate::net::Probe;

/// Settings of a [`Client`](super::Client).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientConfig {
    /// `bootstrap.servers`: where to begin; the rest of the cluster is learned from them.
    pub bootstrap: Vec<(Arc<str>, u16)>,
    /// `client.id`: how brokers name this client in their logs and quotas. Default `kafka-2pc`.
    pub client_id: Arc<str>,
    /// `request.timeout.ms`: how long an answer may take before the connection is given up. Default 30 s.
    pub request_timeout: Duration,
    /// `socket.connection.setup.timeout.ms`: name resolution, connect and handshake. Default 10 s.
    pub setup_timeout: Duration,
    /// `max.block.ms`: how long a call without a deadline of its own tries before it reports. Default 60 s.
    pub max_block: Duration,
    /// The largest answer that is read. Default 100 MiB.
    pub max_frame_bytes: usize,
    /// Watches requests and answers.
    pub probe: Probe,
}

/// A setting that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// `bootstrap.servers` is empty or not `host:port[,host:port..]`.
    #[error("bootstrap.servers: {0:?} is not host:port[,host:port..]")]
    Bootstrap(String),
    /// `auto.offset.reset` has an unknown value.
    #[error("auto.offset.reset: {0:?} is not none, earliest or latest")]
    OffsetReset(String),
}

impl ClientConfig {
    /// Defaults for everything but the servers, `host:port[,host:port..]`; IPv6 addresses in brackets.
    ///
    /// # Errors
    /// [`ConfigError::Bootstrap`].
    pub fn new(bootstrap: &str) -> Result<Self, ConfigError> {
        let servers = bootstrap.split(',').map(str::trim).filter(|s| !s.is_empty());
        let servers: Option<Vec<_>> = servers.map(server).collect();
        let bootstrap = servers
            .filter(|list| !list.is_empty())
            .ok_or_else(|| ConfigError::Bootstrap(bootstrap.to_owned()))?;
        Ok(Self {
            bootstrap,
            client_id: Arc::from("kafka-2pc"),
            request_timeout: Duration::from_secs(30),
            setup_timeout: Duration::from_secs(10),
            max_block: Duration::from_secs(60),
            max_frame_bytes: 100 << 20,
            probe: Probe::default(),
        })
    }

    /// The same settings under another `client.id`.
    #[must_use]
    pub fn client_id(self, client_id: impl Into<Arc<str>>) -> Self {
        Self { client_id: client_id.into(), ..self }
    }

    /// The same settings with another `request.timeout.ms`.
    #[must_use]
    pub fn request_timeout(self, request_timeout: Duration) -> Self {
        Self { request_timeout, ..self }
    }

    /// The same settings with another `max.block.ms`.
    #[must_use]
    pub fn max_block(self, max_block: Duration) -> Self {
        Self { max_block, ..self }
    }

    /// The same settings, watched by `probe`.
    #[must_use]
    pub fn probe(self, probe: Probe) -> Self {
        Self { probe, ..self }
    }
}

fn server(text: &str) -> Option<(Arc<str>, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().ok().filter(|p| *p > 0)?;
    (!host.is_empty()).then(|| (Arc::from(host), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_hosts_and_ports() {
        let config = ClientConfig::new("a:1, [::1]:9092,").unwrap();
        assert_eq!(config.bootstrap, [(Arc::from("a"), 1), (Arc::from("::1"), 9092)]);
        for wrong in ["", "a", "a:0", ":1", "a:70000", "a:b", "a:1,b"] {
            assert_eq!(
                ClientConfig::new(wrong).unwrap_err(),
                ConfigError::Bootstrap(wrong.into()),
                "{wrong}"
            );
        }
    }
}
