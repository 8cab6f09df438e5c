//! `--state`: a directory, or a URL.
//!
//! ```text
//! DIR, ./DIR            files, owned by a lock of the operating system
//! file:///DIR           objects in files, owned by a lease: for file systems whose locks do not work
//! s3://BUCKET/PREFIX    objects, owned by a lease (feature object-store-s3); the rest says the environment
//! memory:               nothing is kept
//! ```

mod committable;
mod look;

use std::{
    fmt,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::{Arg, builder::TypedValueParser, error::ErrorKind};

use super::{Context, Usage};
use crate::checkpoint::{
    Binding, CheckpointStore, DirectoryStore, JobStore, MemoryStore, ObjectCheckpointStore, ObjectLocation,
    ObjectState, ObjectStoreConfig, StoreError,
};
pub(super) use committable::CommittablePlace;
pub(super) use look::Look;

/// Where a job keeps its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StatePlace {
    Directory(PathBuf),
    Objects(ObjectLocation),
    Memory,
}

/// What an owner asks for.
#[derive(Debug, Default)]
pub(super) struct Opening {
    pub(super) binding: Binding,
    pub(super) num_retained: Option<NonZeroUsize>,
    /// How long it may be silent, in an object store.
    pub(super) lease: Option<Duration>,
}

/// A state that is owned.
#[derive(Debug)]
pub(super) enum Owned {
    Memory(MemoryStore),
    Directory(Box<DirectoryStore>),
    Objects(Box<ObjectCheckpointStore>),
}

impl Owned {
    /// For a job, which writes checkpoints.
    pub(super) fn for_a_job(self) -> Box<dyn CheckpointStore> {
        match self {
            Self::Memory(store) => Box::new(store),
            Self::Directory(store) => store,
            Self::Objects(store) => store,
        }
    }

    /// For somebody who does by hand what is left of a job.
    pub(super) fn for_hands(self) -> Box<dyn JobStore> {
        match self {
            Self::Memory(store) => Box::new(store),
            Self::Directory(store) => store,
            Self::Objects(store) => store,
        }
    }
}

/// How long a command that begins waits for an object store that does not answer.
const START: Duration = Duration::from_secs(10);
/// How long each request of a job does.
const GOING: Duration = Duration::from_secs(30);

impl StatePlace {
    /// For clap.
    pub(super) fn parser() -> impl TypedValueParser<Value = Self> {
        Given(Self::parse)
    }

    fn parse(path: PathBuf) -> Result<Self, String> {
        match path.to_str() {
            Some("memory:") => Ok(Self::Memory),
            Some(url) if ObjectLocation::is_meant(url) => Ok(Self::Objects(location(url)?)),
            _ => Ok(Self::Directory(path)),
        }
    }

    /// Whether anything in it outlives the process.
    pub(super) fn is_kept(&self) -> bool {
        *self != Self::Memory
    }

    /// Becomes its owner. A state that is not there is begun.
    ///
    /// # Errors
    /// [`StoreError`]; it is of another kind.
    pub(super) async fn own(&self, context: &Context, opening: Opening) -> anyhow::Result<Owned> {
        match self {
            Self::Memory => Ok(Owned::Memory(MemoryStore::default())),
            Self::Directory(dir) => {
                no_objects_in(dir)?;
                let store = DirectoryStore::open(dir, opening.binding)?;
                Ok(Owned::Directory(Box::new(match opening.num_retained {
                    Some(checkpoints) => store.num_retained(checkpoints),
                    None => store,
                })))
            }
            Self::Objects(location) => {
                no_files_in(location)?;
                location.prepare()?;
                // Whoever begins shall learn soon that nothing answers.
                if !objects(location, START)?.is_free().await? {
                    context.say(format!(
                        "{location}: its last owner did not give it up; waiting for a sign of life from it, or the end \
                         of its lease"
                    ));
                }
                let config = config(location, opening);
                let store = ObjectCheckpointStore::open(location.connect(GOING)?, config).await?;
                Ok(Owned::Objects(Box::new(store)))
            }
        }
    }

    /// The state, which must be there, to be looked at beside its owner.
    ///
    /// # Errors
    /// It is not there, or is of another kind; the object store can't be asked.
    pub(super) async fn look(&self) -> anyhow::Result<Look> {
        match self {
            Self::Memory => {
                let why = "memory: is gone with the process of its job; there is nothing to be looked at";
                Err(Usage(why.to_owned()).into())
            }
            Self::Directory(dir) => {
                no_objects_in(dir)?;
                anyhow::ensure!(dir.is_dir(), "{self}: there is no state here");
                Ok(Look::Directory(dir.clone()))
            }
            Self::Objects(location) => {
                no_files_in(location)?;
                let state = objects(location, START)?;
                anyhow::ensure!(state.exists().await?, "{self}: there is no state here");
                Ok(Look::Objects(state))
            }
        }
    }

