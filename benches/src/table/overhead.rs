//! T8: what transactions cost beside our own producer without them, in instructions counted by callgrind.

use anyhow::{Context, Result};
use kafka_2pc_bench_child::{Job, Workload};
use kafka_2pc_benches::null::{NullBroker, Settings};
use std::{process::Command, time::Duration};

use crate::{
    instructions::counted,
    options::Options,
    report::Row,
    rows::Goal,
    run::{Programs, settings},
    scenario::Contender,
};

const RECORD_BYTES: usize = 1024;

/// Records of a transaction: what 100 ms hold at about the full rate.
const RECORDS: u64 = 100_000;

pub(crate) fn rows(programs: &Programs, options: &Options) -> Vec<Row> {
    const ID: &str = "T8";
    if !options.wants(ID) {
        return Vec::new();
    }
    let what = "instructions, transactions of 100,000 records / without, 1 KiB";
    match costs(programs, options) {
        Ok((transactions, without)) => vec![
            Row::measured(ID, what.into(), Goal::AtMost(1.05, 1.02), vec![transactions / without]),
            Row::measured(ID, "  instructions per record, without".into(), Goal::Shown, vec![without]),
        ],
        Err(error) => vec![Row::missing(ID, what.into(), format!("{error:#}"))],
    }
}

/// Instructions of a record, in transactions and without.
fn costs(programs: &Programs, options: &Options) -> Result<(f64, f64)> {
    // A program that is counted runs fifty times slower: batches must not be closed by the clock.
    let job = Job { record_bytes: RECORD_BYTES, linger: Duration::from_secs(3600), ..Job::default() };
    let transactions = |transactions| Job {
        workload: Workload::Transactions,
        records: RECORDS,
        transactions,
        ..job.clone()
    };
    let without = |records| Job { workload: Workload::Produce, records, ..job.clone() };
    let instructions = |job| instructions(job, programs, options);
    // The difference of two runs, so that the start of the program does not count.
    let each = |few: f64, many: f64| (many - few) / RECORDS as f64;
    Ok((
        each(instructions(transactions(1))?, instructions(transactions(2))?),
        each(instructions(without(RECORDS))?, instructions(without(2 * RECORDS))?),
    ))
}

fn instructions(job: Job, programs: &Programs, options: &Options) -> Result<f64> {
    let broker = NullBroker::start(Settings { transaction_version: 2, ..Settings::default() })?;
    let job = settings(Job { bootstrap: broker.bootstrap(), ..job }, Contender::Ours, options)?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(&programs.client)
        .args(job.words())
        .output()
        .context("valgrind, which counts instructions, is not installed")?;
    counted(&output)
}
