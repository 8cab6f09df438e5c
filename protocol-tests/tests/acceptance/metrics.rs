//! What a running job serves to Prometheus, and what it logs, waited for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use kafka_2pc_protocol_tests::harness::Failure;
use kafka_2pc_protocol_tests::program::{Ended, Phase};

use crate::Outcome;
use crate::job::{Attempt, Job, OPEN};

/// Makes a job serve its metrics on a free port, which it tells.
pub(crate) const SERVED: [&str; 2] = ["--metrics", "127.0.0.1:0"];

/// One answer.
#[derive(Debug, Clone)]
pub(crate) struct Metrics(Vec<(String, f64)>);

impl Metrics {
    fn parse(text: &str) -> Result<Self, Failure> {
        let samples = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let name = series.split('{').next()?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let read = |line| sample(line).ok_or_else(|| Failure::of(format!("no sample: {line}")));
        samples.map(read).collect::<Result<_, _>>().map(Self)
    }

    /// A metric of the job, `kafka_2pc_NAME`; of all its subtasks together. Not a number if there is none.
    pub(crate) fn of(&self, name: &str) -> f64 {
        let mut found =
            self.0.iter().filter(|(series, _)| series.strip_prefix("kafka_2pc_") == Some(name)).peekable();
        if found.peek().is_none() { f64::NAN } else { found.map(|(_, value)| value).sum() }
    }
}

impl Attempt {
    /// What it serves now.
    pub(crate) fn metrics(&self) -> Result<Metrics, Failure> {
        let output = self.running.output();
        let place = output.split("metrics at http://").nth(1).and_then(|rest| rest.split('/').next());
        let place = place.ok_or_else(|| Failure::of(format!("it tells no address:\n{output}")))?;
        let mut stream = TcpStream::connect(place)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: job\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Metrics::parse(body),
            _ => Err(Failure::of(format!("{place}: {answer}"))),
        }
    }

    /// Waits until its metrics are such.
    pub(crate) fn wait_for_metrics(
        &mut self,
        what: &str,
        limit: Duration,
        holds: impl Fn(&Metrics) -> bool,
    ) -> Result<Metrics, Failure> {
        let deadline = Instant::now() + limit;
        loop {
            let last = self.metrics();
            match &last {
                Ok(metrics) if holds(metrics) => return last,
                Ok(_) | Err(_) => {}
            }
            if self.running.ended_within(Duration::from_millis(50))? || Instant::now() >= deadline {
                let output = self.running.output();
                return Err(Failure::of(format!("the metrics do not show {what}: {last:?}\n{output}")));
            }
        }
    }

    /// Stops it in the middle of a transaction that is open at the coordinator and not prepared.
    pub(crate) fn freeze(&self, job: &Job<'_>) -> Outcome {
        for _ in 0..200 {
            self.running.pause()?;
            let open = job.ids_in(&OPEN)?;
            let writes = self.trace()?.phase() == Phase::Write;
            if writes && open.len() == 1 && open == job.ids_in(&["Ongoing"])? {
                return Ok(());
            }
            self.running.cont()?;
            std::thread::sleep(Duration::from_millis(13));
        }
        Err(Failure::of("it is never writing"))
    }

    /// Waits until it has said each of these.
    pub(crate) fn wait_for_words(&mut self, words: &[&str], limit: Duration) -> Outcome {
        let deadline = Instant::now() + limit;
        for word in words {
            while !self.running.output().contains(word) {
                let over =
                    self.running.ended_within(Duration::from_millis(50))? || Instant::now() >= deadline;
                let output = self.running.output();
                Failure::unless(
                    !over || output.contains(word),
                    format!("it does not say {word:?}:\n{output}"),
                )?;
            }
        }
        Ok(())
    }
}

/// It has said each of these.
pub(crate) fn says(ended: &Ended, words: &[&str]) -> Outcome {
    let output = format!("{}{}", ended.stdout, ended.stderr);
    match words.iter().find(|word| !output.contains(**word)) {
        Some(word) => Err(ended.strange(&format!("it does not say {word:?}")).into()),
        None => Ok(()),
    }
}
