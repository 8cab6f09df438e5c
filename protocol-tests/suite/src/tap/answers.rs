//! Answers that are changed on their way: what a broker could say, and says so seldom that no test can wait for it.

use std::fmt;
use std::time::Duration;

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

/// So many times are for ever.
const ENDLESS: u32 = 1_000_000;

/// What goes to the client instead of a frame: these bytes as they are, length field and all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mangled {
    /// The bytes.
    pub bytes: Bytes,
    /// If they come one by one: how far they are apart.
    pub pace: Option<Duration>,
    /// Nothing follows them on their connection, so that nothing completes them.
    pub last: bool,
}

type Mangle = Box<dyn FnMut(i16, &Bytes) -> Mangled + Send>;

/// One rule about the bytes of answers.
pub(super) struct Mangling {
    api: Api,
    left: u32,
    mangle: Mangle,
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

    /// The next `times` answers of an API reach the client as these bytes. `mangle` is given the version and the frame
    /// without its length.
    pub fn mangle(&self, api: Api, times: u32, mangle: impl FnMut(i16, &Bytes) -> Mangled + Send + 'static) {
        lock(&self.0.manglings).push(Mangling { api, left: times, mangle: Box::new(mangle) });
    }

    /// What is still to happen: to requests, and to answers by rules that have an end.
    #[must_use]
    pub fn to_come(&self) -> u32 {
        let plans = u32::try_from(lock(&self.0.plans).len()).unwrap_or(u32::MAX);
        let changes: u32 =
            lock(&self.0.changes).iter().map(|rule| rule.left).filter(|left| *left < ENDLESS).sum();
        let manglings: u32 = lock(&self.0.manglings).iter().map(|rule| rule.left).sum();
        plans + changes + manglings
    }

    pub(super) fn mangled(&self, api: Api, version: i16, frame: &Bytes) -> Option<Mangled> {
        let mut manglings = lock(&self.0.manglings);
        let rule = manglings.iter_mut().find(|rule| rule.api == api && rule.left > 0)?;
        rule.left -= 1;
        Some((rule.mangle)(version, frame))
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

impl fmt::Debug for Mangling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mangling").field("api", &self.api).field("left", &self.left).finish_non_exhaustive()
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("api", &self.api).field("left", &self.left).finish_non_exhaustive()
    }
}
