//! `bench-read`: what it costs to read a record through the consumer, from an embedded broker in a process of its own:
//! processor nanoseconds of the reader, and its instructions, by callgrind if it is there.
//!
//! ```text
//! cargo run --release -p kafka-2pc-benches --bin bench-read -- [--quick]
//! ```

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use kafka_2pc::{
    client::{Client, ClientConfig, Start},
    ids::{TopicPartition, TransactionalId},
    record::{Compression, RecordRef},
};
use kafka_2pc_benches::{
    measure::cpu_time,
    options::Options,
    server::{SERVE, Server, serve},
};

const USAGE: &str = "usage: bench-read [--quick]";
/// The word that makes this program the reader.
const READ: &str = "read";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [SERVE, rest @ ..] => serve(&rest.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).await,
        [READ, bootstrap, records] => read(bootstrap, records).await,
        [] => bench(1_000_000).await,
        ["--quick"] => bench(50_000).await,
        _ => Err(anyhow::anyhow!("{USAGE}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-read: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn bench(records: u64) -> Result<()> {
    for (bytes, compression) in [(100, Compression::None), (1024, Compression::None), (100, Compression::Lz4)]
    {
        let server = Server::start(&Options { partitions: 1, ..Options::default() })?;
        write(&server.bootstrap, records, bytes, compression).await?;
        let nanoseconds = reader(&[], &server.bootstrap, records)?;
        let what = format!("{bytes} B, {compression}");
        match instructions(&server.bootstrap, records) {
            Ok(count) => println!("{what:<16} {nanoseconds:>8.1} CPU ns a record, {count:>8.1} instructions"),
            Err(error) => {
                println!("{what:<16} {nanoseconds:>8.1} CPU ns a record, no instructions: {error:#}")
            }
        }
    }
    Ok(())
}

async fn write(bootstrap: &str, records: u64, bytes: usize, compression: Compression) -> Result<()> {
    let client = Client::new(ClientConfig::new(bootstrap)?);
    let topic = client.topic("bench").await?;
    let producer = client.transactional_producer(TransactionalId::new("w")).compression(compression);
    let mut transaction = producer.init().await?.begin();
    let value: Vec<u8> = (b'a'..=b'z').cycle().take(bytes).collect();
    for _ in 0..records {
        transaction.send(&topic, Some(0), RecordRef::value(&value)).await?;
    }
    transaction.commit().await.map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(())
}

/// Is the reader: tells its processor nanoseconds.
async fn read(bootstrap: &str, records: &str) -> Result<()> {
    let (records, mut seen): (usize, usize) = (records.parse()?, 0);
    let client = Client::new(ClientConfig::new(bootstrap)?);
    let mut consumer = client.consumer().build();
    consumer.assign([(TopicPartition::new("bench", 0), Start::Beginning)]);
    let before = cpu_time();
    let mut bytes = 0;
    while seen < records {
        let batch = consumer.next_batch().await?;
        seen += batch.len();
        bytes += batch.iter().filter_map(|r| r.record.value.as_ref()).map(|value| value.len()).sum::<usize>();
    }
    ensure!(bytes > 0, "the records are empty");
    println!("{}", (cpu_time() - before).as_nanos());
    Ok(())
}

/// Starts a reader, behind other words if there are any; its nanoseconds a record.
fn reader(before: &[&str], bootstrap: &str, records: u64) -> Result<f64> {
    Ok(output(before, bootstrap, records)?.0 / records as f64)
}

/// What a reader prints, as a number, and what is told about it.
fn output(before: &[&str], bootstrap: &str, records: u64) -> Result<(f64, String)> {
    let this = std::env::current_exe()?.display().to_string();
    let records = records.to_string();
    let all: Vec<&str> = before.iter().copied().chain([&*this, READ, bootstrap, &records]).collect();
    let [program, words @ ..] = all.as_slice() else { bail!("no program") };
    let output =
        Command::new(program).args(words).stdin(Stdio::null()).output().context(program.to_string())?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "the reader failed: {told}");
    Ok((String::from_utf8_lossy(&output.stdout).trim().parse()?, told))
}

/// Instructions of a record: the difference of two runs, so that the start of the program does not count.
fn instructions(bootstrap: &str, records: u64) -> Result<f64> {
    let valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let counted = |records| {
        let (_, told) = output(&valgrind, bootstrap, records)?;
        let line = told.lines().find_map(|line| line.split_once("Collected :"));
        let (_, count) = line.with_context(|| format!("callgrind told no count: {told}"))?;
        anyhow::Ok(count.trim().parse::<f64>()?)
    };
    let (few, many) = (records / 10, records / 2);
    Ok((counted(many)? - counted(few)?) / (many - few) as f64)
}
