//! Answers that are changed on their way: what a broker could say, and says so seldom that no test can wait for it.

use std::fmt;

use bytes::{Bytes, BytesMut};
use kafka_2pc::wire::api::Api;
use kafka_2pc::wire::frame::decode_response_header;
use kafka_2pc::wire::versions::reply_version;
use kafka_protocol::protocol::{Decodable, Encodable, Request};

use super::{Tap, lock};

/// From a version and a frame to another frame.
type Alter = Box<dyn FnMut(i16, &Bytes) -> Option<Bytes> + Send>;

/// One rule; it gives the changed frame, or nothing for an answer that it is not about.
pub(super) struct Change {
    api: Api,
    left: u32,
    change: Alter,
}

impl Tap {
    /// The next `times` answers of type `R` are changed. An answer for which `change` returns false stays as it was, and
    /// does not count.
    pub fn rewrite<R: Request>(
        &self,
        times: u32,
        mut change: impl FnMut(&mut R::Response) -> bool + Send + 'static,
    ) {
        let Some(api) = Api::from_key(R::KEY) else { return };
        self.replace(api, times, move |version, frame| {
            let mut body = frame.clone();
            decode_response_header(&mut body, api, version).ok()?;
            let head = frame.len() - body.len();
            let version = reply_version(api, version, &body);
            let mut answer = R::Response::decode(&mut body, version).ok()?;
            if !change(&mut answer) {
                return None;
            }
            let mut changed = BytesMut::from(&frame[..head]);
            // An answer that stays as it was by mistake would let a row pass that shows nothing.
            let encoded = answer.encode(&mut changed, version);
            assert!(encoded.is_ok(), "{api} {version} can not be changed like that: {encoded:?}");
            Some(changed.freeze())
        });
    }

    /// The next `times` answers of an API become other frames: header and body, without the length. `None` leaves one as
    /// it was, and does not count.
    pub fn replace(
        &self,
        api: Api,
        times: u32,
        change: impl FnMut(i16, &Bytes) -> Option<Bytes> + Send + 'static,
    ) {
        lock(&self.0.changes).push(Change { api, left: times, change: Box::new(change) });
    }

    pub(super) fn change(&self, api: Api, version: i16, frame: Bytes) -> Bytes {
        let mut changes = lock(&self.0.changes);
        for rule in changes.iter_mut().filter(|rule| rule.api == api && rule.left > 0) {
            if let Some(changed) = (rule.change)(version, &frame) {
                rule.left -= 1;
                return changed;
            }
        }
        frame
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("api", &self.api).field("left", &self.left).finish_non_exhaustive()
    }
}
