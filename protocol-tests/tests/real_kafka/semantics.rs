//! What keeps the embedded broker honest: the bodies of its tests, on Apache Kafka.

use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground};
use kafka_2pc_protocol_tests::kafka::{self, Spec};
use kafka_2pc_protocol_tests::program::library_test;

pub(crate) fn cases() -> Vec<Case> {
    let levels = [2, 1, 0].map(|level| Spec::default().transaction_version(level));
    let every = levels
        .into_iter()
        .map(|spec| Case::clients("a_coordinators_tables_are_those_of_the_embedded_broker", spec, tables));
    let mut cases: Vec<_> = every.collect();
    // What these send leaves ids unusable at level 0.
    cases.extend([2, 1].map(|level| {
        let spec = Spec::default().transaction_version(level);
        Case::clients("transactions_and_logs_are_those_of_the_embedded_broker", spec, semantics)
    }));
    for (spec, profile) in [(Spec::default(), "kafka-4.4"), (Spec::new("3.9.2"), "kafka-3.9")] {
        let body = move |ground: &Ground| codecs(ground, profile);
        cases.push(Case::clients("compressed_batches_are_treated_as_by_the_embedded_broker", spec, body));
    }
    cases
}

fn tables(ground: &Ground) -> Result<(), Failure> {
    run(ground, "broker_cells")
}

fn semantics(ground: &Ground) -> Result<(), Failure> {
    run(ground, "broker_semantics")
}

fn codecs(ground: &Ground, profile: &str) -> Result<(), Failure> {
    let told = [("KAFKA_2PC_BOOTSTRAP", ground.bootstrap()), ("KAFKA_2PC_PROFILE", profile)];
    library_test("broker_codecs", &told)?;
    Ok(())
}

fn run(ground: &Ground, name: &str) -> Result<(), Failure> {
    let level = kafka::transaction_version(ground.bootstrap())?.to_string();
    library_test(name, &[("KAFKA_2PC_BOOTSTRAP", ground.bootstrap()), ("KAFKA_2PC_LEVEL", level.as_str())])?;
    Ok(())
}
