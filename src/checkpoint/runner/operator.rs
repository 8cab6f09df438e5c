//! What users write: transformations of records, with state by key.

use bytes::Bytes;

use super::keyed::KeyedState;
use crate::record::Record;

/// Why an operator gives up; for people. The job goes back to its last checkpoint.
pub type OperatorError = Box<dyn std::error::Error + Send + Sync>;

/// An operator with state by key. Each of its subtasks has one, and sees the keys of its own key groups only.
///
/// What it remembers outside of [`Context`] is not in any checkpoint.
pub trait Operator: Send {
    /// Takes a record.
    ///
    /// # Errors
    /// Whatever makes it impossible to go on.
    fn process(&mut self, record: Record, context: &mut Context<'_>) -> Result<(), OperatorError>;

    /// All inputs came to their end: the last records may be emitted. Called before the job's last checkpoint. The
    /// context has no key.
    ///
    /// # Errors
    /// Whatever makes it impossible to go on.
    fn finish(&mut self, context: &mut Context<'_>) -> Result<(), OperatorError> {
        let _ = context;
        Ok(())
    }
}

impl<F> Operator for F
where
    F: FnMut(Record, &mut Context<'_>) -> Result<(), OperatorError> + Send,
{
    fn process(&mut self, record: Record, context: &mut Context<'_>) -> Result<(), OperatorError> {
        self(record, context)
    }
}

/// What an operator sees and changes while it works on a record: the state of the record's key, and its output.
#[derive(Debug)]
pub struct Context<'a> {
    pub(super) key: Option<Bytes>,
    pub(super) state: &'a mut KeyedState,
    pub(super) output: &'a mut Vec<Record>,
}

impl Context<'_> {
    /// The key of the record, as `key_by` made it; `None` behind anything but `key_by`, and in
    /// [`finish`](Operator::finish).
    #[must_use]
    pub fn key(&self) -> Option<&Bytes> {
        self.key.as_ref()
    }

    /// The state of the key.
    #[must_use]
    pub fn value(&self) -> Option<&Bytes> {
        self.state.value(self.key.as_ref()?)
    }

    /// Changes the state of the key. Without a key there is no state, and nothing happens.
    pub fn set(&mut self, value: impl Into<Bytes>) {
        if let Some(key) = &self.key {
            self.state.set(key, value.into());
        }
    }

    /// Removes the state of the key.
    pub fn clear(&mut self) {
        if let Some(key) = &self.key {
            self.state.clear(key);
        }
    }

    /// Every key of this subtask that has state, with it.
    pub fn entries(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.state.entries()
    }

    /// Sends a record on.
    pub fn emit(&mut self, record: Record) {
        self.output.push(record);
    }
}
