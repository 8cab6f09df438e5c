//! The suite, and a place in a bucket for each of its tests.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use futures::TryStreamExt;
use kafka_2pc::checkpoint::object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, path::Path};
pub(crate) use kafka_2pc::checkpoint::*;
use libtest_mimic::{Failed, Trial};

use self::suite_tests::{Place, each_case, retained};

#[path = "../../src/checkpoint/suite_tests.rs"]
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    clippy::unwrap_used,
    reason = "the library's own tests use all of it, and end where something is missing"
)]
mod suite_tests;

/// Long enough for a machine that has other things to do; a test that crashes waits for it.
const LEASE: Duration = Duration::from_secs(5);

struct Bucket {
    location: ObjectLocation,
    store: Arc<dyn ObjectStore>,
}

impl Bucket {
    fn of(test: &str) -> Self {
        let bucket = std::env::var(crate::BUCKET).expect("the bucket is in the environment");
        let location = ObjectLocation::parse(&format!("{bucket}{test}")).expect("a location");
        let store = location.connect(Duration::from_secs(30)).expect("a client");
        Self { location, store }
    }

    fn config(&self) -> ObjectStoreConfig {
        let mut config = ObjectStoreConfig::new(self.location.prefix());
        config.bucket = Some(Arc::clone(self.location.bucket()));
        config.lease_duration = LEASE;
        config
    }

    async fn owned(&self, config: ObjectStoreConfig) -> Result<Box<dyn JobStore>, StoreError> {
        Ok(Box::new(ObjectCheckpointStore::open(Arc::clone(&self.store), config).await?))
    }

    /// Where the name of the suite lies.
    fn at(&self, name: &str) -> Path {
        let folder = if name.contains('/') { "" } else { "checkpoints/" };
        Path::from(format!("{}/{folder}{name}", self.location.prefix()))
    }
}

impl Place for Bucket {
    async fn open(&self, binding: Binding) -> Result<Box<dyn JobStore>, StoreError> {
        let mut config = self.config();
        config.binding = binding;
        self.owned(config).await
    }

    async fn open_retaining(&self, checkpoints: usize) -> Box<dyn JobStore> {
        let mut config = self.config();
        config.num_retained = retained(checkpoints);
        self.owned(config).await.expect("it opens")
    }

    async fn close(&self, mut store: Box<dyn JobStore>) {
        store.close().await.expect("it closes");
    }

    async fn names(&self) -> Vec<String> {
        let prefix = Path::from(self.location.prefix());
        let all: Vec<ObjectMeta> = self.store.list(Some(&prefix)).try_collect().await.expect("a list");
        let below = |meta: &ObjectMeta| {
            meta.location.as_ref()[prefix.as_ref().len() + 1..].replace("checkpoints/", "")
        };
        let mut names: Vec<_> = all.iter().map(below).collect();
        names.sort();
        names
    }

    async fn read(&self, name: &str) -> Vec<u8> {
        let found = self.store.get(&self.at(name)).await.expect("it is there");
        found.bytes().await.expect("its bytes").into()
    }

    async fn overwrite(&self, name: &str, bytes: &[u8]) {
        self.store.put(&self.at(name), bytes.to_vec().into()).await.expect("it is put");
    }

    async fn remove(&self, name: &str) {
        self.store.delete(&self.at(name)).await.expect("it is removed");
    }
}

macro_rules! named {
    (($run:ident) $($case:ident)*) => {
        vec![$($run(stringify!($case), |place| Box::pin(suite_tests::$case(place)))),*]
    };
}

type Case = for<'a> fn(&'a Bucket) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// The tests; ignored for this reason.
pub(crate) fn trials(ignored: Option<&str>) -> Vec<Trial> {
    let all: Vec<Trial> = each_case! { [named] (trial) };
    all.into_iter().map(|trial| trial.with_ignored_flag(ignored.is_some())).collect()
}

fn trial(name: &'static str, case: Case) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(Failed::from)?;
        runtime.block_on(async { case(&Bucket::of(name)).await });
        Ok(())
    })
}
