//! `kafka-2pc demo`: the main job at a glance.
//!
//! ```text
//! this process                                    a second process, killed and started again
//!   embedded broker  ◄── topic, 3 partitions ◄──    kafka-2pc pipe ◄── state, input
//!     └──► reader, read_committed ──► tally, table
//! ```

mod data;
mod journal;
mod reader;
mod report;
mod stage;
mod tally;
mod writer;

use std::{fs, path::Path};

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use self::{
    data::Data,
    journal::Entry,
    reader::LiveReader,
    report::{Report, grouped},
    stage::{Mood, Stage},
    tally::Tally,
    writer::{End, Writer},
};
use super::{Context, Exit};
use crate::{
    broker::{Broker, BrokerConfig, Profile},
    client::{Client, ClientConfig},
    net::Clock,
};

const PARTITIONS: i32 = 3;

/// Records a second: 100,000 of them last for more than 60 checkpoints.
const RATE: u64 = 8_000;

const CHECKPOINT_INTERVAL: &str = "200ms";

/// A moment to die at.
struct Act {
    /// Point and count, as `KAFKA_2PC_CRASH` has them.
    crash: &'static str,
    /// The same for people.
    when: &'static str,
}

const ACTS: [Act; 5] = [
    Act { crash: "prepared:8", when: "between prepare and durable: no checkpoint lists the transaction" },
    Act { crash: "store-half:9", when: "between prepare and durable: half of the checkpoint is on disk" },
    Act {
        crash: "durable:10",
        when: "between durable and commit: the checkpoint is stored, EndTxn not sent",
    },
    Act { crash: "recovery-commit:1", when: "during recovery: EndTxn is sent, its answer not read" },
    Act { crash: "endtxn-sent:9", when: "during commit: EndTxn is sent, its answer not read" },
];

pub(super) async fn run(context: &Context) -> anyhow::Result<Exit> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    // Whatever ends the show drops it, and with it the writer, the broker and the directory.
    tokio::select! {
        exit = show(context) => return exit,
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    context.warn("interrupted; nothing is left running");
    Ok(Exit::Failed)
}

async fn show(context: &Context) -> anyhow::Result<Exit> {
    let mut stage = Stage::new(context);
    let place = Place::choose(context).await?;
    introduce(&stage, &place);
    let data = Data::find()?;
    let dir =
        tempfile::Builder::new().prefix("kafka-2pc-demo-").tempdir().context("a directory for the state")?;
    let input = dir.path().join("input");
    fs::write(&input, &data.lines).with_context(|| input.display().to_string())?;
    tell_plan(&stage, &place, &data);
    let lines = data.lines.clone();
    // Takes a moment without optimization, which others need not wait for.
    let tally = tokio::task::spawn_blocking(move || Tally::new(&lines));

    let client = Client::new(ClientConfig::new(&place.bootstrap)?);
    client.create_topic(&place.topic, PARTITIONS, None).await?;
    stage.draw(context, data::RECORDS);
    let progress = stage.clone();
    let live = LiveReader::start(&client, &place.topic, PARTITIONS, move |seen| progress.progress(seen));
    stage.begin();
    let mut report = Report { made_up: data.file.is_none(), ..Report::default() };
    let played = play(&stage, Writer::new(pipe_args(&place, &dir), dir.path()), &mut report).await;
    if played.is_err() {
        stage.clear();
    }
    played?;
    let mut tally = tally.await?;
    // A client of its own, whose answers do not wait behind those of the reader that looks for more.
    let client = Client::new(ClientConfig::new(&place.bootstrap)?);
    reader::read_back(&client, &place.topic, PARTITIONS, &mut tally).await?;
    report.counts = tally.finish();
    report.visibility = live.finish(report.counts.visible).await;
    report.seconds = stage.seconds();
    stage.clear();
    stage.say("");
    report.print(context)?;
    if place.broker.is_none() {
        context.say(format!("The topic {} is left on the cluster.", place.topic));
    }
    Ok(report.exit())
}

/// The cluster that it happens on.
struct Place {
    bootstrap: String,
    topic: String,
    /// Ours, which ends with us.
    broker: Option<Broker>,
}

