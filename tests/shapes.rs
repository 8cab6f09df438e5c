//! The guard's table is what Kafka's schemas say: written again from the kafka-clients jar and compared.
//!
//! Without the jar (or Python) the test is reported as ignored; with `REQUIRE_KAFKA=1` that is a failure.
//! `tools/shapes.py --fetch --check` gets the jar by Maven.

use std::{
    path::Path,
    process::{Command, ExitCode, Output},
};

use libtest_mimic::{Arguments, Failed, Trial};

const TEST: &str = "the_table_is_what_the_schemas_of_kafka_say";

fn main() -> ExitCode {
    let is_required = std::env::var("REQUIRE_KAFKA").is_ok_and(|value| value == "1");
    let missing = shapes("--locate").err().filter(|_| !is_required);
    if let Some(why) = &missing {
        eprintln!("IGNORED {TEST}: {why}");
    }
    let trial = Trial::test(TEST, compare).with_ignored_flag(missing.is_some());
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

fn compare() -> Result<(), Failed> {
    shapes("--check").map_err(Failed::from)
}

fn shapes(argument: &str) -> Result<(), String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/shapes.py");
    match Command::new("python3").arg(script).arg(argument).output() {
        Ok(Output { status, .. }) if status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("python3: {error}")),
    }
}
