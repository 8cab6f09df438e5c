//! `kafka-2pc broker`: the embedded broker as a process of its own, in memory, until it is told to stop.

use std::time::Duration;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::{Context, Exit, Usage, duration::parse_duration};
use crate::broker::{Broker, BrokerConfig, BrokerError, Profile, Quirk, UnknownTopics};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    listen: String,
    /// Broker to imitate: its API versions, its level of transactions, its quirks
    #[arg(long, value_name = "NAME", default_value = "kafka-4.4", value_parser = profiles())]
    profile: String,
    /// What it does beside that; may be given several times
    #[arg(long, value_name = "NAME", value_parser = quirks())]
    quirk: Vec<String>,
    /// How long the markers of a decided transaction are delayed, as on a busy cluster
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = parse_duration)]
    marker_delay: Duration,
    /// How long the answer to each Produce is delayed, as by slow replicas
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = parse_duration)]
    produce_delay: Duration,
}

/// Clap names them in the help, and where another one is asked for.
fn profiles() -> PossibleValuesParser {
    PossibleValuesParser::new(Profile::all().map(|profile| profile.name))
}

fn quirks() -> PossibleValuesParser {
    PossibleValuesParser::new(Quirk::ALL.map(Quirk::name))
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let unknown = || Usage(format!("--profile {}: there is none of that name", args.profile));
    let profile = Profile::named(&args.profile).ok_or_else(unknown)?;
    let quirks = args.quirk.iter().filter_map(|name| Quirk::named(name));
    let profile = quirks.fold(profile, Profile::with);
    // As Kafka's own default, for clients that ask for it; ours never do.
    let unknown_topics = UnknownTopics::Created;
    let config = BrokerConfig {
        profile,
        listen: args.listen,
        unknown_topics,
        marker_delay: args.marker_delay,
        produce_delay: args.produce_delay,
        ..BrokerConfig::default()
    };
    // Before anybody is told that we listen: a signal must not find nobody home.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let broker = match Broker::start(config).await {
        Err(BrokerError::Config(what)) => return Err(Usage(format!("--listen: {what}")).into()),
        started => started.context("the broker did not start")?,
    };
    let bootstrap = broker.bootstrap();
    context.print(if context.json() { json!({ "bootstrap": bootstrap }).to_string() } else { bootstrap })?;
    context.say("Everything is kept in memory and gone when this process ends (Ctrl-C).");
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    broker.stop().await;
    Ok(Exit::Done)
}
