//! `bench-checkpoints`: how long checkpoints of a job take, and what they do to its records.
//!
//! ```text
//! cargo run --release -p kafka-2pc-benches --bin bench-checkpoints -- [--quick] [--only state|pressure|timeline]
//!     [--bootstrap localhost:9092 --topic bench]
//! ```

mod job;
mod pressure;
mod state;
mod timeline;
mod watch;

use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use job::{Place, Size};
use kafka_2pc_benches::{
    measure::Sample,
    options::Options,
    server::{SERVE, Server, serve},
};

const USAGE: &str = "\
usage: bench-checkpoints [--quick] [--only state|pressure|timeline] [--bootstrap HOST:PORT,.. --topic NAME]

  --quick       fewer checkpoints, and a smaller state
  --only        one of the measures
  --bootstrap   the cluster; without it, an embedded broker in a process of its own
  --topic       where the jobs write; it must exist on a cluster that was named  (bench)";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        Some("--help" | "-h") => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some(SERVE) => serve(&words[1..]).await,
        _ => bench(words).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-checkpoints: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn bench(words: Vec<String>) -> Result<()> {
    let (mut size, mut only, mut options) = (Size::Full, None, Options::default());
    let mut words = words.into_iter();
    while let Some(name) = words.next() {
        let mut value = || words.next().with_context(|| format!("{name}: its value is missing\n{USAGE}"));
        match name.as_str() {
            "--quick" => size = Size::Quick,
            "--only" => {
                let measure = value()?;
                let is_known = ["state", "pressure", "timeline"].contains(&measure.as_str());
                ensure!(is_known, "--only {measure}: no such measure\n{USAGE}");
                only = Some(measure);
            }
            "--bootstrap" => options.bootstrap = Some(value()?),
            "--topic" => options.topic = value()?,
            _ => bail!("{name}: no such option\n{USAGE}"),
        }
    }
    let server = match &options.bootstrap {
        None => Some(Server::start(&options)?),
        Some(_) => None,
    };
    let bootstrap = server.as_ref().map(|server| server.bootstrap.clone()).or(options.bootstrap.clone());
    let place = Place { bootstrap: bootstrap.unwrap_or_default(), topic: options.topic.clone() };
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if wanted("state") {
        state::measure(&place, size).await?;
    }
    if wanted("pressure") {
        pressure::measure(&place, &options, size).await?;
    }
    if wanted("timeline") {
        timeline::measure(&place, size).await?;
    }
    Ok(())
}

/// One line: a name, the median, and the spread.
fn row(name: &str, sample: &Sample) {
    println!(
        "  {name:<52} median {:>8.1} ms   min {:>8.1}   p90 {:>8.1}   max {:>8.1}",
        sample.median(),
        sample.min(),
        sample.percentile(90),
        sample.max()
    );
}
