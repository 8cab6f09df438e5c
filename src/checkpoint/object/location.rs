//! Where a state lies in an object store, as a URL.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use object_store::{ObjectStore, local::LocalFileSystem, path::Path};
use url::Url;

use crate::checkpoint::{error::StoreError, files::Disk};

/// Where a state lies in an object store: `s3://bucket/prefix` (feature `object-store-s3`), or `file:///directory`. How
/// to get there (endpoint, region, credentials) says the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectLocation {
    /// What messages call the bucket; nothing for files, whose prefix is their whole path.
    bucket: Arc<str>,
    prefix: Path,
    scheme: Scheme,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Scheme {
    File,
    S3,
}

/// Why something is no location of a state. It never repeats what was given: that may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// It is no URL.
    #[error("this is no URL: {0}")]
    NotUrl(String),
    /// Nothing is known of this scheme.
    #[error("`{0}:` is not known here; a state lies in a directory, in file:///DIR or in s3://BUCKET/PREFIX")]
    UnknownScheme(String),
    /// This build has no client for it.
    #[error(
        "this build has no client for `{scheme}:`; build it with the feature `{feature}`, which needs a C compiler: \
         cargo install kafka-2pc --features cli,{feature}"
    )]
    NotBuilt {
        /// The scheme.
        scheme: &'static str,
        /// What it needs.
        feature: &'static str,
    },
    /// The bucket is missing.
    #[error("the bucket is missing; it is s3://BUCKET/PREFIX")]
    NoBucket,
    /// The path of a file must be whole.
    #[error("the path must be absolute and local; it is file:///DIRECTORY, with three strokes")]
    NotAbsolute,
    /// The path cannot be the name of an object.
    #[error("the path cannot be that of an object: {0}")]
    BadPath(String),
    /// The URL holds more than a place.
    #[error(
        "a URL of a state is only a place: {0} does not belong into it, the environment says how to get there (such as \
         AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL)"
    )]
    MoreThanPlace(&'static str),
}

/// Requests are tried again after at most so long.
#[cfg(feature = "object-store-s3")]
const BACKOFF: Duration = Duration::from_secs(2);

impl ObjectLocation {
    /// The location that a URL names.
    ///
    /// # Errors
    /// [`LocationError`].
    pub fn parse(text: &str) -> Result<Self, LocationError> {
        let url = Url::parse(text).map_err(|e| LocationError::NotUrl(e.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(LocationError::MoreThanPlace("a user or a password"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(LocationError::MoreThanPlace("what follows on ? or #"));
        }
        let prefix = Path::from_url_path(url.path()).map_err(|e| LocationError::BadPath(e.to_string()))?;
        match (url.scheme(), url.host_str()) {
            ("file", None)
                if text.to_ascii_lowercase().starts_with("file:///") && !prefix.as_ref().is_empty() =>
            {
                Ok(Self { bucket: "file://".into(), prefix, scheme: Scheme::File })
            }
            ("file", _) => Err(LocationError::NotAbsolute),
            ("s3" | "s3a", Some(bucket)) if !bucket.is_empty() => {
                if url.port().is_some() {
                    return Err(LocationError::MoreThanPlace("a port"));
                }
                Ok(Self { bucket: format!("s3://{bucket}").into(), prefix, scheme: Scheme::S3 })
            }
            ("s3" | "s3a", _) => Err(LocationError::NoBucket),
            (other, _) => Err(LocationError::UnknownScheme(other.to_owned())),
        }
    }

    /// Whether a text is meant as a URL: it begins with `WORD://`, or with `file:` or `s3:`.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        let Some((scheme, rest)) = text.split_once(':') else { return false };
        let word = scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic());
        let known = ["file", "s3", "s3a"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
        word && (known || rest.starts_with("//"))
    }

    /// Everything of the state lies below this.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.prefix.as_ref()
    }

    /// How messages call the bucket.
    #[must_use]
    pub fn bucket(&self) -> &Arc<str> {
        &self.bucket
    }

    /// The location above, and the last part of this one's path.
    #[must_use]
    pub fn split_last(&self) -> Option<(Self, String)> {
        let parts: Vec<_> = self.prefix.parts().collect();
        let (last, above) = parts.split_last()?;
        let prefix = Path::from_iter(above.iter().cloned());
        Some((Self { prefix, ..self.clone() }, last.as_ref().to_owned()))
    }

    /// The directory, for `file:`.
    #[must_use]
    pub fn directory(&self) -> Option<PathBuf> {
        (self.scheme == Scheme::File).then(|| PathBuf::from(format!("/{}", self.prefix)))
    }

    /// A client of the store. Requests are tried again for `patience` if the store is away. Nothing is asked yet.
    ///
    /// # Errors
    /// What the environment says cannot be; [`StoreError::Io`].
    pub fn connect(&self, patience: Duration) -> Result<Arc<dyn ObjectStore>, StoreError> {
        match self.scheme {
            Scheme::File => Ok(Arc::new(LocalFileSystem::new().with_fsync(true))),
            Scheme::S3 => self.connect_s3(patience),
        }
    }

    /// Makes what must be there before the first object, and is not made by a request: the directory of files, readable
    /// by its owner alone.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn prepare(&self) -> Result<(), StoreError> {
        match self.directory() {
            Some(dir) => Disk::default().make_dir(&dir),
            None => Ok(()),
        }
    }

