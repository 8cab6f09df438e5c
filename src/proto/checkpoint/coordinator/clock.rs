//! What the coordinator does when it looks at the clock.

use super::{
    AbortCause, CheckpointKind, Coordinator, CoordinatorEffect, Course, Manual, Moment, pending::Pending,
};

/// A deadline that never comes.
pub(super) const NEVER: Moment = Moment(u64::MAX);

impl<A> Coordinator<A> {
    pub(super) fn look_at_clock(&mut self, now: Moment) {
        self.expire(now);
        if self.course == Course::Over {
            return;
        }
        self.store_next();
        self.tell_again(now);
        self.begin(now);
        self.leave();
    }

    pub(super) fn deadline_of(&self, pending: &Pending<A>) -> Moment {
        pending.triggered.after(self.config.timeout)
    }

    /// The limit holds for all that are neither durable nor failed.
    pub(super) fn below_limit(&self) -> bool {
        let under_way = self.collecting.len() + self.complete.len() + usize::from(self.storing.is_some());
        under_way < self.config.max_concurrent
    }

    pub(super) fn may_stop(&self, kind: CheckpointKind) -> bool {
        match kind {
            CheckpointKind::Final | CheckpointKind::Periodic => self.below_limit(),
            CheckpointKind::Suspend | CheckpointKind::Manual => self.storing.is_none(),
        }
    }

    fn expire(&mut self, now: Moment) {
        while self.course != Course::Over {
            let late = self.collecting.iter().find(|(_, pending)| self.deadline_of(pending) <= now);
            let Some((&id, pending)) = late else { return };
            let missing = pending.missing().collect();
            let checkpoint = (id, pending.kind);
            self.collecting.remove(&id);
            self.failed(now, checkpoint, AbortCause::Timeout { missing, after: self.config.timeout });
        }
    }

    fn store_next(&mut self) {
        if self.storing.is_some() {
            return;
        }
        if let Some((checkpoint, kind, states)) = self.complete.pop_front() {
            self.storing = Some((checkpoint, kind));
            self.effects.push_back(CoordinatorEffect::Store { checkpoint, kind, states });
        }
    }

    fn tell_again(&mut self, now: Moment) {
        if self.notices.repeat_at().is_some_and(|at| at <= now) {
            self.durable(now, self.notices.newest());
        }
    }

    fn begin(&mut self, now: Moment) {
        match self.course {
            Course::Running => {
                let collecting_manual =
                    self.collecting.values().any(|pending| pending.kind == CheckpointKind::Manual);
                if self.manual == Manual::Asked && self.storing.is_none() && !collecting_manual {
                    self.manual = Manual::NotAsked;
                    self.trigger(now, CheckpointKind::Manual);
                }
                if self.schedule.due() <= now && self.below_limit() {
                    self.schedule.begun(now);
                    self.trigger(now, CheckpointKind::Periodic);
                }
            }
            Course::Stopping(kind, not_before) if not_before <= now && self.may_stop(kind) => {
                self.trigger(now, kind);
                self.course = Course::Last(self.newest, kind);
            }
            Course::Stopping(..) | Course::Last(..) | Course::Leaving(..) | Course::Over => {}
        }
    }

    fn trigger(&mut self, now: Moment, kind: CheckpointKind) {
        self.newest += 1;
        self.collecting.insert(self.newest, Pending::new(kind, self.subtasks, now));
        self.effects.push_back(CoordinatorEffect::Trigger { checkpoint: self.newest, kind });
    }

    fn leave(&mut self) {
        let Course::Leaving(checkpoint, kind) = self.course else { return };
        if self.notices.open().next().is_none() {
            self.effects.push_back(CoordinatorEffect::Finished { checkpoint, kind });
            self.course = Course::Over;
        }
    }
}
