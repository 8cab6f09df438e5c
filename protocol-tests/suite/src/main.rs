//! Runs the conformance rows, on the brokers of this machine or on yours, and reports.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use kafka_2pc_protocol_tests::kafka;
use protocol_tests::arm::{Arm, Given};
use protocol_tests::incidents;
use protocol_tests::outcome::{Failure, Outcome};
use protocol_tests::report::{self, Report};
use protocol_tests::run::{self, Finding, Runner};
use protocol_tests::table::{self, Entry};

#[derive(Debug, Parser)]
#[command(
    name = "protocol-tests",
    about = "What a transactional Kafka client and a two-phase sink must show"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the rows.
    List,
    /// Runs rows on a cluster that runs already. It creates topics and transactional ids of its own.
    Run {
        /// `bootstrap.servers`.
        #[arg(long, env = "KAFKA_BOOTSTRAP")]
        bootstrap: String,
        /// The embedded broker's profile whose traces it is compared with, such as `kafka-4.4` or `redpanda`.
        #[arg(long)]
        profile: Option<String>,
        /// Only rows whose id begins with this, such as `G` or `G16`. Several are possible.
        #[arg(long)]
        filter: Vec<String>,
        /// Where the report is written.
        #[arg(long, default_value = "conformance")]
        out: PathBuf,
    },
    /// Runs rows on every arm that can be started here, and writes the report.
    Report {
        /// Only arms whose name contains this, such as `embedded` or `4.4.0`. Several are possible.
        #[arg(long)]
        arm: Vec<String>,
        /// Only rows whose id begins with this.
        #[arg(long)]
        filter: Vec<String>,
        /// Where the report is written.
        #[arg(long, default_value = "conformance")]
        out: PathBuf,
    },
}

fn main() -> ExitCode {
    if let Some(code) = protocol_tests::writer::if_asked() {
        return code;
    }
    match act(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("error: {}", Outcome::from(Err(failure)).why());
            ExitCode::from(2)
        }
    }
}

fn act(command: Command) -> Result<bool, Failure> {
    let entries = table::entries()?;
    match command {
        Command::List => {
            for row in entries {
                println!("{}  {:?}  {}", row.id, row.place, row.behaviour);
            }
            Ok(true)
        }
        Command::Run { bootstrap, profile, filter, out } => {
            let level = u8::try_from(kafka::transaction_version(&bootstrap)?.max(0))?;
            let brokers = kafka::broker_count(&bootstrap)?;
            let arms = [Arm::Given(Given { bootstrap, profile, level, brokers })];
            all(&arms, &entries, &filter, &out)
        }
        Command::Report { arm, filter, out } => {
            let mut arms = Arm::all();
            arms.retain(|known| arm.is_empty() || arm.iter().any(|part| known.to_string().contains(part)));
            if arms.is_empty() {
                return Err(Failure::wrong("no arm has such a name"));
            }
            all(&arms, &entries, &filter, &out)
        }
    }
}

/// Runs and reports; true if nothing failed.
fn all(arms: &[Arm], entries: &[Entry], filter: &[String], out: &std::path::Path) -> Result<bool, Failure> {
    let chosen =
        |row: &&Entry| filter.is_empty() || filter.iter().any(|part| row.id.starts_with(part.as_str()));
    let runner = Runner::default();
    let mut findings: Vec<Finding> = Vec::new();
    for arm in arms {
        let mut of_arm = Vec::new();
        for row in entries.iter().filter(chosen).filter(|row| arm.is_for(row)) {
            let finding = runner.run(row, arm);
            println!(
                "{:<22} {:<4} {:<11} {:>6} ms  {}",
                finding.arm,
                finding.row,
                finding.outcome.word(),
                finding.millis,
                finding.outcome.why()
            );
            std::io::stdout().flush()?;
            of_arm.push(finding);
        }
        run::keep(arm, &of_arm)?;
        findings.extend(of_arm);
    }
    let incidents = incidents::all()?;
    let report = Report::new(arms.iter().map(Arm::to_string).collect(), entries, &incidents, &findings);
    report::write(&report, out)?;
    println!("\n{}", report.summary());
    println!("written: {0}.md, {0}.html", out.display());
    Ok(!findings.iter().any(|finding| matches!(finding.outcome, Outcome::Fail(_))))
}
