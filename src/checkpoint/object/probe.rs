//! Whether a store can keep two owners apart.

use super::bucket::{Bucket, Created, Folder};
use crate::checkpoint::error::StoreError;

/// An object that stays: were it removed, somebody else who looks in that moment would be misled.
const NAME: &str = "conditional-put";

/// Creates an object that is there, or was created a moment ago: that must be refused. A store that does not know
/// conditional writes, as some that speak S3's protocol, passes over the condition and overwrites.
pub(super) async fn conditional_put(bucket: &Bucket) -> Result<(), StoreError> {
    for _ in 0..2 {
        if bucket.create(Folder::Probes, NAME, "once".into()).await? == Created::Before {
            return Ok(());
        }
    }
    let why = "an object was created a second time".to_owned();
    Err(StoreError::NoConditionalPut { path: bucket.root(), why })
}
