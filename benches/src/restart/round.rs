//! One job that dies, and is started again.

use std::{
    fmt,
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::reader::Reader;

/// Lines of the input, more than a round needs.
const LINES: u64 = 400_000;
const PER_SECOND: &str = "5000";
/// The step at which it dies is passed for this time.
const NTH: u32 = 4;
const LIMIT: Duration = Duration::from_secs(60);

/// What the dead one leaves at the brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// A transaction that the newest checkpoint lists, to be committed.
    Prepared,
    /// One that no checkpoint lists, to be aborted.
    Open,
}

pub(crate) struct Round<'a> {
    pub(crate) pipe: &'a Path,
    pub(crate) bootstrap: &'a str,
    pub(crate) left: Left,
    pub(crate) interval_ms: u32,
}

/// Milliseconds from the start of the second process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    pub(crate) recovered: f64,
    pub(crate) written: f64,
    pub(crate) visible: f64,
}

/// A process that is killed with its handle.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it is gone.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prepared => "prepared",
            Self::Open => "open",
        })
    }
}

impl Left {
    fn crash(self) -> String {
        match self {
            Self::Prepared => format!("durable:{NTH}"),
            Self::Open => format!("prepared:{NTH}"),
        }
    }
}

impl Round<'_> {
    pub(crate) async fn run(&self) -> Result<Took> {
        static ROUNDS: AtomicU32 = AtomicU32::new(0);
        let number = ROUNDS.fetch_add(1, Ordering::Relaxed);
        let topic = format!("restart-{}-{number}", std::process::id());
        let folder = tempfile::tempdir()?;
        write_lines(&folder.path().join("input"))?;
        let first = folder.path().join("first");
        let mut dying = self.start(&topic, &folder, &first, Some(self.left.crash()))?;
        let begun = Instant::now();
        while dying.0.try_wait()?.is_none() {
            ensure!(begun.elapsed() < LIMIT, "the first process does not die");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let covered = self.covered(&first)?;
        let mut reader = Reader::new(self.bootstrap, &topic).await?;
        let second = folder.path().join("second");
        let (begun, begun_ms) = (Instant::now(), wall_ms()?);
        let running = self.start(&topic, &folder, &second, None)?;
        tokio::time::timeout(LIMIT, reader.sees(covered)).await.context("nothing new becomes visible")??;
        let visible = begun.elapsed().as_secs_f64() * 1e3;
        drop(running);
        let since = |point: &str| {
            let passages = passages(&second)?;
            let found = passages.iter().find(|(_, passed)| passed == point);
            let (at_ms, _) = found.with_context(|| format!("{point} is not in the trace"))?;
            anyhow::Ok(at_ms - begun_ms)
        };
        Ok(Took { recovered: since("recovered")?, written: since("write")?, visible })
    }

    fn start(&self, topic: &str, folder: &TempDir, trace: &Path, crash: Option<String>) -> Result<Running> {
        let interval = format!("{}ms", self.interval_ms);
        let mut pipe = Command::new(self.pipe);
        pipe.args(["pipe", "--topic", topic, "--partitions", "3", "--bootstrap", self.bootstrap])
            .args(["--rate", PER_SECOND, "--checkpoint-interval", &interval, "--json", "--input"])
            .arg(folder.path().join("input"))
            .arg("--state")
            .arg(folder.path().join("state"))
            .env("KAFKA_2PC_TRACE", trace)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if let Some(crash) = crash {
            pipe.env("KAFKA_2PC_CRASH", crash);
        }
        let path = self.pipe.display();
        Ok(Running(pipe.spawn().with_context(|| format!("start {path}"))?))
    }

    /// How many lines the newest complete checkpoint holds: those that were written before its barrier.
    fn covered(&self, trace: &Path) -> Result<u64> {
        let passages = passages(trace)?;
        let mut counts: Vec<u64> = Vec::new();
        let mut written = 0;
        for (_, point) in &passages {
            match point.as_str() {
                "write" => written += 1,
                "prepare" => counts.push(written),
                _ => {}
            }
        }
        let place = match self.left {
            Left::Prepared => 1,
            // The last one was not stored.
            Left::Open => 2,
        };
        let index = counts.len().checked_sub(place).context("it died before its checkpoints")?;
        Ok(counts[index])
    }
}

/// Numbers, one a line.
fn write_lines(path: &Path) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for number in 0..LINES {
        writeln!(file, "{number:0>90}")?;
    }
    Ok(file.flush()?)
}

/// The moments in milliseconds since the Unix epoch, and the points that were passed.
fn passages(trace: &Path) -> Result<Vec<(f64, String)>> {
    let text = std::fs::read_to_string(trace)?;
    let passage = |line: &str| {
        let mut words = line.split_whitespace();
        let (at, point) = (words.next()?.parse().ok()?, words.nth(1)?);
        Some((at, point.to_owned()))
    };
    Ok(text.lines().filter_map(passage).collect())
}

fn wall_ms() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1e3)
}
