//! Mixtures of transactions, written by a script and predicted by a model of the log.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::time::Duration;

use kafka_2pc::client::{Client, Isolation, Start, Topic, Transaction, TransactionalProducer};
use kafka_2pc::ids::TopicPartition;
use kafka_2pc_protocol_tests::foreign::{self, Library, Reading, Record};

use crate::bench::{Bench, blocking, venv, within};
use crate::outcome::{Failure, Shown, equal};

/// `a0*3`: the producer a writes three records to the first of the scenario's two partitions; `-` writes outside of any
/// transaction. `a!` commits, `a?` aborts. What is open in the end stays open.
const SCENARIOS: [(&str, &str); 15] = [
    ("a commit", "a0*5 a!"),
    ("an abort", "a0*5 a?"),
    ("a commit, an abort", "a0*3 a! a0*3 a?"),
    ("an abort, a commit", "a0*3 a? a0*3 a!"),
    ("plain records around a commit", "-0*2 a0*3 a! -0*2"),
    ("plain records around an abort", "-0*2 a0*3 a? -0*2"),
    ("plain records inside a commit", "a0*2 -0*2 a0*2 a!"),
    ("plain records inside an abort", "a0*2 -0*2 a0*2 a?"),
    ("one after the other", "a0*1 a! a0*1 a? a0*1 a! a0*1 a? a0*1 a?"),
    ("across partitions", "a0*2 a1*2 a! a0*2 a1*2 a? a1*1 a!"),
    ("two producers that overlap", "a0*2 b0*2 a0*2 a? b0*2 b!"),
    ("three producers in each other", "a0*1 b0*1 c0*1 b! a0*1 a? c0*1 c! b0*1 b?"),
    ("many batches", "s0*40 s? s0*40 s!"),
    ("one that stays open", "a0*3 a! b0*2 -0*2"),
    ("one that stays open across partitions, and others behind it", "a0*2 a1*1 b0*3 b? c1*2 c! -1*2"),
];

/// What stands at an offset of a partition.
#[derive(Debug, Clone)]
enum Slot {
    Record { value: String, transaction: Option<usize> },
    Marker,
}

/// The logs that a script must lead to.
#[derive(Debug, Default)]
struct Model {
    logs: BTreeMap<i32, Vec<Slot>>,
    /// Whether each transaction was committed; nothing while it is open.
    ends: Vec<Option<bool>>,
    /// Of each producer, its open transaction and its partitions.
    open: BTreeMap<char, (usize, Vec<i32>)>,
}

impl Model {
    fn write(&mut self, producer: char, partition: i32, values: &[String]) {
        let transaction = (producer != '-').then(|| {
            let next = self.ends.len();
            let (number, partitions) = self.open.entry(producer).or_insert((next, Vec::new()));
            if *number == next {
                self.ends.push(None);
            }
            if !partitions.contains(&partition) {
                partitions.push(partition);
            }
            *number
        });
        let slots = values.iter().map(|value| Slot::Record { value: value.clone(), transaction });
        self.logs.entry(partition).or_default().extend(slots);
    }

    fn end(&mut self, producer: char, commit: bool) {
        if let Some((number, partitions)) = self.open.remove(&producer) {
            self.ends[number] = Some(commit);
            partitions.iter().for_each(|p| self.logs.entry(*p).or_default().push(Slot::Marker));
        }
    }

    fn end_offset(&self, partition: i32, isolation: Isolation) -> usize {
        let log = self.logs.get(&partition).map_or(&[][..], Vec::as_slice);
        let is_open = |slot: &Slot| matches!(slot, Slot::Record { transaction: Some(n), .. } if self.ends[*n].is_none());
        let stable = log.iter().position(is_open).filter(|_| isolation == Isolation::Committed);
        stable.unwrap_or(log.len())
    }

    /// Partition, offset and value of all that a reader sees.
    fn visible(&self, isolation: Isolation) -> Vec<(i32, i64, String)> {
        let mut all = Vec::new();
        for (partition, log) in &self.logs {
            for (offset, slot) in (0_i64..).zip(&log[..self.end_offset(*partition, isolation)]) {
                let Slot::Record { value, transaction } = slot else { continue };
                let aborted = transaction.is_some_and(|n| self.ends[n] == Some(false));
                if !aborted || isolation == Isolation::Uncommitted {
                    all.push((*partition, offset, value.clone()));
                }
            }
        }
        all
    }
}

/// The producers of a scenario.
#[derive(Default)]
struct Players {
    running: BTreeMap<char, Transaction>,
    idle: BTreeMap<char, TransactionalProducer>,
}

impl Players {
    /// The open transaction of a producer, begun if it has none.
    async fn transaction(
        &mut self,
        bench: &Bench,
        client: &Client,
        name: char,
    ) -> Result<&mut Transaction, Failure> {
        let free = match self.running.entry(name) {
            Entry::Occupied(running) => return Ok(running.into_mut()),
            Entry::Vacant(free) => free,
        };
        let ready = if let Some(ready) = self.idle.remove(&name) {
            ready
        } else {
            // Small batches for `s`.
            let bytes = if name == 's' { 100 } else { 16_384 };
            let builder = client.transactional_producer(bench.id(&format!("j01{name}")));
            bench.init_of(builder.batch_size(bytes)).await?
        };
        Ok(free.insert(ready.begin()))
    }

