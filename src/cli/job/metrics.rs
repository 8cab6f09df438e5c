//! Where Prometheus finds the metrics of a job: `GET /metrics`, and nothing else.

use std::{io, time::Duration};

use anyhow::Context as _;
use futures::{StreamExt, stream::FuturesUnordered};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::Options;
use crate::{
    checkpoint::{metrics::metrics_observer, runner::Observer},
    cli::context::tell,
    net::Background,
    proto::naming::IdPrefix,
};

/// The metrics, if they are wanted, for as long as this is kept.
pub(in crate::cli) struct Metrics(Option<Background<()>>);

/// Upper bounds of the buckets of histograms, in seconds.
const BUCKETS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
/// Scrapes that are answered at once; others wait.
const AT_ONCE: usize = 8;
/// How long a scrape may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a request may be, in bytes.
const LONGEST_HEAD: usize = 8 << 10;
/// How often values of histograms are put into their buckets when nobody asks.
const UPKEEP: Duration = Duration::from_secs(5);
const AFTER_REFUSAL: Duration = Duration::from_millis(200);

impl Metrics {
    /// Listens, if that is wanted.
    ///
    /// # Errors
    /// The address can't be listened on.
    pub(in crate::cli) async fn start(options: &Options) -> anyhow::Result<Self> {
        let Some(address) = options.metrics else { return Ok(Self(None)) };
        let named = || format!("--metrics {address}");
        let listener = TcpListener::bind(address).await.with_context(named)?;
        let bound = listener.local_addr().with_context(named)?;
        let builder = PrometheusBuilder::new().set_buckets(&BUCKETS).with_context(named)?;
        let handle = builder.install_recorder().with_context(named)?;
        if address.port() == 0 {
            tell(format!("kafka-2pc: metrics at http://{bound}/metrics"));
        }
        Ok(Self(Some(Background::start(serve(listener, handle)))))
    }

    /// An observer that is told what `observer` is, and counts it.
    pub(in crate::cli) fn count(&self, observer: Observer, prefix: &IdPrefix) -> Observer {
        match &self.0 {
            None => observer,
            Some(_) => observer.and(metrics_observer(prefix.as_str())),
        }
    }
}

async fn serve(listener: TcpListener, handle: PrometheusHandle) {
    let mut scrapes = FuturesUnordered::new();
    let mut upkeep = tokio::time::interval(UPKEEP);
    loop {
        tokio::select! {
            accepted = accept(&listener), if scrapes.len() < AT_ONCE => {
                scrapes.push(tokio::time::timeout(PATIENCE, scrape(accepted, &handle)));
            }
            // A scraper that went away has nothing to be told.
            Some(_) = scrapes.next() => {}
            _ = upkeep.tick() => handle.run_upkeep(),
        }
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // Such as too many open files, which may pass.
            Err(error) => {
                tracing::warn!(%error, "a scrape was not accepted");
                tokio::time::sleep(AFTER_REFUSAL).await;
            }
        }
    }
}

async fn scrape(mut stream: TcpStream, handle: &PrometheusHandle) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < LONGEST_HEAD {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    stream.write_all(answer(&head, || handle.render()).as_bytes()).await?;
    stream.shutdown().await
}

/// The answer to a request.
fn answer(head: &[u8], render: impl FnOnce() -> String) -> String {
    let head = String::from_utf8_lossy(head);
    let complete = head.contains("\r\n\r\n");
    let words: Vec<&str> = head.lines().next().unwrap_or_default().split(' ').collect();
    let (status, body) = match words[..] {
        [method, target, version] if complete && version.starts_with("HTTP/1.") => {
            match (method, target.split('?').next()) {
                ("GET", Some("/metrics")) => ("200 OK", render()),
                (_, Some("/metrics")) => ("405 Method Not Allowed\r\nAllow: GET", "GET only\n".to_owned()),
                (_, _) => ("404 Not Found", "see /metrics\n".to_owned()),
            }
        }
        _ => ("400 Bad Request", "no request of HTTP/1.1\n".to_owned()),
    };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::answer;

    #[track_caller]
    fn expect(request: &str, status: &str, body: &str) {
        let answered = answer(request.as_bytes(), || "a 1\n".to_owned());
        let (head, got) = answered.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request:?}: {head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        assert_eq!(got, body, "{request:?}");
    }

    #[test]
    fn only_the_metrics_can_be_got() {
        expect("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK", "a 1\n");
        expect("GET /metrics?x=y HTTP/1.0\r\n\r\n", "200 OK", "a 1\n");
        expect("GET / HTTP/1.1\r\n\r\n", "404 Not Found", "see /metrics\n");
        expect("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed", "GET only\n");
        let nonsense =
            ["GET /metrics HTTP/1.1\r\nHost: a", "GET /metrics\r\n\r\n", "\r\n\r\n", "a b HTTP/2\r\n\r\n"];
        for request in nonsense {
            expect(request, "400 Bad Request", "no request of HTTP/1.1\n");
        }
    }
}
