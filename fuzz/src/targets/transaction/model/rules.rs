//! What each effect must obey.

use kafka_2pc::{
    ids::TopicPartition,
    proto::{
        outbox::{BatchId, Item, Produce},
        transaction::{Effect, Finish, Goal, Input},
    },
    wire::{batch::increment_sequence, versions::TransactionVersion},
};

use super::{Fate, IN_FLIGHT, Model, REQUEST_BYTES};

impl Model {
    /// Gives a fact, or a command that is allowed, and looks at every effect.
    pub(super) fn give(&mut self, input: Input) {
        let told = format!("{input:?}");
        assert_eq!(self.machine.handle(self.now, input), Ok(()), "{told}");
        while let Some(effect) = self.machine.poll_effect() {
            self.see(effect);
        }
        let deadline = self.machine.next_deadline(self.now);
        assert!(deadline.is_none_or(|at| at > self.now), "{deadline:?} has passed after {told}: {self:#?}");
    }

    /// True while requests may leave: neither failed nor ended, and no abort was asked for.
    pub(super) fn sends(&self) -> bool {
        self.failed.is_none() && self.finished.is_none() && self.goal != Some(Goal::Abort)
    }

    fn see(&mut self, effect: Effect) {
        let late = matches!(effect, Effect::Stored { .. } | Effect::Discarded(_));
        assert!(self.finished.is_none() || late, "{effect:?} behind the end: {self:#?}");
        match effect {
            Effect::AddPartitions(partitions) => self.see_add(partitions),
            Effect::AddOffsets(group) => {
                self.one_call();
                assert!(
                    self.sends() && self.version < TransactionVersion::V2 && !self.groups.contains(&group)
                );
                assert_eq!(self.offsets.front().map(|o| &o.group.group_id), Some(&group));
                self.adding_group = Some(group);
                self.reached = true;
            }
            Effect::CommitOffsets(offsets) => {
                assert!(self.sends() && self.committing.is_none());
                assert_eq!(self.offsets.front(), Some(&offsets), "offsets overtake each other");
                let group = &offsets.group.group_id;
                assert!(self.version >= TransactionVersion::V2 || self.groups.contains(group));
                self.committing = Some(offsets);
                self.reached = true;
            }
            Effect::OffsetsStored => {
                assert!(self.offsets.pop_front().is_some() && self.sends());
            }
            Effect::Produce(request) => self.see_produce(request),
            Effect::FindLeaders(partitions) => {
                assert!(self.sends() && self.finding.is_none() && !partitions.is_empty());
                self.finding = Some(partitions);
            }
            Effect::CheckTopics { .. } => {
                assert!(self.sends() && self.goal.is_some() && !self.checking && !self.checked);
                self.checking = true;
            }
            Effect::Describe => {
                assert!(self.sends() && self.goal != Some(Goal::Commit) && !self.described);
                (self.describing, self.described) = (true, true);
            }
            Effect::ForgetCoordinator | Effect::ForgetGroupCoordinator(_) => {}
            Effect::Abort => self.see_abort(),
            Effect::Stored { batch, offset } => self.see_stored(batch, offset),
            Effect::Discarded(batches) => batches.into_iter().for_each(|batch| self.see_discarded(batch)),
            Effect::Flushed => {
                assert!(self.sends() && self.flushes > 0);
                assert!(self.batches.values().all(|known| known.fate == Fate::Stored), "{self:#?}");
                self.flushes -= 1;
            }
            Effect::Failed(cause) => {
                let again = self.asks && self.failed.as_ref() == Some(&cause);
                assert!(again || self.sends(), "failed for {cause:?}: {self:#?}");
                self.failed = Some(cause);
            }
            Effect::Finished(finish) => {
                self.see_finished(&finish);
                self.finished = Some(finish);
            }
        }
    }

    /// One request to the transaction's coordinator is under way at a time.
    fn one_call(&self) {
        assert!(self.adding.is_none() && self.adding_group.is_none() && !self.aborting, "{self:#?}");
    }

    fn see_add(&mut self, partitions: Vec<TopicPartition>) {
        self.one_call();
        assert!(self.sends() && self.version < TransactionVersion::V2 && !partitions.is_empty());
        assert!(partitions.iter().all(|partition| !self.members.contains(partition)), "{partitions:?}");
        self.adding = Some(partitions);
        self.reached = true;
    }

