//! A copy commits where it stands to a consumer group, in the transactions of its checkpoints: with the records or not at all, whoever
//! ends them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kafka_2pc_protocol_tests::foreign::{End, Library, Reading, Standing, Writing};
use kafka_2pc_protocol_tests::harness::{Case, Failure, Ground};
use kafka_2pc_protocol_tests::kafka::{self, Spec};
use kafka_2pc_protocol_tests::program::{Ended, Program};
use tempfile::TempDir;

use crate::Outcome;
use crate::job::{OPEN, PATIENCE, committables};

/// Who tells where the group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Foreign,
    /// And Kafka's own `kafka-consumer-groups`, which the program's own broker has no answers for.
    ForeignAndJava,
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for level in [2, 1] {
        let name = "offsets_of_a_group_are_committed_with_the_records";
        let spec = Spec::default().transaction_version(level);
        cases.push(Case::clients(name, spec, |ground: &Ground| {
            committed_together(ground, Asked::ForeignAndJava)
        }));
        cases.push(Case::embedded(name, level, |ground: &Ground| committed_together(ground, Asked::Foreign)));
    }
    cases
}

fn committed_together(ground: &Ground, asked: Asked) -> Outcome {
    let copy = Copy::new(ground, asked)?;
    let filler = ground.fresh("filler");
    let writing =
        Writing { records: 300, transactions: 3, ..Writing::new(ground.bootstrap(), &copy.from, &filler) };
    ground.foreign()?.write(&writing, End::Commit)?;

    // Killed with its transaction prepared and in no checkpoint: an administrator aborts it.
    copy.crash("prepared")?;
    copy.expect_nothing("prepared")?;
    for id in copy.open()? {
        copy.command(&["txn", "abort", &id, "--force"])?.expect(0)?;
    }
    copy.expect_nothing("aborted")?;

    // Killed behind its durable checkpoint: another process commits.
    copy.crash("durable")?;
    copy.expect_nothing("durable")?;
    let files = committables(&copy.state())?;
    let [file] = &files[..] else { return Err(Failure::of(format!("not one committable: {files:?}"))) };
    let file = file.display().to_string();
    let told = copy.command(&["txn", "describe", &file, "--json"])?.expect(0)?.json()?;
    let partitions = told["partitions"].as_array().into_iter().flatten();
    let of_group = partitions.filter(|p| p["topic"] == "__consumer_offsets").count();
    Failure::unless_equal("partitions of groups in the committable", of_group, 1)?;
    let committed = copy.command(&["txn", "commit", &file, "--json"])?.expect(0)?.json()?;
    Failure::unless_equal("outcome", committed["outcome"].as_str(), Some("committed"))?;
    copy.expect_all()?;

    // The job goes on behind it: nothing is doubled, and the group stays where it is.
    copy.run(&[], None)?.expect(0)?;
    copy.expect_all()?;
    Failure::unless_equal("open transactions", copy.open()?, Vec::new())
}

struct Copy<'a> {
    ground: &'a Ground,
    asked: Asked,
    program: Program,
    from: String,
    to: String,
    group: String,
    prefix: String,
    folder: TempDir,
}

impl<'a> Copy<'a> {
    fn new(ground: &'a Ground, asked: Asked) -> Result<Self, Failure> {
        let (from, to) = (ground.topic("source", 3)?, ground.topic("copy", 3)?);
        let (group, prefix) = (ground.fresh("watched"), ground.fresh("offsets"));
        let (program, folder) = (Program::ensure()?, tempfile::tempdir()?);
        Ok(Self { ground, asked, program, from, to, group, prefix, folder })
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// One checkpoint, at the end of the source.
    fn run(&self, options: &[&str], crash: Option<&str>) -> Result<Ended, Failure> {
        let state = self.state().display().to_string();
        let words = ["mirror", "--from", &self.from, "--to", &self.to, "--until-end", "--json"];
        let job =
            ["--state", &state, "--transactional-id-prefix", &self.prefix, "--checkpoint-interval", "5m"];
        let group = ["--commit-offsets", &self.group, "--bootstrap", self.ground.bootstrap()];
        let all = words.iter().chain(&job).chain(&group).chain(options).copied();
        let mut mirror = self.program.invoke(all);
        if let Some(point) = crash {
            mirror = mirror.env("KAFKA_2PC_CRASH", point);
        }
        Ok(mirror.run(PATIENCE)?)
    }

    fn crash(&self, point: &str) -> Outcome {
        let ended = self.run(&[], Some(point))?;
        if ended.was_killed() {
            Ok(())
        } else {
            Err(ended.strange(&format!("it did not die at {point}")).into())
        }
    }

    fn command(&self, words: &[&str]) -> Result<Ended, Failure> {
        let whereto = ["--bootstrap", self.ground.bootstrap()];
        Ok(self.program.invoke(words.iter().chain(&whereto).copied()).run(PATIENCE)?)
    }

    /// The job's ids with an open transaction.
    fn open(&self) -> Result<Vec<String>, Failure> {
        let all = kafka::transactions(self.ground.bootstrap(), &self.prefix)?;
        let open = all.into_iter().filter(|t| OPEN.contains(&t.state.as_str()));
        Ok(open.map(|t| t.transactional_id).collect())
    }

    fn standing(&self) -> Result<BTreeMap<i32, Standing>, Failure> {
        Ok(self.ground.foreign()?.standing(self.ground.bootstrap(), &self.group, &self.from)?)
    }

    /// The group by Kafka's own tool; as the foreign client tells it where that can't be asked.
    fn by_java(&self, told: &BTreeMap<i32, Standing>) -> Result<BTreeMap<i32, i64>, Failure> {
        match self.asked {
            Asked::Foreign => {
                Ok(told.iter().filter_map(|(partition, at)| Some((*partition, at.committed?))).collect())
            }
            Asked::ForeignAndJava => Ok(self.ground.tools()?.group_offsets(&self.group, &self.from)?),
        }
    }

    fn copied(&self) -> Result<Vec<String>, Failure> {
        let reading = Reading::committed(Library::Confluent, self.ground.bootstrap(), &self.to);
        Ok(self.ground.foreign()?.read(&reading)?.iter().map(|record| record.text()).collect())
    }

    fn expect_nothing(&self, when: &str) -> Outcome {
        let told = self.standing()?;
        let none = told.values().all(|at| at.committed.is_none());
        Failure::unless(none, format!("{when}: the group stands at {told:?}"))?;
        Failure::unless_equal(&format!("{when}: the group by Java"), self.by_java(&told)?, BTreeMap::new())?;
        Failure::unless_equal(&format!("{when}: the copy"), self.copied()?, Vec::new())
    }

    fn expect_all(&self) -> Outcome {
        let told = self.standing()?;
        let ends: BTreeMap<i32, i64> = told.iter().map(|(partition, at)| (*partition, at.end)).collect();
        let committed = |at: &Standing| at.committed == Some(at.end) && at.end > 0;
        Failure::unless(told.values().all(committed), format!("the group stands at {told:?}"))?;
        Failure::unless_equal("the group by Java", self.by_java(&told)?, ends)?;
        let source = Reading::committed(Library::Confluent, self.ground.bootstrap(), &self.from);
        let source: Vec<_> =
            self.ground.foreign()?.read(&source)?.iter().map(|record| record.text()).collect();
        Failure::unless_equal("records", source.len(), 300)?;
        Failure::unless_equal("the copy", self.copied()?, source)
    }
}
