//! `hostile-frames`: mutated frames for every API, requests and responses, with a table of what became of them.
//!
//! ```text
//! cargo run -p kafka-2pc-fuzz --release --bin hostile-frames -- --frames 20000
//! cargo run -p kafka-2pc-fuzz --release --bin hostile-frames -- --frames 1000000   # the whole thing
//! ```
//! Options: `--frames N` per API and direction, `--seed S`, `--api NAME` for one API, `--threads N`.
//! Ends with 1 when a frame broke a promise, or when too few frames came as far as the codec; 2 for a bad option.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use anyhow::{Context, bail};
use kafka_2pc::wire::{
    api::Api,
    guard::{Direction, MEMORY_PER_BYTE, MEMORY_SLACK_BYTES},
};
use kafka_2pc_fuzz::run::{Outcome, run};

struct Options {
    frames: u64,
    seed: u64,
    apis: Vec<Api>,
    threads: usize,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("hostile-frames: {error:#}");
            return ExitCode::from(2);
        }
    };
    println!("{} frames per API and direction, seed {}", options.frames, options.seed);
    println!("bound: {MEMORY_PER_BYTE} x body + {MEMORY_SLACK_BYTES} bytes");
    println!(
        "{:<25} {:<9} {:>9} {:>9} {:>11} {:>10} {:>7}",
        "api", "direction", "frames", "decoded", "peak bytes", "peak/byte", "k"
    );
    let outcomes = run_all(&options);
    summary(&outcomes)
}

fn options(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<Options> {
    let mut options = Options { frames: 20_000, seed: 1, apis: Api::ALL.to_vec(), threads: 2 };
    while let Some(name) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--frames" => options.frames = value.parse().context("--frames")?,
            "--seed" => options.seed = value.parse().context("--seed")?,
            "--threads" => options.threads = value.parse().context("--threads")?,
            "--api" => {
                options.apis.retain(|api| api.name() == value);
                if options.apis.is_empty() {
                    bail!("no API is called {value}");
                }
            }
            _ => bail!("no option {name}; there are --frames, --seed, --api, --threads"),
        }
    }
    Ok(options)
}

/// Runs every API in both directions, and prints each row as soon as it is there.
fn run_all(options: &Options) -> Vec<Outcome> {
    let sides = [Direction::Request, Direction::Response];
    let jobs: Vec<_> = options.apis.iter().flat_map(|api| sides.map(|side| (*api, side))).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut outcomes = Vec::new();
        while let Some((api, direction)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = run(*direction, *api, options.frames, options.seed);
            println!("{}", row(&outcome));
            outcomes.push(outcome);
        }
        outcomes
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..options.threads.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    })
}

fn row(outcome: &Outcome) -> String {
    format!(
        "{:<25} {:<9} {:>9} {:>8.1}% {:>11} {:>10.1} {:>7.1}",
        outcome.api.name(),
        outcome.direction.to_string(),
        outcome.frames,
        outcome.passed_percent(),
        outcome.peak_bytes,
        outcome.peak_per_byte,
        outcome.needed_k,
    )
}

fn summary(outcomes: &[Outcome]) -> ExitCode {
    let most = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).fold(0.0, f64::max);
    let least = outcomes.iter().map(Outcome::passed_percent).fold(100.0, f64::min);
    let frames: u64 = outcomes.iter().map(|outcome| outcome.frames).sum();
    println!(
        "{frames} frames: no abort; least share decoded {least:.1} %, most memory per byte {:.1}, k {:.1}",
        most(|outcome| outcome.peak_per_byte),
        most(|outcome| outcome.needed_k),
    );
    let failures: Vec<_> = outcomes.iter().filter_map(Outcome::failure).collect();
    for failure in &failures {
        println!("FAILED {failure}");
    }
    if failures.is_empty() {
        println!("ok: no panic, nothing beyond the bound");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
