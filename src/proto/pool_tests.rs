use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{
    ids::{Identity, Moment, ProducerEpoch, TopicId, TopicPartition},
    proto::{
        naming::NamingError,
        resume::Decision,
        settle::{DecidedBy, HangingPartition, OpenTransaction},
    },
};

fn pool(naming: Naming) -> Pool {
    Pool::new(naming, IdPrefix::new("job").unwrap(), Ownership::new(0, 2).unwrap(), DEFAULT_SLOTS)
}

fn hanging(id: TransactionalId) -> CommittedButHanging {
    let open = OpenTransaction { start_offset: 8, producer_epoch: ProducerEpoch(3), coordinator_epoch: 2 };
    CommittedButHanging {
        transactional_id: id,
        identity: Identity::new(7, 3),
        decision: Decision::Commit,
        by: Some(DecidedBy::EndTxnV2),
        partitions: vec![HangingPartition {
            partition: TopicPartition::new("t", 1),
            topic_id: TopicId([1; 16]),
            offset: Some(10),
            open,
        }],
    }
}

const LAST: LastUse = LastUse {
    identity: Identity { producer_id: crate::ids::ProducerId(7), epoch: ProducerEpoch(3) },
    end_txn_version: Some(5),
    start_ms: Some(10),
};

fn none() -> BTreeSet<TransactionalId> {
    BTreeSet::new()
}

#[test]
fn an_id_comes_back_only_when_decided_settled_and_dropped() {
    let steps: [fn(&mut Pool); 3] =
        [|p| p.decided(0).unwrap(), |p| p.settled(0).unwrap(), |p| p.durable(&BTreeSet::new())];
    for left_out in 0..3 {
        let mut pool = pool(Naming::Pooled);
        assert_eq!(pool.take(1), Ok(0));
        pool.prepared(0, 1, LAST).unwrap();
        pool.durable(&BTreeSet::from([pool.id(0)]));
        for (i, step) in
            steps.iter().enumerate().filter(|(i, _)| *i != left_out && !(left_out == 0 && *i == 1))
        {
            let _ = i;
            step(&mut pool);
        }
        assert!(pool.state(0).is_some(), "step {left_out} left out");
        assert_eq!(pool.take(2), Ok(1));
        steps[left_out](&mut pool);
        if left_out == 0 {
            pool.settled(0).unwrap();
            assert!(pool.state(0).is_some(), "it was dropped before it was decided, so a later drop counts");
            pool.durable(&none());
        }
        assert_eq!(pool.take(3), Ok(0));
    }
}

#[test]
fn a_committable_that_a_durable_checkpoint_lists_keeps_its_id() {
    let mut pool = pool(Naming::Pooled);
    let slot = pool.take(1).unwrap();
    pool.prepared(slot, 1, LAST).unwrap();
    pool.decided(slot).unwrap();
    pool.settled(slot).unwrap();
    pool.durable(&BTreeSet::from([pool.id(slot)]));
    assert!(pool.state(slot).is_some());
    pool.durable(&none());
    assert!(pool.state(slot).is_none());
}

#[test]
fn an_aborted_transaction_must_only_be_settled() {
    let mut pool = pool(Naming::Pooled);
    let slot = pool.take(1).unwrap();
    pool.decided(slot).unwrap();
    assert!(pool.state(slot).is_some());
    pool.settled(slot).unwrap();
    assert!(pool.state(slot).is_none());
}

#[test]
fn an_exhausted_pool_tells_what_it_waits_for() {
    let mut pool = pool(Naming::Pooled);
    for checkpoint in 0..4 {
        let slot = pool.take(checkpoint).unwrap();
        pool.prepared(slot, checkpoint, LAST).unwrap();
    }
    pool.decided(0).unwrap();
    let error = pool.take(5).unwrap_err();
    assert_eq!(error, PoolExhausted { capacity: 4, active: 0, prepared: 3, decided: 1 });
    pool.settled(0).unwrap();
    // Only a checkpoint that drops it gives the id back, but its place is free.
    assert_eq!(pool.clone().take(5), Ok(4));
    pool.durable(&(1..4).map(|slot| pool.id(slot)).collect());
    assert_eq!(pool.take(5), Ok(0));
}

