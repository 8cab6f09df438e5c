//! Runs the embedded broker until it is killed, and prints its bootstrap servers:
//! `cargo run --features broker --example embedded_broker -- [PROFILE] [NODES] [TOPIC:PARTITIONS]..`

use std::error::Error;
use std::time::Duration;

use kafka_2pc::broker::{Broker, BrokerConfig, Profile};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_else(|| "kafka-4.4".to_owned());
    let profile = Profile::named(&name).ok_or("unknown profile")?;
    let nodes = args.next().map_or(Ok(1), |n| n.parse())?;
    let sweep_interval = Duration::from_millis(500);
    let broker =
        Broker::start(BrokerConfig { profile, nodes, sweep_interval, ..BrokerConfig::default() }).await?;
    for topic in args {
        let (name, partitions) = topic.split_once(':').ok_or("topics are NAME:PARTITIONS")?;
        broker.create_topic(name, partitions.parse()?)?;
    }
    println!("{}", broker.bootstrap());
    std::future::pending::<()>().await;
    Ok(())
}
