//! States that are torn, old, damaged, not synced, or on a full device.

use std::fs;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kafka_2pc::checkpoint::runner::{Pipeline, RunError};
use kafka_2pc::checkpoint::{
    Binding, Checkpoint, CheckpointStore, DirectoryStore, StateStore, StoreError, StorePoint,
};
use kafka_2pc::client::{Client, Topic};
use kafka_2pc::sink::RecoverError;

use super::runs::{RECORDS, all_once, finish, numbers, open, quick};
use crate::bench::{Bench, fresh, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// A half written checkpoint of a crash is passed over; a damaged one is not, and is named. An old copy of a state, or one
/// whose newest checkpoint a power loss took away, is refused or loses and doubles nothing. A full device stops the job, and
/// costs nothing.
pub(super) async fn k28(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let pipeline = numbers(&topic, &fresh("k28"))?;
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state");
    part(&client, &pipeline, &state, Duration::from_millis(120)).await?;
    let old = copy(&state, &folder.path().join("old"))?;

    fs::write(state.join("checkpoint-99999999999999999999.tmp"), b"K2PK\0\x02half")?;
    fs::write(state.join("committables").join("left.committable.tmp"), b"K2")?;
    full(&client, &pipeline, &state).await?;
    let unsynced = copy(&state, &folder.path().join("unsynced"))?;
    fs::remove_file(newest(&unsynced)?)?;
    finish(&client, &pipeline, &state).await?;
    all_once(bench, &topic).await?;

    for (what, state) in [("an old copy", &old), ("a state without its newest checkpoint", &unsynced)] {
        refused(&client, &pipeline, what, state).await?;
        all_once(bench, &topic).await?;
    }
    damaged(&state, bench, &topic).await?;
    // The true state still is what it was.
    equal("resumed at the end", finish(&client, &pipeline, &state).await?, 0)?;
    all_once(bench, &topic).await
}

/// Runs for so long, and suspends.
async fn part(client: &Client, pipeline: &Pipeline, state: &Path, time: Duration) -> Shown {
    let mut store = open(state).await?;
    let run = within(pipeline.run(client, &mut store, &quick(), tokio::time::sleep(time))).await?;
    let summary = run.map_err(|(error, _)| error)?;
    holds(!summary.finished && summary.records > 0, format!("it is over already: {summary:?}"))?;
    holds(summary.records < RECORDS, "nothing is left to write")
}

fn copy(from: &Path, to: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(to.to_owned())
}

fn newest(state: &Path) -> Result<PathBuf, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(state)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("checkpoint-") && !name.contains('.') {
            names.push(path);
        }
    }
    names.sort();
    names.pop().ok_or_else(|| Failure::wrong(format!("{} holds no checkpoint", state.display())))
}

/// Whoever restores it is told that there is a newer one, and changes nothing.
async fn refused(client: &Client, pipeline: &Pipeline, what: &str, state: &Path) -> Shown {
    let mut store = open(state).await?;
    match within(pipeline.run(client, &mut store, &quick(), pending())).await? {
        Err((RunError::Recover(RecoverError::Orphans(_)), _)) => Ok(()),
        other => Err(Failure::wrong(format!("{what}: {other:?}"))),
    }
}

/// A checkpoint that no crash can have left like that is an error with its name, and no older one is used instead of it.
async fn damaged(state: &Path, bench: &Bench, topic: &Topic) -> Shown {
    let path = newest(state)?;
    let bytes = fs::read(&path)?;
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    for (what, damage) in
        [("torn", bytes[..bytes.len() / 2].to_vec()), ("flipped", flipped), ("empty", Vec::new())]
    {
        fs::write(&path, damage)?;
        match DirectoryStore::open(state, Binding::default()) {
            Err(StoreError::Damaged { path: named, .. }) => equal(what, named, path.clone())?,
            other => return Err(Failure::wrong(format!("{what}: {other:?}"))),
        }
    }
    fs::write(&path, bytes)?;
    all_once(bench, topic).await
}

/// The device is full at the next checkpoint: the job ends with that, and what was durable still is.
async fn full(client: &Client, pipeline: &Pipeline, state: &Path) -> Shown {
    let mut store = Full(open(state).await?);
    let before = fs::read(newest(state)?)?;
    match within(pipeline.run(client, &mut store, &quick(), pending())).await? {
        Err((error @ (RunError::NotStored(_) | RunError::Store(_) | RunError::Checkpoint(_)), _)) => {
            holds(
                error.to_string().contains("full"),
                format!("it does not say that the device is full: {error}"),
            )?;
        }
        other => return Err(Failure::wrong(format!("on a full device: {other:?}"))),
    }
    equal("the newest checkpoint", fs::read(newest(state)?)?, before)
}

/// A store without room for another checkpoint.
struct Full(DirectoryStore);

impl CheckpointStore for Full {
    fn load(&mut self) -> BoxFuture<'_, Result<Option<Checkpoint>, StoreError>> {
        self.0.load()
    }

    fn write<'a>(
        &'a mut self,
        _: &'a Checkpoint,
        _: &'a mut (dyn FnMut(StorePoint) + Send),
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let path = self.0.dir().to_owned();
        async move { Err(StoreError::Full { path }) }.boxed()
    }

    fn recovered(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.recovered()
    }

    fn states(&self) -> Arc<dyn StateStore> {
        self.0.states()
    }
}
