//! JoinGroup 0 to 9, SyncGroup 0 to 5, Heartbeat 0 to 4, LeaveGroup 0 to 5: groups of one member.
//!
//! - A first JoinGroup without a member id is answered MEMBER_ID_REQUIRED with one (version 4 and newer).
//! - Whoever joins is the only member and the leader; a member that was there before learns it from its next
//!   heartbeat (UNKNOWN_MEMBER_ID). There is no session timeout.

use bytes::Bytes;
use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, SyncGroupRequest, SyncGroupResponse,
};

use super::{Handler, text};
use crate::broker::shared::Context;

impl Handler for JoinGroupRequest {
    type Response = JoinGroupResponse;

    async fn handle(self, ctx: &Context, version: i16) -> JoinGroupResponse {
        let mut cluster = ctx.shared.cluster();
        if let Err(error) = cluster.check_group_coordinator(ctx.node, &self.group_id) {
            return self.refuse(version, error.code());
        }
        let Some(protocol) = self.protocols.first() else {
            return self.refuse(version, ResponseError::InconsistentGroupProtocol.code());
        };
        let member = if self.member_id.is_empty() {
            let member = cluster.groups.new_member(&ctx.client_id);
            if version >= 4 && self.group_instance_id.is_none() {
                let code = ResponseError::MemberIdRequired.code();
                return self.refuse(version, code).with_member_id(text(&member));
            }
            member
        } else {
            self.member_id.to_string()
        };
        let group = cluster.groups.group_mut(&self.group_id);
        group.generation += 1;
        group.member = Some(member.clone());
        group.assignment = Bytes::new();
        let only = JoinGroupResponseMember::default()
            .with_member_id(text(&member))
            .with_group_instance_id(self.group_instance_id.clone())
            .with_metadata(protocol.metadata.clone());
        JoinGroupResponse::default()
            .with_generation_id(group.generation)
            .with_protocol_type(Some(self.protocol_type.clone()))
            .with_protocol_name(Some(protocol.name.clone()))
            .with_leader(text(&member))
            .with_member_id(text(&member))
            .with_members(vec![only])
    }

    fn refuse(&self, version: i16, code: i16) -> JoinGroupResponse {
        let name = if version >= 7 { None } else { Some(text("")) };
        JoinGroupResponse::default()
            .with_error_code(code)
            .with_generation_id(-1)
            .with_protocol_name(name)
            .with_member_id(self.member_id.clone())
    }
}

impl Handler for SyncGroupRequest {
    type Response = SyncGroupResponse;

    async fn handle(self, ctx: &Context, version: i16) -> SyncGroupResponse {
        let mut cluster = ctx.shared.cluster();
        let checked = cluster.check_group_coordinator(ctx.node, &self.group_id);
        let group = cluster.groups.group_mut(&self.group_id);
        let checked = checked.and_then(|()| group.check_member(&self.member_id, self.generation_id));
        if let Err(error) = checked {
            return self.refuse(version, error.code());
        }
        if let Some(own) = self.assignments.iter().find(|a| a.member_id == self.member_id) {
            group.assignment = own.assignment.clone();
        }
        SyncGroupResponse::default()
            .with_protocol_type(self.protocol_type.clone())
            .with_protocol_name(self.protocol_name.clone())
            .with_assignment(group.assignment.clone())
    }

    fn refuse(&self, _version: i16, code: i16) -> SyncGroupResponse {
        SyncGroupResponse::default().with_error_code(code)
    }
}

impl Handler for HeartbeatRequest {
    type Response = HeartbeatResponse;

    async fn handle(self, ctx: &Context, version: i16) -> HeartbeatResponse {
        let mut cluster = ctx.shared.cluster();
        let checked = cluster.check_group_coordinator(ctx.node, &self.group_id);
        let group = cluster.groups.group_mut(&self.group_id);
        let checked = checked.and_then(|()| group.check_member(&self.member_id, self.generation_id));
        self.refuse(version, checked.err().map_or(0, |error| error.code()))
    }

    fn refuse(&self, _version: i16, code: i16) -> HeartbeatResponse {
        HeartbeatResponse::default().with_error_code(code)
    }
}

impl Handler for LeaveGroupRequest {
    type Response = LeaveGroupResponse;

    async fn handle(self, ctx: &Context, version: i16) -> LeaveGroupResponse {
        let mut cluster = ctx.shared.cluster();
        if let Err(error) = cluster.check_group_coordinator(ctx.node, &self.group_id) {
            return self.refuse(version, error.code());
        }
        let group = cluster.groups.group_mut(&self.group_id);
        if version < 3 {
            let left = group.leave(&self.member_id);
            return self.refuse(version, left.err().map_or(0, |error| error.code()));
        }
        let members = self.members.iter().map(|member| {
            let left = group.leave(&member.member_id);
            MemberResponse::default()
                .with_member_id(member.member_id.clone())
                .with_group_instance_id(member.group_instance_id.clone())
                .with_error_code(left.err().map_or(0, |error| error.code()))
        });
        LeaveGroupResponse::default().with_members(members.collect())
    }

    fn refuse(&self, _version: i16, code: i16) -> LeaveGroupResponse {
        LeaveGroupResponse::default().with_error_code(code)
    }
}
