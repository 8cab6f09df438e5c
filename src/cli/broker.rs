//! `kafka-2pc broker`: the embedded broker as a process of its own, in memory, until it is told to stop.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::{Context, Exit, Usage, duration::parse_duration};
use crate::broker::{Broker, BrokerConfig, BrokerError, Profile, UnknownTopics};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    listen: String,
    /// Kafka to imitate: kafka-4.4, or kafka-4.4-v1 (with the older transactions)
    #[arg(long, value_name = "NAME", default_value = "kafka-4.4")]
    profile: String,
    /// How long the markers of a decided transaction are delayed, as on a busy cluster
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = parse_duration)]
    marker_delay: Duration,
    /// How long the answer to each Produce is delayed, as by slow replicas
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = parse_duration)]
    produce_delay: Duration,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let unknown = || Usage(format!("--profile {}: there are kafka-4.4 and kafka-4.4-v1", args.profile));
    let profile = Profile::named(&args.profile).ok_or_else(unknown)?;
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