    /// The objects beside which a timeline is written, for an object store.
    pub(super) fn objects(&self) -> Option<Result<ObjectState, StoreError>> {
        match self {
            Self::Objects(location) => Some(objects(location, GOING)),
            Self::Directory(_) | Self::Memory => None,
        }
    }
}

/// Reads an argument, and does not repeat one that is refused: it may hold a password.
#[derive(Clone)]
struct Given<T>(fn(PathBuf) -> Result<T, String>);

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Given<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<T, clap::Error> {
        (self.0)(PathBuf::from(value)).map_err(|why| {
            let named = argument.map_or_else(String::new, |argument| format!("{argument}: "));
            command.clone().error(ErrorKind::ValueValidation, format!("{named}{why}"))
        })
    }
}

impl fmt::Display for StatePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(dir) => dir.display().fmt(f),
            Self::Objects(location) => location.fmt(f),
            Self::Memory => f.write_str("memory:"),
        }
    }
}

/// A file or URL in messages: as commands take it, from any working directory.
///
/// # Errors
/// There is no working directory.
pub(super) fn shown(path: &Path) -> std::io::Result<String> {
    match path.to_str() {
        Some(url) if ObjectLocation::is_meant(url) => Ok(url.to_owned()),
        _ => Ok(std::path::absolute(path)?.display().to_string()),
    }
}

fn location(url: &str) -> Result<ObjectLocation, String> {
    let location = ObjectLocation::parse(url).map_err(|e| e.to_string())?;
    location.check_build().map_err(|e| e.to_string())?;
    Ok(location)
}

fn objects(location: &ObjectLocation, patience: Duration) -> Result<ObjectState, StoreError> {
    let bucket = Some(Arc::clone(location.bucket()));
    Ok(ObjectState::new(location.connect(patience)?, location.prefix(), bucket))
}

fn config(location: &ObjectLocation, opening: Opening) -> ObjectStoreConfig {
    let mut config = ObjectStoreConfig::new(location.prefix());
    config.bucket = Some(Arc::clone(location.bucket()));
    config.binding = opening.binding;
    // Owners may be on many machines.
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    config.holder = format!("process {} on {host}", std::process::id()).into();
    config.num_retained = opening.num_retained.unwrap_or(config.num_retained);
    config.lease_duration = opening.lease.unwrap_or(config.lease_duration);
    config
}

/// The two layouts share no file: a job that took one for the other would begin anew, and write everything again.
fn no_objects_in(dir: &Path) -> anyhow::Result<()> {
    if !dir.join("heads").is_dir() {
        return Ok(());
    }
    let dir = std::path::absolute(dir)?;
    let dir = dir.display();
    Err(Usage(format!("{dir} is the state of a job that was started with a URL: give file://{dir}")).into())
}

fn no_files_in(location: &ObjectLocation) -> anyhow::Result<()> {
    let Some(dir) = location.directory() else { return Ok(()) };
    if !dir.join("lock").exists() && !dir.join("owner").exists() {
        return Ok(());
    }
    let dir = dir.display();
    Err(Usage(format!("{dir} is the state of a job that was started with a directory: give {dir}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<StatePlace, String> {
        StatePlace::parse(text.into())
    }

    #[test]
    fn what_is_no_url_is_a_directory() {
        for dir in ["state", "./s3://x", "a:b", "memory", "/var/x"] {
            assert_eq!(parse(dir), Ok(StatePlace::Directory(dir.into())), "{dir}");
        }
        assert_eq!(parse("memory:"), Ok(StatePlace::Memory));
        assert_eq!(parse("file:///x/y").map(|place| place.to_string()), Ok("file:///x/y".to_owned()));
        assert!(parse("hdfs://a/b").is_err_and(|why| why.contains("s3://BUCKET/PREFIX")));
        assert!(parse("file:x").is_err());
    }

    #[cfg(not(feature = "object-store-s3"))]
    #[test]
    fn a_build_without_s3_says_how_to_get_it() {
        assert!(parse("s3://b/p").is_err_and(|why| why.contains("--features cli,object-store-s3")));
    }

    #[test]
    fn a_url_is_shown_as_it_is_and_a_path_whole() {
        assert_eq!(shown(Path::new("s3://b/p/committables/x")).unwrap(), "s3://b/p/committables/x");
        assert!(shown(Path::new("x")).unwrap().starts_with('/'));
    }
}