    fn see_produce(&mut self, request: Produce) {
        assert!(self.sends(), "{request:?} in {self:#?}");
        let to_node = self.requests.values().filter(|other| other.node == request.node).count();
        assert!(to_node < IN_FLIGHT && !request.items.is_empty());
        let bytes: usize = request.items.iter().map(|item| self.known(item.batch).bytes).sum();
        assert!(bytes <= REQUEST_BYTES || request.items.len() == 1);
        for (index, item) in request.items.iter().enumerate() {
            let before = &request.items[..index];
            assert!(before.iter().all(|other| other.partition != item.partition), "{request:?}");
            assert!(self.leaders.contains(&(item.partition.clone(), request.node)), "{request:?}");
            self.see_item(item);
        }
        self.reached = true;
        let replaced = self.requests.insert(request.request, request);
        assert_eq!(replaced, None, "two requests of one name");
    }

    /// Sequences are given in the order in which batches were taken, and a retry has its own again.
    fn see_item(&mut self, item: &Item) {
        let member = self.version >= TransactionVersion::V2 || self.members.contains(&item.partition);
        assert!(member, "{item:?} leaves before its partition is a member");
        let of_partition = || self.batches.iter().filter(|(_, known)| known.partition == item.partition);
        let in_flight = of_partition().filter(|(_, known)| known.fate == Fate::InFlight).count();
        let stored = of_partition().any(|(_, known)| known.fate == Fate::Stored);
        let oldest = of_partition().find(|(_, known)| known.fate != Fate::Stored).map(|(id, _)| *id);
        let retries = of_partition().any(|(_, k)| k.fate == Fate::Waiting && k.sequence.is_some());
        let first = of_partition().find(|(_, k)| k.fate == Fate::Waiting && k.sequence.is_none());
        let first = first.map(|(id, _)| *id);
        assert!(in_flight < IN_FLIGHT);
        assert!(stored || in_flight == 0 || self.version >= TransactionVersion::V2, "the first goes alone");
        let next = self.sequences.get(&item.partition).copied().unwrap_or(0);
        let known = self.known(item.batch);
        assert_eq!((known.fate, &known.partition), (Fate::Waiting, &item.partition), "{item:?}");
        known.fate = Fate::InFlight;
        if let Some(sequence) = known.sequence {
            assert_eq!(sequence, item.sequence, "a retry has another sequence");
        } else {
            known.sequence = Some(next);
            assert_eq!((item.sequence, Some(item.batch)), (next, first), "{item:?} overtakes");
            let behind = increment_sequence(next, known.records);
            self.sequences.insert(item.partition.clone(), behind);
        }
        if retries {
            assert_eq!((in_flight, oldest), (0, Some(item.batch)), "a retry goes alone, the oldest first");
        }
    }

    /// EndTxn goes out when nothing else is under way that could open the transaction again.
    fn see_abort(&mut self) {
        self.one_call();
        assert_eq!(self.goal, Some(Goal::Abort));
        assert!(self.reached && self.requests.is_empty() && self.committing.is_none(), "{self:#?}");
        self.aborting = true;
    }

    fn see_stored(&mut self, batch: BatchId, offset: Option<i64>) {
        let known = self.known(batch);
        assert_eq!(known.fate, Fate::Answered, "{batch:?} is not what was answered");
        known.fate = Fate::Stored;
        let (partition, records) = (known.partition.clone(), known.records);
        let acked = self.evidence.partitions.entry(partition).or_default();
        acked.records += u64::from(records.unsigned_abs());
        acked.offset = acked.offset.max(offset.unwrap_or(-1));
    }

    fn see_discarded(&mut self, batch: BatchId) {
        let known = self.known(batch);
        assert!(matches!(known.fate, Fate::Waiting | Fate::Answered), "{batch:?} was {:?}", known.fate);
        known.fate = Fate::Discarded;
    }

    fn see_finished(&self, finish: &Finish) {
        let ends_well = matches!(self.goal, Some(Goal::Prepare | Goal::Commit)) && self.failed.is_none();
        match finish {
            Finish::Empty => {
                assert!(ends_well && !self.reached && self.batches.is_empty(), "{self:#?}");
            }
            Finish::Prepared(evidence) => {
                assert!(ends_well && self.reached, "{self:#?}");
                assert!(self.batches.values().all(|known| known.fate == Fate::Stored), "{self:#?}");
                assert!(self.requests.is_empty() && self.offsets.is_empty() && self.committing.is_none());
                assert!(self.adding.is_none() && self.adding_group.is_none() && self.flushes == 0);
                assert!(self.checked || self.evidence.partitions.is_empty(), "topics were not looked at");
                assert!(self.goal != Some(Goal::Prepare) || !self.describing, "the start time is missing");
                assert_eq!(*evidence, self.evidence);
            }
            Finish::Aborted { used, .. } => {
                assert_eq!(self.goal, Some(Goal::Abort));
                assert_eq!((*used, *used), (self.reached, self.abort_answered), "{self:#?}");
            }
            Finish::Fenced(_) => assert!(self.fenced),
            Finish::Abandoned(_) => {
                assert!(self.goal == Some(Goal::Abort) && self.reached);
            }
        }
    }
}
