//! The launcher, the foreign clients, the producer, and the embedded broker's own tests, on real Apache Kafka.

mod foreign;
mod launcher;
mod producer;
mod semantics;

use std::process::ExitCode;

use kafka_2pc_protocol_tests::harness::{self, Size};
use kafka_2pc_protocol_tests::kafka::Spec;

fn main() -> ExitCode {
    let mut cases = launcher::cases();
    cases.extend(foreign::cases());
    cases.extend(semantics::cases());
    cases.extend(producer::cases());
    harness::main(cases)
}

/// The versions and levels on which the basics must hold; with `KAFKA_2PC_SIZE=full` one of each minor version that matters.
fn versions() -> Vec<Spec> {
    let mut specs = vec![Spec::default(), Spec::default().transaction_version(1), Spec::new("3.9.2")];
    if Size::from_env() == Size::Full {
        specs.push(Spec::default().transaction_version(0));
        specs.extend(["3.3.2", "3.5.2", "4.0.2", "4.1.2", "4.2.2", "4.3.1"].map(Spec::new));
    }
    specs
}
