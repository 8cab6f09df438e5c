//! The committables that a command was given: files, or a job's state.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::{
    checkpoint::{Binding, CheckpointStore, DirectoryStore, read_committable, read_newest},
    cli::Usage,
    client::Client,
    proto::{committable::Committable, settle::CommittedButHanging},
};

/// Where committables come from.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Source {
    /// Files with a prepared transaction each, from DIR/committables of a state
    #[arg(value_name = "FILE", required_unless_present = "state", conflicts_with = "state")]
    files: Vec<PathBuf>,
    /// Directory of a job's state: take everything in it
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
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
    pub(super) fn read(&self, file: &Path) -> anyhow::Result<Given> {
        if !self.flink {
            return from_file(file);
        }
        let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
        let committable =
            Committable::from_flink_bytes(&bytes).with_context(|| file.display().to_string())?;
        Ok(Given { file: file.to_owned(), committable, checkpoint: Completeness::Complete })
    }
}

/// One committable, and where it was found.
#[derive(Debug, Clone)]
pub(super) struct Given {
    /// Its file.
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

/// What was given, and the lock on it while it is worked on.
pub(super) struct Taken {
    pub(super) given: Vec<Given>,
    /// What the state knows as hanging.
    pub(super) retired: Vec<CommittedButHanging>,
    _lock: Option<DirectoryStore>,
}

impl Source {
    /// Reads them; a state is held until [`Taken`] is dropped.
    ///
    /// # Errors
    /// A file that can't be read, or a state that is in use or belongs to another cluster.
    pub(super) async fn take(&self, client: &Client, format: &FileFormat) -> anyhow::Result<Taken> {
        let Some(dir) = &self.state else {
            let given = self.files.iter().map(|file| format.read(file)).collect::<Result<_, _>>()?;
            return Ok(Taken { given, retired: Vec::new(), _lock: None });
        };
        if format.flink {
            return Err(
                Usage("--flink needs FILE: a state holds no committables of Flink's".to_owned()).into()
            );
        }
        anyhow::ensure!(dir.is_dir(), "{}: there is no state here", dir.display());
        let binding = Binding { cluster_id: client.cluster_id().await?, ..Binding::default() };
        let mut store = DirectoryStore::open(dir, binding)?;
        let checkpoint = store.load().await?;
        let listed = checkpoint.iter().flat_map(|c| &c.committables).map(|listed| Given {
            file: store.committable_path(&listed.committable),
            committable: listed.committable.clone(),
            checkpoint: Completeness::Complete,
        });
        let mut given: Vec<_> = listed.collect();
        given.extend(store.unlisted_files()?.into_iter().map(|unlisted| Given {
            file: unlisted.path,
            committable: unlisted.committable,
            checkpoint: Completeness::Incomplete,
        }));
        let retired = checkpoint.iter().flat_map(|c| &c.writers).flat_map(|w| w.retired.clone()).collect();
        Ok(Taken { given, retired, _lock: Some(store) })
    }
}

fn from_file(file: &Path) -> anyhow::Result<Given> {
    let committable = read_committable(file)?;
    let path = std::path::absolute(file).with_context(|| file.display().to_string())?;
    let checkpoint = completeness(&path, &committable)?;
    Ok(Given { file: file.to_owned(), committable, checkpoint })
}

/// `DIR/committables/FILE` belongs to the state in DIR, if there is one.
fn completeness(file: &Path, committable: &Committable) -> anyhow::Result<Completeness> {
    let inside = file.parent().filter(|parent| parent.ends_with("committables"));
    let Some(dir) = inside.and_then(Path::parent).filter(|dir| dir.join("lock").exists()) else {
        return Ok(Completeness::Complete);
    };
    let listed = read_newest(dir)?.is_some_and(|checkpoint| {
        checkpoint.committables.iter().any(|listed| listed.committable.identity == committable.identity)
    });
    Ok(if listed { Completeness::Complete } else { Completeness::Incomplete })
}
