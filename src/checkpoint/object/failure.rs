//! What it means that a request to an object store failed.

use std::{error::Error as StdError, io, path::PathBuf};

use object_store::Error;

use crate::checkpoint::error::StoreError;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Put,
    Get,
    Delete,
    List,
}

/// The error of a request about `path`.
pub(super) fn failure(path: PathBuf, request: Request, error: Error) -> StoreError {
    let why = story(&error);
    if is_lookup_of_role(&error) {
        return StoreError::NoCredentials { path, why };
    }
    match error {
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => StoreError::Denied { path, why },
        // An object that is to be put or listed cannot be missing: what it should lie in is.
        _ if why.contains("NoSuchBucket") => StoreError::NoBucket { path, why },
        Error::NotFound { .. } if request != Request::Get && of_system(&error).is_none() => {
            StoreError::NoBucket { path, why }
        }
        _ if is_away(&error) => StoreError::Unavailable { path, why },
        _ => {
            let source = match of_system(&error) {
                // A full disk below a store of files stays one.
                Some(kind) => io::Error::new(kind, error),
                None => io::Error::other(why),
            };
            StoreError::io(path)(source)
        }
    }
}

/// The error and the causes below it, the outermost first.
fn chain(error: &Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let outermost: &(dyn StdError + 'static) = error;
    std::iter::successors(Some(outermost), |error| (*error).source())
}

/// The kind of an error of the operating system, where it is the cause.
fn of_system(error: &Error) -> Option<io::ErrorKind> {
    chain(error).find_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()))
}

/// Whether the store could not be reached, or could not serve.
fn is_away(error: &Error) -> bool {
    let status = |text: &str| ["status code: 5", "status code: 429"].iter().any(|told| text.contains(told));
    #[cfg(feature = "object-store-s3")]
    if chain(error).any(|cause| cause.is::<object_store::client::HttpError>()) {
        return true;
    }
    matches!(error, Error::Generic { .. }) && status(&error.to_string())
}

/// Where the environment names no credentials, the machine's own role is asked for at a fixed address.
fn is_lookup_of_role(error: &Error) -> bool {
    let text = error.to_string();
    ["/latest/api/token", "/latest/meta-data"].iter().any(|path| text.contains(path))
}

/// The error for people: of a page of XML what it says, and the last cause, which says most.
fn story(error: &Error) -> String {
    let mut text = error.to_string();
    if let Some(said) = said(&text) {
        let before = text.find("<?xml").or_else(|| text.find("<Error")).unwrap_or(text.len());
        text = format!("{}{said}", &text[..before]);
    }
    if let Some(last) = chain(error).last().map(ToString::to_string) {
        if !text.contains(&last) && !last.contains("<Error") {
            text = format!("{text}: {last}");
        }
    }
    text
}

/// `Code: Message` of an answer of S3. What else is in it may be what was signed.
fn said(text: &str) -> Option<String> {
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once("</")?.0)
    };
    let code = element("Code")?;
    Some(element("Message").map_or_else(|| code.to_owned(), |message| format!("{code}: {message}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error::Generic { store: "S3", source: source.into() }
    }

    fn of(request: Request, error: Error) -> StoreError {
        failure("s3://b/p/heads/1".into(), request, error)
    }

    #[test]
    fn what_a_store_says_is_told_without_what_was_signed() {
        let page = "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code><Message>Look at the key.</Message>\
                    <AWSAccessKeyId>AKID</AWSAccessKeyId><StringToSign>secret</StringToSign></Error>";
        let source = format!("Server returned non-2xx status code: 403 Forbidden: {page}");
        let error = of(Request::Put, Error::PermissionDenied { path: "p".into(), source: source.into() });
        assert!(matches!(error, StoreError::Denied { .. }), "{error}");
        let told = format!("{error} {error:?}");
        assert!(told.contains("SignatureDoesNotMatch: Look at the key."), "{told}");
        assert!(!told.contains("AKID") && !told.contains("secret"), "{told}");
    }

    #[test]
    fn a_store_that_cannot_serve_is_away_and_one_that_refuses_is_not() {
        for status in ["500 Internal Server Error", "503 Slow Down", "429 Too Many Requests"] {
            let error = of(Request::List, generic(format!("Server returned non-2xx status code: {status}")));
            assert!(matches!(error, StoreError::Unavailable { .. }) && error.is_transient(), "{error}");
        }
        let error = of(Request::List, generic("Server returned non-2xx status code: 400 Bad Request"));
        assert!(matches!(error, StoreError::Io { .. }) && !error.is_transient(), "{error}");
    }

    #[test]
    fn a_full_disk_stays_one_and_a_missing_bucket_is_told() {
        let full = of(Request::Put, generic(io::Error::from(io::ErrorKind::StorageFull)));
        assert!(matches!(full, StoreError::Full { .. }), "{full}");
        let missing = || Error::NotFound { path: "p".into(), source: "404 Not Found".into() };
        assert!(matches!(of(Request::Put, missing()), StoreError::NoBucket { .. }));
        assert!(matches!(of(Request::List, missing()), StoreError::NoBucket { .. }));
        let listed = generic("status code: 404 Not Found: <Error><Code>NoSuchBucket</Code></Error>");
        assert!(matches!(of(Request::List, listed), StoreError::NoBucket { .. }));
        let role = of(Request::List, generic("Error performing PUT http://127.0.0.1:1/latest/api/token"));
        assert!(matches!(role, StoreError::NoCredentials { .. }), "{role}");
    }
}
