//! Carrying a request out, or what a fault makes of it.

use std::time::Duration;

use kafka_protocol::protocol::Encodable;

use super::access;
use super::api::Handler;
use super::cluster::Cluster;
use super::dispatch::{Answer, Held};
use super::election::NewLeader;
use super::fault::{Reaction, Seen};
use super::frame::{self, Call, Unreadable};
use super::journal::{Codes, JournalEntry, Keys, Named};
use super::server::cut;
use super::shared::Context;

/// Who sends requests where nobody logs in.
const ANONYMOUS: &str = "User:ANONYMOUS";

/// Notes the request, and answers it as the rules and faults say.
pub(crate) async fn perform<R>(ctx: &Context, call: Call, request: R) -> Result<Answer, Unreadable>
where
    R: Handler + Named + 'static,
    R::Response: Encodable + Codes,
{
    let mut keys = request.keys();
    for id in request.topic_ids() {
        if let Some(name) = ctx.shared.cluster().topics.name_of(id) {
            keys.rename(id, name);
        }
    }
    let reaction = reaction(ctx, &call, &keys);
    let number = note(ctx, &call, &keys, reaction);
    let work = Work { ctx: ctx.clone(), call, keys, request, number };
    match reaction {
        None => work.answered().await,
        Some(reaction) => work.bent(reaction).await,
    }
}

/// What a fault makes of the call.
pub(crate) fn reaction(ctx: &Context, call: &Call, keys: &Keys) -> Option<Reaction> {
    let seen = Seen { api: call.api, node: ctx.node, client_id: &call.client_id, keys };
    ctx.shared.faults().on_request(&seen)
}

/// Notes the call in the journal, and tells its number there.
pub(crate) fn note(ctx: &Context, call: &Call, keys: &Keys, reaction: Option<Reaction>) -> u64 {
    ctx.shared.journal().began(JournalEntry {
        time_ms: ctx.shared.now_ms(),
        api: call.api,
        version: call.version,
        node: ctx.node,
        connection: ctx.connection,
        principal: ANONYMOUS.to_owned(),
        client_id: call.client_id.clone(),
        keys: keys.clone(),
        reaction,
        answer: None,
    })
}

struct Work<R> {
    ctx: Context,
    call: Call,
    keys: Keys,
    request: R,
    number: u64,
}

impl<R> Work<R>
where
    R: Handler + Named + 'static,
    R::Response: Encodable + Codes,
{
    async fn answered(self) -> Result<Answer, Unreadable> {
        let reply = self.reply();
        let response = self.carried_out().await;
        reply.with::<R>(&response)
    }

    /// Access rules first, then the handler.
    async fn carried_out(self) -> R::Response {
        let version = self.call.version;
        match access::check(&self.ctx, self.call.api, &self.keys) {
            Ok(()) => self.request.handle(&self.ctx, version).await,
            Err(error) => self.request.refuse(version, error.code()),
        }
    }

    async fn bent(self, reaction: Reaction) -> Result<Answer, Unreadable> {
        let (ctx, reply) = (self.ctx.clone(), self.reply());
        match reaction {
            Reaction::Drop => Ok(Answer::Close),
            Reaction::CutRequest(_) => Ok(Answer::Close),
            Reaction::ErrorCode(code) => {
                let response = self.request.refuse(self.call.version, code);
                reply.with::<R>(&response)
            }
            Reaction::ApplyThenErrorCode(code) => {
                let response = self.request.refuse(self.call.version, code);
                self.carried_out().await;
                reply.with::<R>(&response)
            }
            Reaction::ApplyThenDrop => {
                self.carried_out().await;
                Ok(Answer::Close)
            }
            Reaction::Delay(by) => {
                tokio::time::sleep(by).await;
                self.answered().await
            }
            Reaction::ApplyThenDelay(by) => {
                let answer = self.answered().await;
                tokio::time::sleep(by).await;
                answer
            }
            Reaction::Hold(after) => Ok(self.held(Some(after))),
            Reaction::HoldUntilDelivered => Ok(self.held(None)),
            Reaction::CutAnswer(bytes) => match self.answered().await? {
                Answer::Frame(frame) => Ok(Answer::Cut(cut(frame, bytes))),
                other => Ok(other),
            },
            Reaction::Crash => {
                ctx.shared.crash(ctx.node);
                Ok(Answer::Close)
            }
            Reaction::ApplyThenCrash => {
                self.carried_out().await;
                ctx.shared.crash(ctx.node);
                Ok(Answer::Close)
            }
            Reaction::MoveCoordinator => {
                move_coordinators(&mut ctx.shared.cluster(), &self.keys);
                ctx.shared.announce();
                self.answered().await
            }
            Reaction::MoveLeader => {
                move_leaders(&mut ctx.shared.cluster(), &self.keys);
                ctx.shared.announce();
                self.answered().await
            }
            Reaction::Freeze(time) => {
                frozen(&ctx, time).await;
                self.answered().await
            }
        }
    }

    fn reply(&self) -> Reply {
        // The body was read.
        let call = Call { body: bytes::Bytes::new(), ..self.call.clone() };
        Reply { ctx: self.ctx.clone(), call, number: self.number, silent: self.request.is_silent() }
    }

    fn held(self, after: Option<Duration>) -> Answer {
        let work = Box::pin(async move {
            self.carried_out().await;
        });
        Answer::Held(Held { work, after })
    }
}

/// Where an answer goes.
struct Reply {
    ctx: Context,
    call: Call,
    number: u64,
    silent: bool,
}

impl Reply {
    fn with<R>(&self, response: &R::Response) -> Result<Answer, Unreadable>
    where
        R: Handler,
        R::Response: Encodable + Codes,
    {
        self.ctx.shared.journal().answered(self.number, response.first_error());
        if self.silent {
            return Ok(Answer::Silence);
        }
        let version = R::response_version(self.call.version);
        frame::response(&self.call, version, response).map(Answer::Frame)
    }
}

fn move_coordinators(cluster: &mut Cluster, keys: &Keys) {
    if let Some(id) = &keys.transactional_id {
        let at = cluster.transaction_partition(id);
        cluster.move_leader(&at, NewLeader::Next);
    }
    if let Some(group) = &keys.group {
        let at = cluster.offsets_partition(group);
        cluster.move_leader(&at, NewLeader::Next);
    }
}

fn move_leaders(cluster: &mut Cluster, keys: &Keys) {
    for at in &keys.partitions {
        cluster.move_leader(at, NewLeader::Next);
    }
}

/// The node does nothing for a while. The time runs on its own: a node that dies meanwhile is not frozen when it comes
/// back.
async fn frozen(ctx: &Context, time: Duration) {
    ctx.shared.cluster().freeze(ctx.node);
    tokio::time::sleep(time).await;
    ctx.shared.cluster().thaw(ctx.node);
    ctx.shared.announce();
}
