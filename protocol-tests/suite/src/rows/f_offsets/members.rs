//! Groups that refuse offsets: of members that are none any more, and of whoever may not.

use kafka_2pc::client::{ConsumerGroupMetadata, EndError, SendError, Topic, Transaction};
use kafka_2pc::proto::cause::{Cause, CauseKind};
use kafka_2pc::wire::api::Api;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::{JoinGroupRequest, TxnOffsetCommitRequest};
use kafka_protocol::protocol::StrBytes;

use super::{group, kept, send};
use crate::bench::{Bench, within};
use crate::outcome::{Failure, Shown, equal, holds};

/// ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
const MOVED: [i16; 3] = [22, 25, 82];

/// Sends an offset that must be refused.
async fn refused(
    bench: &Bench,
    transaction: &mut Transaction,
    (group, topic): (&ConsumerGroupMetadata, &Topic),
) -> Result<Cause, Failure> {
    match send(bench, transaction, (group, topic), 5).await? {
        Err(SendError::Failed(cause)) => Ok(cause),
        other => Err(Failure::wrong(format!("the group took an offset: {other:?}"))),
    }
}

/// The only member of a group, as it joined.
async fn join(bench: &Bench, group: &ConsumerGroupMetadata) -> Result<ConsumerGroupMetadata, Failure> {
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range"));
    let request = JoinGroupRequest::default()
        .with_group_id(text(group.group_id.as_str()).into())
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(30_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    let joined = bench.raw().await?.ask(3, &request).await?;
    equal("the answer to JoinGroup", joined.error_code, 0)?;
    let (member_id, generation_id) = (joined.member_id.to_string(), joined.generation_id);
    Ok(ConsumerGroupMetadata { member_id, generation_id, ..group.clone() })
}

/// Who the member is goes with its offsets. A member that is none any more, or of an older generation, is refused, which
/// costs its transaction and no more.
pub(super) async fn f03(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let (topic, group) = (bench.topic(&client, 1).await?, group());
    let member = join(bench, &group).await?;
    let mut transaction = bench.init(&client, &bench.id("f03")).await?.begin();
    send(bench, &mut transaction, (&member, &topic), 1).await??;
    let mut producer = bench.step("commit", within(transaction.commit()).await?)?;
    equal("the offset of a member", kept(bench, &group, &topic).await?, Some(1))?;

    let stale = ConsumerGroupMetadata { generation_id: member.generation_id - 1, ..member.clone() };
    let stranger = ConsumerGroupMetadata {
        member_id: "stranger".to_owned(),
        group_instance_id: Some("instance".to_owned()),
        ..member.clone()
    };
    for other in [stale, stranger] {
        let mut transaction = producer.begin();
        bench.write(&mut transaction, &topic, 0, &["no"]).await?;
        let cause = refused(bench, &mut transaction, (&other, &topic)).await?;
        equal(&format!("the cause for {other:?}"), cause.kind, CauseKind::GroupMoved)?;
        let requests = bench.tap.requests();
        let last = requests.iter().rfind(|r| r.api == Api::TxnOffsetCommit);
        let last = last.ok_or_else(|| Failure::wrong("no offset was sent"))?;
        let sent = last.decode::<TxnOffsetCommitRequest>()?;
        let instance = sent.group_instance_id.as_ref().map(ToString::to_string);
        let named = (sent.generation_id, sent.member_id.to_string(), instance);
        equal("what was sent", named, (other.generation_id, other.member_id, other.group_instance_id))?;
        producer = bench.step("abort", within(transaction.abort()).await?)?;
    }
    for code in MOVED {
        let mut transaction = producer.begin();
        bench.write(&mut transaction, &topic, 0, &["no"]).await?;
        bench.refuse(Api::TxnOffsetCommit, code, 1)?;
        let cause = refused(bench, &mut transaction, (&member, &topic)).await?;
        equal(&format!("the cause of {code}"), cause.kind, CauseKind::GroupMoved)?;
        let again = refused(bench, &mut transaction, (&member, &topic)).await?;
        equal(&format!("the cause of {code}, told again"), again.kind, CauseKind::GroupMoved)?;
        // A commit in spite of it is none.
        match within(transaction.commit()).await? {
            Err(EndError::Failed(cause)) => equal("why", cause.kind, CauseKind::GroupMoved)?,
            other => return Err(Failure::wrong(format!("a commit without its offsets: {other:?}"))),
        }
        producer = bench.init(&client, &bench.id("f03")).await?;
    }
    let mut transaction = producer.begin();
    bench.write(&mut transaction, &topic, 0, &["yes"]).await?;
    send(bench, &mut transaction, (&member, &topic), 2).await??;
    bench.step("commit", within(transaction.commit()).await?)?;
    equal("the group", kept(bench, &group, &topic).await?, Some(2))?;
    equal("committed", bench.committed(&topic).await?, ["yes"])
}

/// A group that may not be read is named, the transaction can only be aborted, and the producer goes on.
pub(super) async fn f04(bench: &Bench) -> Shown {
    let client = bench.client()?;
    let topic = bench.topic(&client, 1).await?;
    let (forbidden, allowed) = (group(), group());
    bench.forbid_group(&forbidden.group_id).await?;
    let mut transaction = bench.init(&client, &bench.id("f04")).await?.begin();
    bench.write(&mut transaction, &topic, 0, &["no"]).await?;
    let cause = refused(bench, &mut transaction, (&forbidden, &topic)).await?;
    equal("the cause", cause.kind, CauseKind::Denied)?;
    let named = cause.to_string();
    holds(named.contains(forbidden.group_id.as_str()), format!("the group is not named: {named}"))?;
    let mut next = bench.step("abort", within(transaction.abort()).await?)?.begin();
    bench.write(&mut next, &topic, 0, &["1"]).await?;
    send(bench, &mut next, (&allowed, &topic), 6).await??;
    let producer = bench.step("commit", within(next.commit()).await?)?;
    bench.allow_group(&forbidden.group_id).await?;
    let mut last = producer.begin();
    bench.write(&mut last, &topic, 0, &["2"]).await?;
    send(bench, &mut last, (&forbidden, &topic), 7).await??;
    bench.step("commit", within(last.commit()).await?)?;
    equal("the group that was allowed", kept(bench, &allowed, &topic).await?, Some(6))?;
    equal("the group that became allowed", kept(bench, &forbidden, &topic).await?, Some(7))?;
    equal("committed", bench.committed(&topic).await?, ["1", "2"])
}
