//! The launcher and the foreign clients, on real Apache Kafka.

mod foreign;
mod launcher;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut cases = launcher::cases();
    cases.extend(foreign::cases());
    kafka_2pc_protocol_tests::harness::main(cases)
}