impl Place {
    /// The cluster that was named, with a topic that nobody else has; otherwise one of our own.
    async fn choose(context: &Context) -> anyhow::Result<Self> {
        if let Some(bootstrap) = context.bootstrap() {
            // Whether it can be understood shows before anything is started.
            context.client_config()?;
            let topic = format!("kafka-2pc-demo-{:08x}", Clock::seed() & 0xffff_ffff);
            return Ok(Self { bootstrap: bootstrap.to_owned(), topic, broker: None });
        }
        let config = BrokerConfig { profile: Profile::kafka_4_4(), ..BrokerConfig::default() };
        let broker = Broker::start(config).await.context("the broker did not start")?;
        Ok(Self { bootstrap: broker.bootstrap(), topic: "flights".to_owned(), broker: Some(broker) })
    }
}

fn introduce(stage: &Stage, place: &Place) {
    let bootstrap = &place.bootstrap;
    stage.say(match place.broker {
        Some(_) => format!("A Kafka in memory listens on {bootstrap} for as long as this runs."),
        None => format!("It happens on the cluster at {bootstrap}."),
    });
}

fn tell_plan(stage: &Stage, place: &Place, data: &Data) {
    let (records, rate) = (grouped(data::RECORDS), grouped(RATE));
    stage.say(match &data.file {
        Some(file) => format!("{records} real records ({})", file.display()),
        None => format!("{records} records (made up from a fixed seed: the data set is not here)"),
    });
    stage.say(format!(
        "go into a topic with {PARTITIONS} partitions, {rate} a second, by another process:\n\n  \
         kafka-2pc pipe --topic {} --input flights.ndjson --state state --checkpoint-interval {CHECKPOINT_INTERVAL}\n\n\
         It is killed {} times, and the same command is run again.\n",
        place.topic,
        ACTS.len()
    ));
}

fn pipe_args(place: &Place, dir: &TempDir) -> Vec<String> {
    let path = |name: &str| Path::new(dir.path()).join(name).display().to_string();
    let (input, state, rate) = (path("input"), path("state"), RATE.to_string());
    let args = [
        ["--bootstrap", &place.bootstrap],
        ["--topic", &place.topic],
        ["--input", &input],
        ["--state", &state],
        ["--checkpoint-interval", CHECKPOINT_INTERVAL],
        ["--rate", &rate],
    ];
    std::iter::once("pipe").chain(args.into_iter().flatten()).map(str::to_owned).collect()
}

/// Runs the writer to its end, through all of its deaths.
async fn play(stage: &Stage, mut writer: Writer, report: &mut Report) -> anyhow::Result<()> {
    stage.event(Mood::Plain, "start", "");
    for act in &ACTS {
        match writer.run(Some(act.crash), |entry| take(stage, report, entry)).await? {
            End::Killed => report.kills += 1,
            End::Finished => bail!("the writer ended before it could be killed at {}", act.crash),
        }
        stage.event(Mood::Bad, "kill -9", act.when);
    }
    match writer.run(None, |entry| take(stage, report, entry)).await? {
        End::Finished => stage.event(Mood::Plain, "end", "the input is in the topic"),
        End::Killed => bail!("somebody else killed the writer"),
    }
    Ok(())
}

/// What a writer did goes into the report; a recovery is told.
fn take(stage: &Stage, report: &mut Report, entry: Entry) {
    match entry {
        Entry::Recovered { resumed, aborted } => {
            report.resumed += resumed;
            report.aborted += aborted;
            if let Some(what) = recovery(resumed, aborted) {
                stage.event(Mood::Good, "recover", what);
            }
        }
        Entry::Checkpoint(id) => report.checkpoints = id,
        Entry::Prepare(took) => report.prepare.push(took),
        Entry::Commit(took) => report.commit.push(took),
    }
}

fn recovery(resumed: u64, aborted: u64) -> Option<String> {
    let transactions = |count| if count == 1 { "transaction" } else { "transactions" };
    match (resumed, aborted) {
        (0, 0) => None,
        (resumed, 0) => Some(format!("{resumed} {} resumed and committed", transactions(resumed))),
        (0, aborted) => Some(format!("{aborted} {} aborted", transactions(aborted))),
        _ => Some(format!(
            "{resumed} {} resumed and committed, {aborted} aborted and written again",
            transactions(resumed)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::recovery;

    #[test]
    fn recoveries_are_told_in_whole_sentences() {
        assert_eq!(recovery(0, 0), None);
        assert_eq!(recovery(1, 0).unwrap(), "1 transaction resumed and committed");
        assert_eq!(recovery(0, 2).unwrap(), "2 transactions aborted");
        assert_eq!(
            recovery(2, 1).unwrap(),
            "2 transactions resumed and committed, 1 aborted and written again"
        );
    }
}
