//! One process writes and prepares a transaction; another one commits it, from a file.
//!
//! ```text
//! two_processes prepare localhost:9092 TOPIC FILE   writes three records, prepares, stores FILE, and dies of SIGKILL
//! two_processes commit  localhost:9092 FILE         commits what FILE says, and tells what became of it
//! ```

use kafka_2pc::{
    client::{Client, ClientConfig, Prepared},
    ids::TransactionalId,
    proto::committable::Committable,
    record::RecordRef,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["prepare", bootstrap, topic, file] => prepare(bootstrap, topic, file).await,
        ["commit", bootstrap, file] => commit(bootstrap, file).await,
        _ => Err("usage: two_processes prepare BOOTSTRAP TOPIC FILE | commit BOOTSTRAP FILE".into()),
    }
}

async fn prepare(bootstrap: &str, topic: &str, file: &str) -> Result<()> {
    let client = Client::new(ClientConfig::new(bootstrap)?);
    let topic = client.topic(topic).await?;
    let producer = client.transactional_producer(TransactionalId::new("two-processes-0-0")).init().await?;
    let mut transaction = producer.begin();
    for value in ["one", "two", "three"] {
        transaction.send(&topic, None, RecordRef::value(value.as_bytes())).await?;
    }
    let Prepared::Ready(committable) = transaction.prepare().await? else {
        return Err("nothing was written".into());
    };
    std::fs::write(file, committable.to_bytes())?;
    println!("{}", committable.to_json());
    // Whatever happens to this process now, the transaction can be committed.
    std::process::Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status()?;
    Ok(())
}

async fn commit(bootstrap: &str, file: &str) -> Result<()> {
    let client = Client::new(ClientConfig::new(bootstrap)?);
    let committable = Committable::from_bytes(&std::fs::read(file)?)?;
    let resumed = client.resume(committable).commit().await?;
    println!("{:?}", resumed.outcome);
    Ok(())
}
