//! What foreign clients see of each other's transactions: the ground on which they judge ours.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use kafka_2pc_protocol_tests::foreign::{Comparison, End, Isolation, Library, Reading, Step, Venv, Writing};
use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground};
use kafka_2pc_protocol_tests::kafka::{ConsoleRead, Spec, Topic, create_topic};
use tempfile::TempDir;

use crate::versions;

type Outcome = Result<(), Failure>;

pub(crate) fn cases() -> Vec<Case> {
    let v2 = Spec::default;
    let mut cases = Vec::new();
    for spec in versions() {
        cases.push(Case::clients("committed_is_seen_and_aborted_is_not", spec, committed_and_aborted));
    }
    cases.extend([
        Case::clients("an_open_transaction_hides_what_follows_until_it_is_fenced", v2(), fence_and_replay),
        Case::clients("a_held_transaction_is_committed_when_told", v2(), held_commit),
        Case::clients("a_fenced_writer_can_not_commit", v2(), fenced_commit),
        Case::clients("every_codec_is_read_by_both_libraries", v2(), codecs),
        Case::clients("a_comparison_counts_each_kind_of_difference", v2(), differences),
        Case::clients("a_hundred_thousand_lines_are_compared_in_seconds", v2(), many_lines),
        Case::clients("kafkas_own_tools_see_the_same", v2(), own_tools),
        Case::nodes("a_fence_while_a_partition_has_no_leader_doubles_records", v2().nodes(3), hanging_fence),
    ]);
    cases
}

/// The values both libraries read, which must agree on everything.
fn values(ground: &Ground, venv: &Venv, topic: &str, isolation: Isolation) -> Result<Vec<String>, Failure> {
    let [one, other] = Library::ALL.map(|library| {
        let reading = Reading { isolation, ..Reading::committed(library, ground.bootstrap(), topic) };
        venv.read(&reading)
    });
    let (one, other) = (one?, other?);
    Failure::unless_equal("aiokafka against librdkafka", &other, &one)?;
    Ok(one.iter().map(|record| record.text()).collect())
}

fn expect(found: Vec<String>, prefixes: &[&str], each: usize) -> Outcome {
    let distinct: BTreeSet<_> = found.iter().cloned().collect();
    let expected: BTreeSet<_> = prefixes
        .iter()
        .flat_map(|prefix| (0..each).map(move |number| format!("{prefix}-{number}")))
        .collect();
    Failure::unless_equal("values", &distinct, &expected)?;
    Failure::unless_equal("number of values", found.len(), expected.len())
}

fn committed_and_aborted(ground: &Ground) -> Outcome {
    let (venv, topic, id) = (ground.foreign()?, ground.topic("round-trip", 3)?, ground.fresh("writer"));
    let writing = Writing::new(ground.bootstrap(), &topic, &id);
    let steps = venv.write(&Writing { prefix: "yes", transactions: 2, ..writing.clone() }, End::Commit)?;
    Failure::unless_equal("commits", steps.iter().filter(|step| **step == Step::Committed).count(), 2)?;
    let steps = venv.write(&Writing { prefix: "no", ..writing }, End::Abort)?;
    Failure::unless_equal("the last step", steps.last(), Some(&Step::Aborted))?;
    expect(values(ground, &venv, &topic, Isolation::Committed)?, &["yes"], 10)?;
    expect(values(ground, &venv, &topic, Isolation::Uncommitted)?, &["yes", "no"], 10)
}

fn fence_and_replay(ground: &Ground) -> Outcome {
    let (venv, topic) = (ground.foreign()?, ground.topic("fence", 1)?);
    let (dead, other) = (ground.fresh("dead"), ground.fresh("other"));
    let leaving = Writing { prefix: "again", ..Writing::new(ground.bootstrap(), &topic, &dead) };
    let following = Writing { prefix: "after", ..Writing::new(ground.bootstrap(), &topic, &other) };
    let steps = venv.write(&leaving, End::Open)?;
    Failure::unless_equal("the last step", steps.last(), Some(&Step::LeftOpen))?;
    venv.write(&following, End::Commit)?;
    expect(values(ground, &venv, &topic, Isolation::Committed)?, &[], 10)?;
    venv.write(&leaving, End::Commit)?;
    expect(values(ground, &venv, &topic, Isolation::Committed)?, &["after", "again"], 10)
}

fn held_commit(ground: &Ground) -> Outcome {
    let (venv, topic, id) = (ground.foreign()?, ground.topic("held", 2)?, ground.fresh("holder"));
    let held = venv.hold(&Writing::new(ground.bootstrap(), &topic, &id))?;
    expect(values(ground, &venv, &topic, Isolation::Committed)?, &[], 10)?;
    expect(values(ground, &venv, &topic, Isolation::Uncommitted)?, &["value"], 10)?;
    Failure::unless_equal("the last step", held.commit()?.pop(), Some(Step::Committed))?;
    expect(values(ground, &venv, &topic, Isolation::Committed)?, &["value"], 10)
}

fn fenced_commit(ground: &Ground) -> Outcome {
    let (venv, topic, id) = (ground.foreign()?, ground.topic("fenced", 1)?, ground.fresh("rival"));
    let writing = Writing::new(ground.bootstrap(), &topic, &id);
    let held = venv.hold(&Writing { prefix: "old", ..writing.clone() })?;
    venv.write(&Writing { prefix: "new", ..writing }, End::Commit)?;
    let last = held.commit()?.pop();
    Failure::unless(matches!(last, Some(Step::Failed { .. })), format!("a fenced writer said {last:?}"))?;
    expect(values(ground, &venv, &topic, Isolation::Committed)?, &["new"], 10)
}