#[test]
fn a_pool_without_a_free_id_holds_a_writer_up_for_so_long_and_no_longer() {
    let second = Duration::from_secs(1);
    let exhausted = PoolExhausted { capacity: 4, active: 0, prepared: 3, decided: 1 };
    let mut pressure = Pressure::new(second * 3);
    let at = |seconds: u32| Moment::default().after(second * seconds);
    assert_eq!(pressure.exhausted(at(10), exhausted.clone()), Ok(exhausted.clone()));
    assert_eq!(pressure.exhausted(at(12), exhausted.clone()), Ok(exhausted.clone()));
    pressure.relieved();
    assert_eq!(pressure.exhausted(at(13), exhausted.clone()), Ok(exhausted.clone()));
    let blocked = pressure.exhausted(at(16), exhausted.clone()).unwrap_err();
    assert_eq!((blocked.waited, &blocked.exhausted), (second * 3, &exhausted));
    assert!(blocked.to_string().contains("max.block.ms = 3000"), "{blocked}");
    assert!(blocked.to_string().contains("See what the commits wait for"), "{blocked}");
    let settling = PoolExhausted { prepared: 1, decided: 3, ..exhausted };
    assert!(settling.cure().starts_with("Markers are slow"), "{}", settling.cure());
}

#[test]
fn a_pool_without_a_free_id_is_told_once_each_time_that_lasts() {
    let ms = Duration::from_millis;
    let exhausted = PoolExhausted { capacity: 4, active: 0, prepared: 4, decided: 0 };
    let mut pressure = Pressure::new(ms(60_000));
    let mut told = |at: u64| {
        let now = Moment::default().after(ms(at));
        pressure.exhausted(now, exhausted.clone()).unwrap();
        let due = pressure.due(now);
        if at % 2 == 1 {
            pressure.relieved();
        }
        due
    };
    assert_eq!([told(0), told(900), told(1_000), told(5_000)], [None, None, Some(ms(1_000)), None]);
    assert_eq!(told(5_001), None, "and then there is a free one");
    assert_eq!([told(6_000), told(7_200)], [None, Some(ms(1_200))]);
}

#[test]
fn a_retired_id_is_never_used_and_takes_no_capacity() {
    let mut pool = pool(Naming::Pooled);
    let slot = pool.take(1).unwrap();
    pool.prepared(slot, 1, LAST).unwrap();
    pool.decided(slot).unwrap();
    pool.retire(slot, hanging(pool.id(slot))).unwrap();
    pool.durable(&none());
    assert_eq!(pool.settled(slot), Err(Misuse { slot }));
    for _ in 0..4 {
        assert_ne!(pool.take(2).unwrap(), slot);
    }
    let kept = WriterState::from_bytes(&pool.state_to_keep().to_bytes()).unwrap();
    let restored = Pool::restore(&kept, 4);
    assert!(matches!(restored.state(slot), Some(SlotState::Retired(_))));
    assert_eq!(kept.active, (1..5).map(|slot| pool.id(slot)).collect::<Vec<_>>());
}

#[test]
fn what_recovery_could_not_judge_is_avoided() {
    let mut pool = pool(Naming::Pooled);
    let avoid = BTreeSet::from([pool.id(0), TransactionalId::new("job-1-1")]);
    let retired = vec![hanging(pool.id(1))];
    pool.recovered(&Recovered { avoid, retired, ..Recovered::default() });
    assert_eq!(pool.take(1), Ok(2));
    pool.durable(&none());
    assert_eq!(pool.take(2), Ok(3));
    assert_eq!(pool.state_to_keep().retired.len(), 1);
    let elsewhere = vec![hanging(TransactionalId::new("job-1-7"))];
    pool.recovered(&Recovered { retired: elsewhere, ..Recovered::default() });
    assert_eq!(pool.state_to_keep().retired.len(), 2);
}

