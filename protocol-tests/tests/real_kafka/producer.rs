//! The producer without transactions on real Kafka, read by others.

use kafka_2pc_protocol_tests::foreign::{Library, Reading, Record};
use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground};
use kafka_2pc_protocol_tests::kafka::{Spec, Topic, create_topic};
use kafka_2pc_protocol_tests::program::library_test;

pub(crate) fn cases() -> Vec<Case> {
    let body = |ground: &Ground| producer(ground);
    [Spec::default(), Spec::new("3.9.2")]
        .map(|spec| Case::clients("a_producer_without_transactions_writes_once_and_in_order", spec, body))
        .into()
}

fn producer(ground: &Ground) -> Result<(), Failure> {
    let topic = Topic {
        configs: vec![("max.message.bytes".into(), "10000".into())],
        ..Topic::new(&ground.fresh("producer"), 2)
    };
    create_topic(ground.bootstrap(), &topic)?;
    let told = [("KAFKA_2PC_BOOTSTRAP", ground.bootstrap()), ("KAFKA_2PC_TOPIC", topic.name.as_str())];
    library_test("producer_anywhere", &told)?;
    let venv = ground.foreign()?;
    for library in Library::ALL {
        let read = venv.read(&Reading::committed(library, ground.bootstrap(), &topic.name))?;
        for partition in [0, 1] {
            let number = |r: &Record| r.text().get(..5).and_then(|n| n.parse::<i32>().ok());
            let found: Vec<_> = read.iter().filter(|r| r.partition == partition).map(number).collect();
            let expected: Vec<_> = (0..240).filter(|n| n % 2 == partition && *n != 50).map(Some).collect();
            Failure::unless_equal("numbers of a partition", found, expected)?;
        }
    }
    Ok(())
}
