//! `bench-table`: every row of the table of numbers, in one command. Our client and others run as child processes against a
//! broker that keeps nothing; what is compared is a ratio inside one round.
//!
//! ```text
//! cargo build --release -p kafka-2pc-benches
//! (cd benches/peers && cargo build --release)
//! cargo run --release -p kafka-2pc-benches --bin bench-table
//! ```

mod instructions;
mod options;
mod overhead;
mod plot;
mod real;
mod report;
mod rows;
mod run;
mod scenario;

use std::{
    collections::BTreeMap,
    fs::File,
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use kafka_2pc_bench_child::Job;
use serde_json::Value;

use options::{Options, USAGE};
use report::Row;
use rows::{SPECS, Spec};
use run::{Measured, Programs, Runs};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let options = match Options::parse(words) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("bench-table: {error:#}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match table(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-table: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn table(options: &Options) -> Result<()> {
    let began = Instant::now();
    let programs = Programs::find(options)?;
    // Before anything is measured that could not be kept.
    [&options.json, &options.svg].into_iter().flatten().try_for_each(|path| writable(path))?;
    options.real.iter().filter(|real| *real != "start").try_for_each(|real| reachable(real))?;
    settings(options);
    let mut rows = null_rows(options, &programs);
    rows.extend(instructions::rows(&programs, options));
    rows.extend(overhead::rows(&programs, options));
    rows.extend(real::rows(options, &programs));
    println!("\n{:<3} {:<52} {:>9} {:>17}   {:<14}", "", "", "median", "min..max", "must (stretch)");
    for row in &rows {
        println!("{}", row.line());
    }
    println!("\n{}; {:.0} s", report::summary(&rows), began.elapsed().as_secs_f64());
    if let Some(path) = &options.json {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        std::fs::write(path, Value::from(rows).to_string()).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &options.svg {
        let note = format!("{} rounds on {}", options.rounds, machine());
        std::fs::write(path, plot::svg(&rows, &note)).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn writable(path: &Path) -> Result<()> {
    let opened = File::options().append(true).create(true).open(path);
    opened.map(drop).with_context(|| path.display().to_string())
}

/// Somebody answers there.
fn reachable(bootstrap: &str) -> Result<()> {
    let answers = |address: SocketAddr| TcpStream::connect_timeout(&address, Duration::from_secs(5)).is_ok();
    let server = |server: &str| server.trim().to_socket_addrs().is_ok_and(|mut all| all.any(answers));
    ensure!(bootstrap.split(',').any(server), "--real {bootstrap}: nobody can be connected to there");
    Ok(())
}

/// Where it ran.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    format!("{cores} shared cores ({})", model.unwrap_or("unknown"))
}

fn settings(options: &Options) {
    let job = Job::default();
    println!(
        "{} rounds, order rotated; {}\n\
         all: acks=all, idempotent (rskafka is not), batch.size {}, linger.ms {}, buffer.memory {} MiB, \
         max.in.flight {}, async clients on the {} runtime\n\
         BaseProducer, 1 MB has batch.size 1000000; librdkafka's transactions have \
         linger.ms 0; the broker is in this process",
        options.rounds,
        machine(),
        job.batch_bytes,
        job.linger.as_millis(),
        job.buffer_bytes >> 20,
        job.in_flight,
        options.runtime,
    );
}

/// Every scenario that a wanted row needs is run once, however many rows it has.
fn null_rows(options: &Options, programs: &Programs) -> Vec<Row> {
    let wanted: Vec<&Spec> = SPECS.iter().filter(|spec| options.wants(spec.id)).collect();
    let mut done: BTreeMap<&str, Runs> = BTreeMap::new();
    for spec in &wanted {
        if !done.contains_key(spec.scenario) {
            let scenario = scenario::scenario(spec.scenario, options.size);
            done.insert(spec.scenario, run::rounds(&scenario, programs, options));
        }
    }
    requests(&done);
    wanted.iter().map(|spec| row(spec, &done[spec.scenario])).collect()
}

/// What a transaction asks of the broker, on average, with what connecting and the first identity cost.
fn requests(done: &BTreeMap<&str, Runs>) {
    for (scenario, runs) in done {
        for (contender, runs) in runs {
            let Some(run) = runs.as_ref().ok().and_then(|runs| runs.last()) else { continue };
            let transactions = run.outcome.transactions;
            if transactions > 0 {
                let each = run.counters.requests.iter().map(|(api, count)| {
                    format!("{api} {}", report::short(*count as f64 / transactions as f64))
                });
                let each: Vec<String> = each.collect();
                println!("requests by transaction, {scenario}, {}: {}", contender.name(), each.join(", "));
            }
        }
    }
}

fn row(spec: &Spec, runs: &Runs) -> Row {
    let of = match runs.get(&spec.of) {
        Some(Ok(runs)) => runs,
        Some(Err(reason)) => return Row::missing(spec.id, spec.text(), reason.clone()),
        None => return Row::missing(spec.id, spec.text(), "nobody ran it".into()),
    };
    let value = |run: &Measured| spec.metric.of(run);
    let values = match spec.against.map(|peer| runs.get(&peer)) {
        None => of.iter().map(value).collect(),
        Some(Some(Ok(peer))) => of.iter().zip(peer).map(|(own, other)| value(own) / value(other)).collect(),
        Some(Some(Err(reason))) => return Row::missing(spec.id, spec.text(), reason.clone()),
        Some(None) => Vec::new(),
    };
    Row::measured(spec.id, spec.text(), spec.goal, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_scenario_and_its_clients() {
        for spec in SPECS {
            let scenario = scenario::scenario(spec.scenario, options::Size::Quick);
            assert_eq!(scenario.id, spec.scenario);
            assert!(scenario.contenders.contains(&spec.of), "{}", spec.text());
            assert!(spec.against.is_none_or(|peer| scenario.contenders.contains(&peer)), "{}", spec.text());
        }
    }
}
