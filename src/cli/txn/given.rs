//! The committables that a command was given: files, or a job's state.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::{
    checkpoint::{Binding, JobStore, StoreError},
    cli::{
        Context, Usage,
        state::{CommittablePlace, Opening, StatePlace},
    },
    client::Client,
    proto::{committable::Committable, settle::CommittedButHanging},
};

/// Where committables come from.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Source {
    /// Files or URLs of a prepared transaction each, from the committables of a state
    #[arg(
        value_name = "FILE|URL",
        required_unless_present = "state",
        conflicts_with = "state",
        value_parser = CommittablePlace::parser()
    )]
    files: Vec<CommittablePlace>,
    /// A job's state, a directory or a URL: take everything in it
    #[arg(long, value_name = "DIR|URL", value_parser = StatePlace::parser())]
    state: Option<StatePlace>,
}

/// Whose committables files hold.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct FileFormat {
    /// FILE holds what Flink's Kafka sink made of a prepared transaction (KafkaCommittable, version 1)
    #[arg(long)]
    flink: bool,
}

impl FileFormat {
    /// True for Flink's.
    pub(super) fn is_flink(&self) -> bool {
        self.flink
    }

    /// The committable in a file.
    ///
    /// # Errors
    /// It can't be read.
    pub(super) async fn read(&self, place: &CommittablePlace) -> anyhow::Result<Given> {
        if !self.flink {
            return from_place(place).await;
        }
        let CommittablePlace::File(file) = place else {
            return Err(
                Usage("--flink needs a FILE: what Flink keeps is no object of ours".to_owned()).into()
            );
        };
        let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
        let committable =
            Committable::from_flink_bytes(&bytes).with_context(|| file.display().to_string())?;
        Ok(Given { file: file.to_owned(), committable, checkpoint: Completeness::Complete })
    }
}

/// One committable, and where it was found.
#[derive(Debug, Clone)]
pub(super) struct Given {
    /// Its file, or its URL.
    pub(super) file: PathBuf,
    /// What is in it.
    pub(super) committable: Committable,
    /// Whether the checkpoint that it belongs to is complete.
    pub(super) checkpoint: Completeness,
}

/// Whether a committable's checkpoint is complete, as far as can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completeness {
    /// The newest checkpoint lists it, or the file lies outside of any state.
    Complete,
    /// The state that the file lies in does not list it: its records will be written again.
    Incomplete,
}

/// What was given, and the state it is from, which is held while it is worked on.
pub(super) struct Taken {
    pub(super) given: Vec<Given>,
    /// What the state knows as hanging.
    pub(super) retired: Vec<CommittedButHanging>,
    store: Option<Box<dyn JobStore>>,
}

impl Taken {
    /// Gives the state back.
    ///
    /// # Errors
    /// The object store can't be reached: the state's next owner waits then.
    pub(super) async fn release(mut self) -> Result<(), StoreError> {
        match &mut self.store {
            Some(store) => store.close().await,
            None => Ok(()),
        }
    }
}

impl Source {
    /// Reads them; a state is held until [`Taken::release`].
    ///
    /// # Errors
    /// A file that can't be read, or a state that is in use or belongs to another cluster.
    pub(super) async fn take(
        &self,
        context: &Context,
        client: &Client,
        format: &FileFormat,
    ) -> anyhow::Result<Taken> {
        let Some(place) = &self.state else {
            let mut given = Vec::new();
            for file in &self.files {
                given.push(format.read(file).await?);
            }
            return Ok(Taken { given, retired: Vec::new(), store: None });
        };
        if format.flink {
            return Err(
                Usage("--flink needs FILE: a state holds no committables of Flink's".to_owned()).into()
            );
        }
        // It must be there: this is not the place to begin one.
        place.look().await?;
        let binding = Binding { cluster_id: client.cluster_id().await?, ..Binding::default() };
        let mut store = place.own(context, Opening { binding, ..Opening::default() }).await?.for_hands();
        let checkpoint = store.load().await?;
        let at = |committable: &Committable| {
            store.place(committable).unwrap_or_else(|| PathBuf::from(place.to_string()))
        };
        let listed = checkpoint.iter().flat_map(|c| &c.committables).map(|listed| Given {
            file: at(&listed.committable),
            committable: listed.committable.clone(),
            checkpoint: Completeness::Complete,
        });
        let mut given: Vec<_> = listed.collect();
        for unlisted in store.unlisted().await? {
            let file = store.place(&unlisted).unwrap_or_else(|| PathBuf::from(place.to_string()));
            given.push(Given { file, committable: unlisted, checkpoint: Completeness::Incomplete });
        }
        let retired = checkpoint.iter().flat_map(|c| &c.writers).flat_map(|w| w.retired.clone()).collect();
        Ok(Taken { given, retired, store: Some(store) })
    }
}

async fn from_place(place: &CommittablePlace) -> anyhow::Result<Given> {
    let committable = place.read().await?;
    let checkpoint = match place.is_listed(&committable).await? {
        Some(false) => Completeness::Incomplete,
        Some(true) | None => Completeness::Complete,
    };
    Ok(Given { file: place.shown(), committable, checkpoint })
}
