//! `bench-transactions`: records a second, processor time, and latencies of prepare, commit and settled, through the
//! public client, on any cluster.
//!
//! ```text
//! cargo run --release -p kafka-2pc-benches --bin bench-transactions
//! cargo run --release -p kafka-2pc-benches --bin bench-transactions -- --bootstrap localhost:9092 --topic bench --json
//! ```

use std::process::ExitCode;

use anyhow::Result;
use kafka_2pc_benches::{
    measure::{Sample, peak_memory_bytes},
    options::{Options, Output, USAGE},
    server::{SERVE, Server, serve},
    workload::{Bench, Latency, Throughput},
};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        Some("--help" | "-h") => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some(SERVE) => serve(&words[1..]).await,
        _ => match Options::parse(words) {
            Ok(options) => bench(options).await,
            Err(error) => {
                eprintln!("bench-transactions: {error:#}\n{USAGE}");
                return ExitCode::from(2);
            }
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-transactions: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn bench(options: Options) -> Result<()> {
    let server = match &options.bootstrap {
        None => Some(Server::start(&options)?),
        Some(_) => None,
    };
    let bootstrap = server.as_ref().map(|server| server.bootstrap.clone()).or(options.bootstrap.clone());
    let mut bench = Bench::new(&bootstrap.unwrap_or_default(), options.clone()).await?;
    let throughput = bench.throughput().await?;
    let latency = bench.latency().await?;
    match options.output {
        Output::Text => text(&options, bench.partitions(), &throughput, &latency),
        Output::Json => println!("{}", object(&options, bench.partitions(), &throughput, &latency)),
    }
    Ok(())
}

fn text(options: &Options, partitions: i32, throughput: &Throughput, latency: &Latency) {
    println!(
        "{} records of {} bytes on {partitions} partition(s), {} a transaction, {} rounds, {}",
        options.records,
        options.record_bytes,
        options.transaction_records,
        options.rounds,
        options.compression
    );
    let row = |name: &str, sample: &Sample, digits: usize| {
        println!(
            "  {name:<22} median {:>10.digits$}   min {:>10.digits$}   max {:>10.digits$}",
            sample.median(),
            sample.min(),
            sample.max()
        );
    };
    row("records/s", &throughput.records_per_second, 0);
    row("CPU s per million", &throughput.cpu_seconds_per_million, 3);
    if options.transactions > 0 {
        println!("{} transactions of {} records", options.transactions, options.small_records);
        for (name, sample) in spans(latency) {
            println!("  {name:<22} p50 {:>8.2} ms   p99 {:>8.2} ms", sample.median(), sample.percentile(99));
        }
    }
    if let Some(bytes) = peak_memory_bytes() {
        println!("peak memory {:.1} MiB", bytes as f64 / f64::from(1 << 20));
    }
}

fn spans(latency: &Latency) -> [(&'static str, &Sample); 3] {
    [("prepare", &latency.prepare_ms), ("commit", &latency.commit_ms), ("settled", &latency.settled_ms)]
}

fn object(options: &Options, partitions: i32, throughput: &Throughput, latency: &Latency) -> Value {
    let spread =
        |sample: &Sample| json!({"median": sample.median(), "min": sample.min(), "max": sample.max()});
    let mut result = json!({
        "records": options.records,
        "record_bytes": options.record_bytes,
        "partitions": partitions,
        "transaction_records": options.transaction_records,
        "rounds": options.rounds,
        "compression": options.compression.name(),
        "records_per_second": spread(&throughput.records_per_second),
        "cpu_seconds_per_million": spread(&throughput.cpu_seconds_per_million),
        "transactions": options.transactions,
        "small_records": options.small_records,
        "peak_memory_bytes": peak_memory_bytes(),
    });
    for (name, sample) in spans(latency) {
        result[format!("{name}_ms")] = json!({"p50": sample.median(), "p99": sample.percentile(99)});
    }
    result
}