fn codecs(ground: &Ground) -> Outcome {
    let (venv, topic, id) = (ground.foreign()?, ground.topic("codecs", 2)?, ground.fresh("codecs"));
    let codecs = ["none", "gzip", "snappy", "lz4", "zstd"];
    for codec in codecs {
        let writing = Writing::new(ground.bootstrap(), &topic, &id);
        venv.write(&Writing { prefix: codec, compression: codec, ..writing }, End::Commit)?;
    }
    expect(values(ground, &venv, &topic, Isolation::Committed)?, &codecs, 10)
}

/// A file of these lines, each with a line end.
fn lines(lines: impl IntoIterator<Item = String>) -> Result<(TempDir, PathBuf), Failure> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("lines");
    std::fs::write(&path, lines.into_iter().map(|line| line + "\n").collect::<String>())?;
    Ok((folder, path))
}

fn differences(ground: &Ground) -> Outcome {
    let (venv, topic, id) = (ground.foreign()?, ground.topic("differences", 1)?, ground.fresh("differences"));
    // Against a b b c d: one b too many, a late c, a stranger, and no d.
    let (_kept, written) = lines(["b", "b", "c", "a", "b", "x"].map(str::to_owned))?;
    let (_kept_too, expected) = lines(["a", "b", "b", "c", "d"].map(str::to_owned))?;
    venv.write(
        &Writing { lines: Some(&written), ..Writing::new(ground.bootstrap(), &topic, &id) },
        End::Commit,
    )?;
    for library in Library::ALL {
        let Comparison { records, duplicated, lost, unexpected, out_of_order, .. } =
            venv.compare(&Reading::committed(library, ground.bootstrap(), &topic), &expected)?;
        Failure::unless_equal(
            "records, duplicated, lost, unexpected, out of order",
            [records, duplicated, lost, unexpected, out_of_order],
            [6, 1, 1, 1, 1],
        )?;
    }
    Ok(())
}

fn many_lines(ground: &Ground) -> Outcome {
    let count = ground.size().pick(100_000, 1_000_000);
    let (venv, topic, id) = (ground.foreign()?, ground.topic("many", 4)?, ground.fresh("many"));
    let (_kept, path) = lines((0..count).map(|number| format!("line {number} of a file that is compared")))?;
    let writing = Writing::new(ground.bootstrap(), &topic, &id);
    venv.write(
        &Writing { lines: Some(&path), transactions: 10, compression: "lz4", ..writing },
        End::Commit,
    )?;
    for library in Library::ALL {
        let found = venv.compare(&Reading::committed(library, ground.bootstrap(), &topic), &path)?;
        Failure::unless(found.is_exact() && found.records == count, format!("{library:?}: {found:?}"))?;
    }
    Ok(())
}

fn own_tools(ground: &Ground) -> Outcome {
    let (venv, topic, id) = (ground.foreign()?, ground.topic("tools", 1)?, ground.fresh("tools"));
    let writing = Writing::new(ground.bootstrap(), &topic, &id);
    venv.write(&writing, End::Commit)?;
    venv.write(&Writing { prefix: "open", ..writing }, End::Open)?;

    let tools = ground.tools()?;
    let listed = tools.transactions(&id)?;
    let states: Vec<_> =
        listed.iter().map(|row| (row.transactional_id.as_str(), row.state.as_str())).collect();
    Failure::unless_equal("transactions", states, vec![(id.as_str(), "Ongoing")])?;
    for (isolation, prefixes) in
        [(Isolation::Committed, &["value"][..]), (Isolation::Uncommitted, &["value", "open"])]
    {
        let read = ConsoleRead {
            topic: &topic,
            isolation: isolation.name(),
            max_messages: None,
            idle: Duration::from_secs(4),
        };
        expect(tools.console_consumer(&read)?, prefixes, 10)?;
    }
    Ok(())
}

/// KAFKA-20734: a marker is never written to a partition that has no leader. So the fence's abort gets lost, and the commit of the
/// replay makes both visible. A broker that repairs this shows the records once.
fn hanging_fence(ground: &Ground) -> Outcome {
    let (cluster, venv) = (ground.cluster()?, ground.foreign()?);
    let id = ground.fresh("hanging");
    let lonely = cluster.coordinator(&id)? % 3 + 1;
    let topic = Topic {
        assignment: vec![vec![i32::from(lonely)]],
        configs: vec![("min.insync.replicas".into(), "1".into())],
        ..Topic::new(&ground.fresh("hanging"), 1)
    };
    create_topic(ground.bootstrap(), &topic)?;
    let writing = Writing::new(ground.bootstrap(), &topic.name, &id);
    venv.write(&writing, End::Open)?;
    cluster.kill(lonely)?;
    cluster.wait_ready()?;
    // Fences while the partition has no leader; it writes nothing, to another topic.
    let elsewhere = ground.topic("elsewhere", 1)?;
    venv.write(&Writing { records: 1, ..Writing::new(ground.bootstrap(), &elsewhere, &id) }, End::Commit)?;
    cluster.restore()?;
    venv.write(&writing, End::Commit)?;
    let read = values(ground, &venv, &topic.name, Isolation::Committed)?;
    Failure::unless_equal("records read after a fence and a replay of 10", read.len(), 20)
}
