//! `bench-peers`: other people's clients under the same workloads as ours. Started by `bench-table`; the words are those of
//! [`Job`], the last line of output is an [`Outcome`].

mod krafka_client;
mod rdkafka_client;
mod rskafka_client;

use anyhow::{Result, bail};
use kafka_2pc_bench_child::{Job, Outcome, Runtime, Workload};

fn main() -> Result<()> {
    let job = Job::parse(std::env::args().skip(1))?;
    println!("{}", run(&job)?.line());
    Ok(())
}

fn run(job: &Job) -> Result<Outcome> {
    match (job.client.as_str(), job.workload) {
        ("base", Workload::Produce) => rdkafka_client::base(job),
        ("future", Workload::Produce) => on(job, rdkafka_client::future(job)),
        ("raw" | "safe", Workload::Transactions | Workload::Turns) => rdkafka_client::transactions(job),
        ("krafka", Workload::Produce) => on(job, krafka_client::produce(job)),
        ("krafka", Workload::Transactions) => on(job, krafka_client::transactions(job)),
        ("rskafka", Workload::Produce) => on(job, rskafka_client::produce(job)),
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
