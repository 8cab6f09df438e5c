//! An object store whose requests are refused, carried out without an answer, or held.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::{StreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// It is not carried out.
    Refused,
    /// It is carried out, and its answer is lost.
    Unanswered,
    /// It waits until the gate opens.
    Held,
}

type Decide = dyn Fn(&'static str, &Path) -> Fate + Send + Sync;

/// One client's way to a store that others share.
pub(super) struct Faulty {
    inner: Arc<dyn ObjectStore>,
    decide: Box<Decide>,
    /// What is held goes on when this is true.
    pub(super) gate: tokio::sync::watch::Sender<bool>,
}

impl Faulty {
    pub(super) fn new(
        inner: &Arc<dyn ObjectStore>,
        decide: impl Fn(&'static str, &Path) -> Fate + Send + Sync + 'static,
    ) -> Arc<Self> {
        let gate = tokio::sync::watch::Sender::new(false);
        Arc::new(Self { inner: Arc::clone(inner), decide: Box::new(decide), gate })
    }

    /// Makes `requests`, and none after: the process dies there.
    pub(super) fn dying_after(
        inner: &Arc<dyn ObjectStore>,
        requests: usize,
    ) -> (Arc<Self>, Arc<AtomicUsize>) {
        let passed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&passed);
        let decide = move |_: &str, _: &Path| match count.fetch_add(1, Ordering::Relaxed) < requests {
            true => Fate::Answered,
            false => Fate::Refused,
        };
        (Self::new(inner, decide), passed)
    }

    async fn pass<T>(
        &self,
        (what, at): (&'static str, &Path),
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        match (self.decide)(what, at) {
            Fate::Answered => request.await,
            Fate::Refused => Err(no_answer()),
            Fate::Unanswered => {
                drop(request.await);
                Err(no_answer())
            }
            Fate::Held => {
                self.gate.subscribe().wait_for(|open| *open).await.unwrap();
                request.await
            }
        }
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.pass(("put", location), self.inner.put_opts(location, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.pass(("get", location), self.inner.get_opts(location, options)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match (self.decide)("delete", &Path::default()) {
            Fate::Answered | Fate::Held => self.inner.delete_stream(locations),
            Fate::Refused | Fate::Unanswered => futures::stream::once(async { Err(no_answer()) }).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match (self.decide)("list", prefix.unwrap_or(&Path::default())) {
            Fate::Answered | Fate::Held => self.inner.list(prefix),
            Fate::Refused | Fate::Unanswered => futures::stream::once(async { Err(no_answer()) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

fn no_answer() -> Error {
    Error::Generic { store: "faulty", source: "no answer".into() }
}
