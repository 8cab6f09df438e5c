//! The promise, as a user would put it to the test: records that go through `kafka-2pc pipe` or `mirror` are in the topic exactly once, whatever is
//! killed on the way. The program runs as a child process; foreign clients read what it wrote.

mod codecs;
mod committables;
mod common_issues;
mod crash_points;
mod endurance;
mod input;
mod job;
mod keyed;
mod leaderless;
mod metrics;
mod mirror;
mod offsets;
mod older_state;
mod outages;
mod random;
mod rounds;
mod s3;
mod scenarios;
mod sheet;
mod topology;

use std::process::ExitCode;

use kafka_2pc_protocol_tests::harness::{self, Failure};

type Outcome = Result<(), Failure>;

fn main() -> ExitCode {
    let mut cases = crash_points::cases();
    cases.extend(rounds::cases());
    cases.extend(outages::cases());
    cases.extend(leaderless::cases());
    cases.extend(committables::cases());
    cases.extend(older_state::cases());
    cases.extend(offsets::cases());
    cases.extend(mirror::cases());
    cases.extend(topology::cases());
    cases.extend(sheet::cases());
    cases.extend(codecs::cases());
    cases.extend(scenarios::cases());
    cases.extend(s3::cases());
    cases.extend(common_issues::cases());
    cases.extend(endurance::cases());
    harness::main(cases)
}