    /// Whether this build can get there.
    ///
    /// # Errors
    /// [`LocationError::NotBuilt`].
    pub fn check_build(&self) -> Result<(), LocationError> {
        match self.scheme {
            Scheme::S3 if cfg!(not(feature = "object-store-s3")) => {
                Err(LocationError::NotBuilt { scheme: "s3", feature: "object-store-s3" })
            }
            Scheme::S3 | Scheme::File => Ok(()),
        }
    }

    #[cfg(not(feature = "object-store-s3"))]
    fn connect_s3(&self, _: Duration) -> Result<Arc<dyn ObjectStore>, StoreError> {
        self.check_build().map_err(|error| self.unusable(error.to_string()))?;
        Err(self.unusable("this build has no client for it".to_owned()))
    }

    #[cfg(feature = "object-store-s3")]
    fn connect_s3(&self, patience: Duration) -> Result<Arc<dyn ObjectStore>, StoreError> {
        use object_store::{BackoffConfig, ClientOptions, RetryConfig, aws::AmazonS3Builder};

        // Another part of the process may have chosen before.
        _ = rustls::crypto::ring::default_provider().install_default();
        let backoff = BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: BACKOFF.min(patience),
            base: 2.0,
        };
        // Time alone ends it.
        let retry = RetryConfig { backoff, max_retries: usize::MAX, retry_timeout: patience };
        let bucket = self.bucket.trim_start_matches("s3://");
        let options =
            ClientOptions::new().with_connect_timeout(BACKOFF).with_timeout(Duration::from_secs(20));
        let builder = AmazonS3Builder::new().with_client_options(options);
        let builder = from_environment(builder).with_bucket_name(bucket).with_retry(retry);
        match builder.build() {
            Ok(store) => Ok(Arc::new(store)),
            Err(error) => Err(self.unusable(error.to_string())),
        }
    }

    fn unusable(&self, why: String) -> StoreError {
        StoreError::Io { path: PathBuf::from(self.to_string()), source: std::io::Error::other(why) }
    }
}

/// Every option that `object_store` knows by an `AWS_` name in the environment.
#[cfg(feature = "object-store-s3")]
fn from_environment(builder: object_store::aws::AmazonS3Builder) -> object_store::aws::AmazonS3Builder {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?.to_ascii_lowercase(), value.into_string().ok()?))
    };
    let given = std::env::vars_os().filter_map(text).filter(|(name, value)| {
        // The bucket is what the URL says.
        name.starts_with("aws_") && !name.contains("bucket_name") && !value.is_empty()
    });
    given.fold(builder, |builder, (name, value)| match name.parse() {
        Ok(key) => builder.with_config(key, value),
        Err(_) => builder,
    })
}

/// The URL.
impl fmt::Display for ObjectLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_a_bucket_and_a_prefix() {
        let s3 = ObjectLocation::parse("s3://bucket/jobs/one/").unwrap();
        assert_eq!((&**s3.bucket(), s3.prefix(), s3.directory()), ("s3://bucket", "jobs/one", None));
        assert_eq!(s3.to_string(), "s3://bucket/jobs/one");
        let (above, last) = s3.split_last().unwrap();
        assert_eq!((above.to_string().as_str(), last.as_str()), ("s3://bucket/jobs", "one"));
        assert_eq!(ObjectLocation::parse("s3://bucket").unwrap().prefix(), "");
        let file = ObjectLocation::parse("file:///var/lib/a%20b").unwrap();
        assert_eq!(file.directory(), Some("/var/lib/a b".into()));
        assert_eq!(ObjectLocation::parse(&file.to_string()).unwrap(), file);
    }

    #[test]
    fn what_is_no_place_is_refused_and_no_password_is_repeated() {
        let error = |text| ObjectLocation::parse(text).unwrap_err();
        assert_eq!(error("s3:///prefix"), LocationError::NoBucket);
        for relative in ["file:state", "file://host/state", "file:///", "file:/state"] {
            assert_eq!(error(relative), LocationError::NotAbsolute, "{relative}");
        }
        assert!(matches!(error("hdfs://a/b"), LocationError::UnknownScheme(_)));
        for secret in
            ["s3://AKID:hush@bucket/p", "s3://bucket/p?secret=hush", "s3://bucket/p#hush", "s3://b:1/p"]
        {
            let error = error(secret);
            assert!(matches!(error, LocationError::MoreThanPlace(_)), "{error:?}");
            assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
        }
    }

    #[test]
    fn directories_are_not_meant_as_urls() {
        for url in ["s3://b/p", "S3:b", "file:x", "hdfs://a"] {
            assert!(ObjectLocation::is_meant(url), "{url}");
        }
        for dir in ["state", "./s3://b", "a:b", "/x/y:z", "1://x", "job-2024:01"] {
            assert!(!ObjectLocation::is_meant(dir), "{dir}");
        }
    }
}
