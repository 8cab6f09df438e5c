//! `bench-client`: our client under one workload, and the floor below which no client can go. Started by `bench-table`; the
//! words are those of [`Job`], the last line of output is an [`Outcome`].

mod floor;
mod ours;
mod sink;
mod two_phase;

use anyhow::{Result, bail};
use kafka_2pc_bench_child::{Job, Outcome, Runtime, Workload};

fn main() -> Result<()> {
    let job = Job::parse(std::env::args().skip(1))?;
    println!("{}", run(&job)?.line());
    Ok(())
}

fn run(job: &Job) -> Result<Outcome> {
    match (job.client.as_str(), job.workload) {
        ("floor", Workload::Produce) => floor::produce(job),
        ("kafka-2pc", Workload::Produce) => on(job, ours::produce(job)),
        ("kafka-2pc", Workload::Transactions) => on(job, ours::transactions(job)),
        ("kafka-2pc", Workload::Turns) => on(job, ours::turns(job)),
        ("kafka-2pc", Workload::Prepare) => on(job, two_phase::prepare(job)),
        ("kafka-2pc", Workload::Resume) => on(job, two_phase::resume(job)),
        ("kafka-2pc", Workload::FanOut) => on(job, two_phase::fan_out(job)),
        ("kafka-2pc", Workload::HandOver) => on(job, two_phase::hand_over(job)),
        ("kafka-2pc", Workload::Pool) => on(job, two_phase::pool(job)),
        ("kafka-2pc", Workload::Sink) => on(job, sink::run(job)),
        (client, workload) => bail!("{client} has no workload {workload}"),
    }
}

fn on(job: &Job, work: impl Future<Output = Result<Outcome>>) -> Result<Outcome> {
    let mut builder = match job.runtime {
        Runtime::Current => tokio::runtime::Builder::new_current_thread(),
        Runtime::Multi => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.enable_all().build()?.block_on(work)
}
