//! `bench-restart`: how long it takes from the start of a `kafka-2pc pipe`, whose predecessor was killed, until it writes and
//! until a reader of committed records sees the first new one.
//!
//! ```text
//! cargo build --release --features cli --bin kafka-2pc && cargo build -p kafka-2pc-protocol-tests --bin kafka-cluster
//! cargo run --release -p kafka-2pc-benches --bin bench-restart -- [--quick] [--rounds 7] [--real start|HOST:PORT]
//! ```
//! Each round is a job of its own, which kills itself with SIGKILL at a named step (`KAFKA_2PC_CRASH`) and is started again.
//! New is what comes behind the newest complete checkpoint.

mod reader;
mod round;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, bail};
use kafka_2pc_benches::{
    cluster::{Cluster, program},
    measure::Sample,
};
use round::{Left, Round, Took};

const USAGE: &str = "\
usage: bench-restart [--quick] [--rounds N] [--real start|HOST:PORT]

  --quick    one round of each, and one interval
  --rounds   rounds of each  (7)
  --real     the cluster: start begins one node of transaction.version 2, and then one of 1  (start)

KAFKA_2PC_BIN and KAFKA_CLUSTER name the programs if they are not built beside this one.";

/// Between two checkpoints, in milliseconds: the first one comes so long after the start, as in Flink.
const INTERVALS: [u32; 2] = [100, 500];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => match bench(&options).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("bench-restart: {error:#}");
                ExitCode::FAILURE
            }
        },
        Ok(None) => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench-restart: {error:#}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

struct Options {
    rounds: usize,
    intervals: Vec<u32>,
    real: String,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let mut options = Self { rounds: 7, intervals: INTERVALS.to_vec(), real: "start".to_owned() };
        while let Some(name) = words.next() {
            let mut value = || words.next().with_context(|| format!("{name}: its value is missing"));
            match name.as_str() {
                "--help" | "-h" => return Ok(None),
                "--quick" => (options.rounds, options.intervals) = (1, vec![INTERVALS[0]]),
                "--rounds" => options.rounds = value()?.parse()?,
                "--real" => options.real = value()?,
                _ => bail!("{name}: no such option"),
            }
        }
        Ok(Some(options))
    }

    /// What is measured on: a name, and how to get it.
    fn clusters(&self) -> Vec<(&str, Vec<&str>)> {
        match self.real.as_str() {
            "start" => {
                vec![("V2", vec!["--transaction-version", "2"]), ("V1", vec!["--transaction-version", "1"])]
            }
            address => vec![(address, Vec::new())],
        }
    }
}

async fn bench(options: &Options) -> Result<()> {
    let pipe: PathBuf = program("kafka-2pc", "KAFKA_2PC_BIN")?;
    println!("milliseconds from exec, medians of {} rounds (smallest to largest)", options.rounds);
    for (name, words) in options.clusters() {
        let cluster = Cluster::start(&options.real, &words)?;
        for left in [Left::Prepared, Left::Open] {
            for interval in &options.intervals {
                let mut all = Vec::new();
                for _ in 0..options.rounds {
                    let round =
                        Round { pipe: &pipe, bootstrap: &cluster.bootstrap, left, interval_ms: *interval };
                    all.push(round.run().await?);
                }
                let what = format!("{name}, {left}, a checkpoint every {interval} ms");
                println!("{what:<50}{}", columns(&all));
            }
        }
    }
    Ok(())
}

fn columns(all: &[Took]) -> String {
    let column = |name: &str, of: fn(&Took) -> f64| {
        let sample = Sample::new(all.iter().map(of).collect());
        format!("  {name} {:.0} ({:.0} to {:.0})", sample.median(), sample.min(), sample.max())
    };
    [
        column("recovered", |took| took.recovered),
        column("first record written", |took| took.written),
        column("visible", |took| took.visible),
    ]
    .concat()
}