fn deal(states: &[WriterState], parallelism: u32, prefix: &str) -> Vec<WriterState> {
    WriterState::deal(states, parallelism, Naming::Pooled, &IdPrefix::new(prefix).unwrap()).unwrap()
}

fn ids(names: &[&str]) -> Vec<TransactionalId> {
    names.iter().map(|name| TransactionalId::new(*name)).collect()
}

#[test]
fn what_is_known_of_an_id_goes_to_its_owner() {
    let mut one = deal(&[], 1, "job").remove(0);
    one.ownership = Ownership::from_parts([0, 1, 2], 3).unwrap();
    one.active = ids(&["job-0-1", "job-2-0", "job-1-9", "old-5-0", "strange"]);
    one.retired = vec![hanging(TransactionalId::new("job-1-7"))];
    one.former_prefixes = vec![IdPrefix::new("old").unwrap()];
    let all = deal(std::slice::from_ref(&one), 3, "job");
    assert_eq!(all[0].active, ids(&["job-0-1", "strange"]));
    assert_eq!(all[1].active, ids(&["job-1-9"]));
    assert_eq!(all[2].active, ids(&["job-2-0", "old-5-0"]), "5 is the third of three");
    assert_eq!([0, 1, 2].map(|i: usize| all[i].retired.len()), [0, 1, 0]);
    let again = deal(&all, 1, "job");
    assert_eq!(again[0].ownership, one.ownership);
    assert_eq!(again[0].retired, one.retired);
    assert_eq!(again[0].active.len(), 5);
}

#[test]
fn what_was_found_of_another_subtasks_id_is_kept_for_its_next_owner() {
    let one =
        WriterState { ownership: Ownership::from_parts([0, 1], 2).unwrap(), ..deal(&[], 1, "job").remove(0) };
    let mut pool = Pool::restore(&one, 4);
    let avoid = ids(&["job-1-0", "job-0-0"]).into_iter().collect();
    pool.recovered(&Recovered { avoid, ..Recovered::default() });
    assert_eq!(pool.take(1), Ok(1));
    let two = deal(&[pool.state_to_keep()], 2, "job");
    assert_eq!(two[0].active, ids(&["job-0-0", "job-0-1"]));
    assert_eq!(two[1].active, ids(&["job-1-0"]));
}

#[test]
fn a_new_prefix_remembers_the_former_ones() {
    let former =
        |state: &WriterState| state.former_prefixes.iter().map(|p| p.as_str().to_owned()).collect::<Vec<_>>();
    let job = deal(&[], 2, "job");
    let other = deal(&job, 2, "other");
    assert_eq!(former(&other[1]), ["job"]);
    let third = deal(&other, 3, "third");
    assert_eq!(former(&third[2]), ["job", "other"]);
    let back = deal(&third, 1, "job");
    assert_eq!(former(&back[0]), ["other", "third"]);
    assert_eq!(WriterState::owner(&third, &TransactionalId::new("other-4-0")), 1);
}

#[test]
fn pooled_state_is_not_continued_with_incrementing_names() {
    let (pooled, prefix) = (deal(&[], 1, "job"), IdPrefix::new("job").unwrap());
    let error = WriterState::deal(&pooled, 1, Naming::Incrementing, &prefix);
    assert_eq!(error, Err(NamingError::Migration));
    let incrementing = WriterState::deal(&[], 1, Naming::Incrementing, &prefix).unwrap();
    assert_eq!(deal(&incrementing, 1, "job")[0].naming, Naming::Pooled);
}

#[test]
fn incrementing_ids_follow_the_checkpoints() {
    let mut pool = pool(Naming::Incrementing);
    assert_eq!(pool.take(17), Ok(17));
    assert_eq!(pool.id(17).as_str(), "job-0-17");
    assert_eq!(pool.slot(&TransactionalId::new("job-1-17")), None);
}

