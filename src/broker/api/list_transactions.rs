//! ListTransactions, versions 0 to 2.
//!
//! - A node lists the ids that it coordinates and the client may describe, in every state.
//! - State names are case sensitive; unknown ones come back in `UnknownStateFilters`.
//! - Duration (version 1): now - start exceeds it; `Empty` ids always pass, as their start is -1.
//! - Pattern (version 2): RE2 syntax, the whole id must match; a bad one is INVALID_REGULAR_EXPRESSION.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::list_transactions_response::TransactionState;
use kafka_protocol::messages::{ListTransactionsRequest, ListTransactionsResponse};
use regex_lite::Regex;

use super::{Handler, text, transactional_id};
use crate::broker::access::{Operation, Resource};
use crate::broker::coordinator::entry::Entry;
use crate::broker::shared::Context;

const STATES: [&str; 8] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
];

impl Handler for ListTransactionsRequest {
    type Response = ListTransactionsResponse;

    async fn handle(self, ctx: &Context, version: i16) -> ListTransactionsResponse {
        let pattern = match self.transactional_id_pattern.as_ref().map(|p| whole_match(p)).transpose() {
            Ok(pattern) => pattern,
            Err(error) => return self.refuse(version, error.code()),
        };
        let cluster = ctx.shared.cluster();
        let now = ctx.shared.now_ms();
        let states = cluster.transactions.entries().filter(|(id, entry)| {
            cluster.transaction_coordinator(id).is_some_and(|(node, _)| node == ctx.node)
                && pattern.as_ref().is_none_or(|p| p.is_match(id))
                && passes(&self, entry, now)
                && ctx.may(Operation::Describe, Resource::TransactionalId((*id).to_owned())).is_ok()
        });
        let states = states.map(|(id, entry)| {
            TransactionState::default()
                .with_transactional_id(transactional_id(id))
                .with_producer_id(entry.pair.id.into())
                .with_transaction_state(text(entry.state.name()))
        });
        let unknown = self.state_filters.iter().filter(|name| !STATES.contains(&name.as_str())).cloned();
        ListTransactionsResponse::default()
            .with_unknown_state_filters(unknown.collect())
            .with_transaction_states(states.collect())
    }

    fn refuse(&self, _version: i16, code: i16) -> ListTransactionsResponse {
        ListTransactionsResponse::default().with_error_code(code)
    }
}

fn passes(request: &ListTransactionsRequest, entry: &Entry, now_ms: i64) -> bool {
    let states = &request.state_filters;
    let producers = &request.producer_id_filters;
    (states.is_empty() || states.iter().any(|name| name.as_str() == entry.state.name()))
        && (producers.is_empty() || producers.iter().any(|id| id.0 == entry.pair.id))
        && (request.duration_filter < 0 || now_ms.saturating_sub(entry.start_ms) > request.duration_filter)
}

/// A pattern for whole ids; an empty one matches all.
fn whole_match(pattern: &str) -> Result<Regex, ResponseError> {
    let pattern = if pattern.is_empty() { ".*".to_owned() } else { without_quotes(pattern) };
    Regex::new(&format!("^(?:{pattern})$")).map_err(|_| ResponseError::InvalidRegularExpression)
}

/// RE2's `\Q..\E`, which the regex crate does not know, written out.
fn without_quotes(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, quoted)) = rest.split_once("\\Q") {
        let (literal, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
        out.push_str(before);
        out.push_str(&regex_lite::escape(literal));
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_ids_and_may_quote() {
        let matches = |pattern: &str, id: &str| whole_match(pattern).unwrap().is_match(id);
        assert!(matches("", "anything"));
        assert!(matches(r"\Qa.b\E-[0-9]+", "a.b-12"));
        assert!(!matches(r"\Qa.b\E-[0-9]+", "axb-12"));
        assert!(!matches("ab", "abc"));
        assert_eq!(whole_match("(").unwrap_err(), ResponseError::InvalidRegularExpression);
    }
}