    async fn end(&mut self, bench: &Bench, name: char, commit: bool) -> Shown {
        let running = self.running.remove(&name);
        let running = running.ok_or_else(|| Failure::wrong(format!("{name} has nothing to end")))?;
        let ended = if commit {
            bench.step("commit", within(running.commit()).await?)?
        } else {
            bench.step("abort", within(running.abort()).await?)?
        };
        self.idle.insert(name, ended);
        Ok(())
    }
}

/// One scenario, on two partitions of its own.
async fn play(
    bench: &Bench,
    (client, topic): (&Client, &Topic),
    (number, script): (usize, &str),
    model: &mut Model,
) -> Result<Vec<Transaction>, Failure> {
    let mut players = Players::default();
    let mut written = 0;
    model.open.clear();
    for step in script.split(' ') {
        let strange = || Failure::wrong(format!("{step:?} is no step"));
        let name = step.chars().next().ok_or_else(strange)?;
        if let end @ ("!" | "?") = &step[1..] {
            players.end(bench, name, end == "!").await?;
            model.end(name, end == "!");
            // What comes next stands behind the markers.
            until_ends(client, topic, model, (Isolation::Uncommitted, partitions_of(number)?)).await?;
            continue;
        }
        let (partition, count) = step[1..].split_once('*').ok_or_else(strange)?;
        let partition = partitions_of(number)?.start + partition.parse::<i32>()?;
        let next = written + count.parse::<usize>()?;
        let values: Vec<_> = (written..next).map(|i| format!("{number}{name}{i}")).collect();
        written = next;
        let texts: Vec<_> = values.iter().map(String::as_str).collect();
        if name == '-' {
            bench.write_plain(topic, partition, &texts).await?;
        } else {
            let transaction = players.transaction(bench, client, name).await?;
            bench.write(transaction, topic, partition, &texts).await?;
        }
        model.write(name, partition, &values);
    }
    Ok(players.running.into_values().collect())
}

/// Fifteen mixtures of commits, aborts, plain records and open transactions are read as they must be, to their ends, by
/// readers of committed records and of all; on real brokers by librdkafka too.
pub(super) async fn j01(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, i32::try_from(SCENARIOS.len() * 2)?).await?;
    let mut model = Model::default();
    let mut open = Vec::new();
    for (number, (name, script)) in SCENARIOS.iter().enumerate() {
        let played = play(bench, (&client, &topic), (number, script), &mut model).await;
        open.extend(played.map_err(|failure| match failure {
            Failure::Wrong(why) => Failure::wrong(format!("{name}: {why}")),
            other => other,
        })?);
    }
    let probe = bench.untapped()?;
    for isolation in [Isolation::Uncommitted, Isolation::Committed] {
        until_ends(&probe, &topic, &model, (isolation, 0..topic.partitions())).await?;
        let expected = model.visible(isolation);
        let values: Vec<_> = expected.iter().map(|(.., value)| value.clone()).collect();
        equal(&format!("{isolation:?} by our reader"), bench.read(&topic, isolation).await?, values)?;
        if bench.arm().is_real() {
            equal(
                &format!("{isolation:?} by librdkafka"),
                foreign_read(bench, &topic, isolation).await?,
                expected,
            )?;
        }
    }
    // They were open until everything was read.
    for transaction in open {
        bench.step("abort", within(transaction.abort()).await?)?;
    }
    Ok(())
}

/// The partitions of a scenario.
fn partitions_of(number: usize) -> Result<Range<i32>, Failure> {
    let first = i32::try_from(number * 2)?;
    Ok(first..first + 2)
}

/// Waits until the ends of these partitions are those of the model: markers come a moment after the answer to EndTxn.
async fn until_ends(
    client: &Client,
    topic: &Topic,
    model: &Model,
    (isolation, partitions): (Isolation, Range<i32>),
) -> Shown {
    let mut consumer = client.consumer().build();
    consumer
        .assign(partitions.clone().map(|p| (TopicPartition::new(topic.name().clone(), p), Start::Beginning)));
    let end = |partition| Ok((partition, i64::try_from(model.end_offset(partition, isolation))?));
    let expected: BTreeMap<i32, i64> = partitions.map(end).collect::<Result<_, Failure>>()?;
    let mut found = BTreeMap::new();
    for _ in 0..1000 {
        let ends = within(consumer.end_offsets(isolation)).await??;
        found = ends.into_iter().map(|(at, end)| (at.partition, end)).collect();
        if found == expected {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    equal(&format!("{isolation:?}: ends of the partitions"), found, expected)
}

async fn foreign_read(
    bench: &Bench,
    topic: &Topic,
    isolation: Isolation,
) -> Result<Vec<(i32, i64, String)>, Failure> {
    let (bootstrap, name) = (bench.bootstrap(), topic.name().to_string());
    let records = blocking(move || -> Result<Vec<Record>, Failure> {
        let isolation = match isolation {
            Isolation::Committed => foreign::Isolation::Committed,
            Isolation::Uncommitted => foreign::Isolation::Uncommitted,
        };
        let reading = Reading { isolation, ..Reading::committed(Library::Confluent, &bootstrap, &name) };
        Ok(venv()?.read(&reading)?)
    });
    Ok(records.await??.iter().map(|r| (r.partition, r.offset, r.text())).collect())
}
