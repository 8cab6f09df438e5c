//! A pure-Rust, async Kafka **transactional client and two-phase-commit sink**.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "broker")]
pub mod broker;
pub mod checkpoint;
#[cfg(feature = "cli")]
pub mod cli;
pub mod client;
pub mod exchange;
pub mod ids;
pub mod net;
pub mod proto;
pub mod record;
pub mod sink;
pub mod source;
pub mod wire;

// The examples of the readme are compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