#[test]
fn an_unused_id_is_free_at_once_and_wrong_steps_change_nothing() {
    let mut pool = pool(Naming::Pooled);
    let slot = pool.take(1).unwrap();
    pool.unused(slot).unwrap();
    assert_eq!(pool.take(1), Ok(slot));
    pool.prepared(slot, 1, LAST).unwrap();
    let before = pool.clone();
    assert!(
        pool.prepared(slot, 2, LAST).is_err() && pool.unused(slot).is_err() && pool.settled(slot).is_err()
    );
    assert!(pool.decided(99).is_err() && pool.retire(slot, hanging(pool.id(slot))).is_err());
    assert_eq!(pool, before);
}

#[test]
fn writer_state_is_refused_torn_or_flipped() {
    let mut pool = pool(Naming::Pooled);
    pool.adopt(3, SlotState::Retired(Box::new(hanging(pool.id(3)))));
    let bytes = pool.state_to_keep().to_bytes();
    assert_eq!(WriterState::from_bytes(&bytes), Ok(pool.state_to_keep()));
    for end in 0..bytes.len() {
        assert!(WriterState::from_bytes(&bytes[..end]).is_err());
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(WriterState::from_bytes(&flipped).is_err(), "bit {bit}");
    }
}

proptest! {
    /// Whatever happens in which order: an id that is handed out has no open, undecided, listed or unsettled past.
    #[test]
    fn an_id_in_use_is_never_handed_out(steps in proptest::collection::vec((0..6u8, 0..5u64), 1..80)) {
        let mut pool = pool(Naming::Pooled);
        let mut busy: BTreeMap<Slot, (bool, bool, bool)> = BTreeMap::new();
        for (n, (step, slot)) in (0u64..).zip(steps) {
            match step {
                0 => if let Ok(slot) = pool.take(n) {
                    prop_assert!(busy.insert(slot, (false, false, false)).is_none());
                },
                1 => { let _ = pool.prepared(slot, n, LAST); }
                2 => if pool.decided(slot).is_ok() { busy.entry(slot).and_modify(|b| b.0 = true); },
                3 => if pool.settled(slot).is_ok() { busy.entry(slot).and_modify(|b| b.1 = true); },
                4 => { pool.durable(&BTreeSet::new()); busy.values_mut().filter(|b| b.0).for_each(|b| b.2 = true); }
                _ => { pool.durable(&BTreeSet::from([pool.id(slot)])); }
            }
            busy.retain(|slot, known| pool.state(*slot).is_some() || !(known.0 && known.1));
            for slot in busy.keys() {
                prop_assert!(pool.state(*slot).is_some(), "slot {} became free too early", slot);
            }
        }
    }
}

#[test]
fn an_answer_about_a_transaction_of_before_is_none_about_the_one_that_has_its_id_now() {
    let mut pool = pool(Naming::Pooled);
    let (slot, other) = (pool.take(1).unwrap(), Identity::new(7, 4));
    assert!(!pool.holds_prepared(slot, LAST.identity), "nothing is prepared");
    pool.prepared(slot, 1, LAST).unwrap();
    assert!(pool.holds_prepared(slot, LAST.identity) && !pool.holds_prepared(slot, other));
    pool.decided(slot).unwrap();
    assert!(!pool.holds_prepared(slot, LAST.identity), "it was told before");
    pool.settled(slot).unwrap();
    pool.durable(&BTreeSet::new());
    assert_eq!(pool.take(2), Ok(slot));
    assert!(!pool.holds_prepared(slot, LAST.identity), "the next one is being written");
    pool.prepared(slot, 2, LastUse { identity: other, ..LAST }).unwrap();
    assert!(!pool.holds_prepared(slot, LAST.identity) && pool.holds_prepared(slot, other));
}
