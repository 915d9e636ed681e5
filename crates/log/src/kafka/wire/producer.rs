//! The writer: the port's calls, done with one thread and one question at a time to each broker.
//!
//! Takes records, offsets and the end of the transaction; gives outcomes. Owns what becomes of a transaction when an answer is
//! not as it should be. Sends when asked to do something, and has no thread of its own.

use super::batch::Identity;
use super::cluster::Cluster;
use super::coordination::{Asked, Coordination};
use super::courier::{ASIDE, AT_BROKER, Courier, EAGER, LOOK, Trouble};
use super::link::{Broken, wait};
use super::verdict::{FENCED, Verdict, named, verdict};
use crate::kafka::errors::error;
use crate::kafka::turns::Side;
use crate::{CommitOutcome, CutEntry, Outgoing, Producer};
use kafka_protocol::messages::EndTxnResponse;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Error, ErrorKind, Offset, Partition, Result, SystemClock};

/// For so long after a commit the broker may still be writing its markers, and refuses what its id adds meanwhile.
const MARKERS: Duration = Duration::from_millis(8);
/// So much may be unacknowledged before `send` waits.
const KEPT: usize = 24 << 20;
/// For so long an abort waits for what is under way, so that it comes before it.
const SWAN_SONG: Duration = Duration::from_secs(2);
/// An abort that follows a commit has at least so long.
const LEAST: Duration = Duration::from_secs(1);

const AGAIN: &str = "start again: nothing of it is visible, and its records are read again";

/// Where the producer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between transactions.
    Idle,
    /// In one.
    Open,
    /// In one that can only be aborted.
    Lost,
    /// Nothing is ever sent again.
    Fenced,
}

/// A transactional writer.
#[derive(Debug)]
pub(in crate::kafka) struct WireProducer {
    coordination: Coordination,
    courier: Courier,
    state: State,
    /// Was anything of this epoch given up whose fate is not known?
    doubtful: bool,
    /// When the broker said that the last transaction is committed.
    committed: Option<Duration>,
    /// Topics that somebody wants to know the ends of.
    remembered: Vec<Arc<str>>,
    clock: SystemClock,
}

impl WireProducer {
    /// For an id; connects when it is opened.
    pub(super) fn new(cluster: Cluster, id: &str, address: &str, silence: Duration) -> Self {
        Self {
            coordination: Coordination::new(cluster, id, address, silence),
            courier: Courier::new(silence),
            state: State::Idle,
            doubtful: false,
            committed: None,
            remembered: Vec::new(),
            clock: SystemClock::new(),
        }
    }

    /// Takes its transactional id over. False if the brokers are too old for what is asked of them here.
    pub(in crate::kafka) fn open(&mut self, timeout: Duration) -> Result<bool> {
        let clock = SystemClock::new();
        self.coordination.introduce(Identity::NONE, timeout)?;
        let left = timeout.saturating_sub(clock.monotonic());
        let agreed = self.coordination.agree(left);
        agreed.map_err(|Broken(why)| self.coordination.silent(&why, "opening the producer"))
    }

    fn fenced(&mut self) -> Error {
        self.state = State::Fenced;
        self.courier.sending.clear();
        self.coordination.refused(FENCED, "fenced", "writing")
    }

    /// What becomes of the transaction because of a code, as an error.
    fn spoil(&mut self, code: i16, said: &str, what: &str, topic: Option<&str>) -> Error {
        match verdict(code) {
            Verdict::Outdated | Verdict::Fenced => {
                let error = self.coordination.lost(code, what, ASIDE);
                if error.kind() == ErrorKind::Fenced {
                    self.fenced();
                } else {
                    // The broker has ended it, and we have a new epoch.
                    self.drop_all();
                    self.coordination.touched = false;
                    self.courier.sending.renumber();
                    self.state = State::Lost;
                }
                error
            }
            Verdict::Lost => {
                self.give_up();
                Error::unavailable(format!(
                    "{what}: the broker at {} gave the transaction of '{}' up ({:?} {said})",
                    self.coordination.address,
                    self.coordination.id,
                    named(code)
                ))
                .hint(AGAIN)
            }
            _ => {
                self.give_up();
                error(named(code), said, self.coordination.doing(what, topic))
            }
        }
    }

    fn trouble(&mut self, trouble: Trouble) -> Error {
        match trouble {
            Trouble::Code {
                code,
                said,
                what,
                topic,
            } => self.spoil(code, &said, what, topic.as_deref()),
            Trouble::Said(error) => {
                self.give_up();
                error
            }
            Trouble::Away(last) => {
                self.give_up();
                Error::unavailable(format!(
                    "writing: the broker at {} was away for too long, the transaction of '{}' is lost ({last})",
                    self.coordination.address, self.coordination.id
                ))
                .hint(AGAIN)
            }
        }
    }

    /// The transaction can only be aborted, and what became of its records is not known.
    const fn give_up(&mut self) {
        self.state = State::Lost;
        self.doubtful = true;
    }

    fn drive(&mut self, all: bool) -> Result<()> {
        let driven = self.courier.drive(&mut self.coordination, all);
        driven.map_err(|trouble| self.trouble(trouble))
    }

    fn drive_for(&mut self, all: bool, most: Duration) -> Result<()> {
        let driven = (self.courier).drive_for(&mut self.coordination, all, most);
        driven.map_err(|trouble| self.trouble(trouble))
    }

    fn drop_all(&mut self) {
        for node in self.courier.sending.flying() {
            self.coordination.cluster.cut_data(node);
        }
        self.courier.sending.clear();
    }

    /// Is there a transaction that goes on?
    fn assure(&self) -> Result<()> {
        match self.state {
            State::Open => Ok(()),
            State::Fenced => Err(self.coordination.refused(FENCED, "fenced", "writing")),
            State::Lost => Err(Error::unavailable(format!(
                "writing: the transaction of '{}' is lost",
                self.coordination.id
            ))),
            State::Idle => Err(Error::internal(
                "nothing may be written outside of a transaction",
            )),
        }
    }

    /// Waits until the markers of the last commit stand.
    fn settle(&mut self) {
        let Some(committed) = self.committed.take() else {
            return;
        };
        loop {
            let left = (committed + MARKERS).saturating_sub(self.clock.monotonic());
            if left < Duration::from_millis(1) {
                return;
            }
            wait(&mut [], left);
        }
    }

    /// With an epoch for each transaction, the end of one says the next.
    fn next_identity(&self, answer: &EndTxnResponse) -> Option<Identity> {
        self.coordination.at_once.then_some(Identity {
            id: answer.producer_id.0,
            epoch: answer.producer_epoch,
        })
    }

    fn finish(&mut self, identity: Option<Identity>) {
        self.state = State::Idle;
        self.coordination.touched = false;
        if let Some(identity) = identity.filter(|i| i.id >= 0) {
            self.coordination.identity = identity;
            self.courier.sending.renumber();
            self.doubtful = false;
        }
    }

    /// Ends the transaction as one that never was.
    fn roll_back(&mut self, timeout: Duration) -> Result<()> {
        let clock = SystemClock::new();
        let left = || timeout.saturating_sub(clock.monotonic());
        // What is under way gets there before the end, or never.
        while self.courier.sending.flying().next().is_some()
            && clock.monotonic() < SWAN_SONG.min(timeout)
        {
            let flying: Vec<_> = self.courier.sending.flying().collect();
            self.coordination.cluster.wait(flying.iter().copied(), LOOK);
            for node in flying {
                let heard = self.courier.hear(&mut self.coordination, node);
                if let Err(trouble) = heard {
                    self.trouble(trouble);
                }
            }
            if self.state != State::Open {
                break;
            }
        }
        self.doubtful |= self.courier.sending.unacknowledged() > 0;
        self.drop_all();
        if self.state == State::Fenced {
            return Err(self.coordination.refused(FENCED, "fenced", "aborting"));
        }
        if self.coordination.touched {
            match self.coordination.end(false, left()) {
                Asked::Done(answer) => self.finish(self.next_identity(&answer)),
                // The broker has done it already, or knows of none: a new epoch ends whatever there is.
                Asked::Code { .. } => self.doubtful = true,
                Asked::Silence { last, .. } => {
                    self.give_up();
                    return Err(self.coordination.silent(&last, "aborting the transaction"));
                }
            }
        }
        self.finish(None);
        if self.doubtful {
            self.renew(left())?;
        }
        Ok(())
    }

    fn unknown(&self, timeout: Duration, cause: Error) -> Error {
        let (address, id) = (&self.coordination.address, &self.coordination.id);
        Error::unknown_outcome(format!(
            "the broker at {address} didn't say within {timeout:?} whether '{id}' is committed"
        ))
        .caused_by(cause)
    }

    /// Takes the next epoch of the id.
    fn renew(&mut self, timeout: Duration) -> Result<()> {
        let own = self.coordination.identity;
        if let Err(error) = self.coordination.introduce(own, timeout) {
            if error.kind() == ErrorKind::Fenced {
                self.fenced();
            }
            return Err(error);
        }
        self.courier.sending.renumber();
        self.doubtful = false;
        Ok(())
    }
}

impl Producer for WireProducer {
    fn sends_are_fenced(&self) -> bool {
        true
    }

    fn begin(&mut self) -> Result<()> {
        match self.state {
            State::Fenced => {
                return Err(self
                    .coordination
                    .refused(FENCED, "fenced", "beginning a transaction"));
            }
            State::Open => return Err(Error::internal("a transaction is open already")),
            State::Idle | State::Lost => {}
        }
        if self.doubtful {
            self.renew(AT_BROKER)?;
        }
        // Who has agreed on other rules meanwhile says so when it is connected again. Without a connection those of before hold.
        let _reached = self.coordination.agree(ASIDE);
        self.state = State::Open;
        self.coordination.touched = false;
        self.courier.sending.forget_added();
        self.courier.note_start();
        Ok(())
    }

    fn send(&mut self, records: &mut Vec<Outgoing>) -> Result<()> {
        self.assure()?;
        self.settle();
        self.courier.note_start();
        for record in records.drain(..) {
            let put = self.courier.put(&mut self.coordination, &record);
            put.map_err(|trouble| self.trouble(trouble))?;
        }
        self.drive(false)?;
        while self.courier.sending.unacknowledged() > KEPT {
            self.drive_for(true, LOOK)?;
            let patient = self.courier.patience("nothing is acknowledged");
            patient.map_err(|trouble| self.trouble(trouble))?;
        }
        Ok(())
    }

    fn pursue(&mut self) -> Result<usize> {
        self.assure()?;
        self.drive(false)?;
        // What is too little for a request waits for the commit, and nobody has to look after it.
        let waiting = self.courier.sending.waiting();
        Ok(if waiting >= EAGER { waiting } else { 0 })
    }

    fn flush(&mut self, timeout: Duration) -> Result<()> {
        if self.courier.sending.unacknowledged() == 0 && self.state != State::Lost {
            return Ok(());
        }
        self.assure()?;
        let clock = SystemClock::new();
        while self.courier.sending.unacknowledged() > 0 {
            let left = timeout.saturating_sub(clock.monotonic());
            if left.is_zero() {
                let bytes = self.courier.sending.unacknowledged();
                let last = format!("{bytes} bytes are not acknowledged after {timeout:?}");
                return Err(self.coordination.silent(&last, "flushing"));
            }
            self.drive_for(true, left.min(LOOK * 5))?;
        }
        Ok(())
    }

    fn offsets(&mut self, group: &str, cut: &[CutEntry], timeout: Duration) -> Result<()> {
        self.assure()?;
        // Whoever reads nothing has no positions; a transaction that got nothing is none to the broker.
        if cut.is_empty() {
            return Ok(());
        }
        self.settle();
        self.coordination.touched = true;
        let what = "adding offsets to the transaction";
        match self.coordination.offsets(group, cut, timeout) {
            Asked::Done(()) => Ok(()),
            Asked::Code { code, .. } => {
                let whole = format!("{what} of '{}'", self.coordination.id);
                Err(self.spoil(code, "refused", &whole, None))
            }
            Asked::Silence { last, .. } => Err(self.coordination.silent(&last, what)),
        }
    }

    fn commit(&mut self, timeout: Duration) -> Result<CommitOutcome> {
        let clock = SystemClock::new();
        let what = "committing the transaction";
        if self.state == State::Fenced {
            return Err(self.coordination.refused(FENCED, "fenced", what));
        }
        if let Err(error) = self.flush(timeout) {
            if self.state != State::Lost {
                return Err(error);
            }
            tracing::warn!(target: "stoatflow::kafka", id = self.coordination.id, %error, "the commit failed and is aborted");
            self.roll_back(timeout.saturating_sub(clock.monotonic()).max(LEAST))?;
            return Ok(CommitOutcome::Aborted);
        }
        if !self.coordination.touched {
            self.finish(None);
            return Ok(CommitOutcome::Committed);
        }
        let left = timeout.saturating_sub(clock.monotonic());
        match self.coordination.end(true, left) {
            Asked::Done(answer) => {
                self.finish(self.next_identity(&answer));
                self.committed = Some(self.clock.monotonic());
                Ok(CommitOutcome::Committed)
            }
            Asked::Code { code, perhaps, .. } => {
                let known = self.spoil(code, "the broker ended it", what, None);
                match verdict(code) {
                    Verdict::Outdated | Verdict::Fenced | Verdict::Lost
                        if known.kind() != ErrorKind::Fenced =>
                    {
                        if perhaps {
                            return Err(self.unknown(timeout, known));
                        }
                        tracing::warn!(target: "stoatflow::kafka", id = self.coordination.id, code = ?named(code), "the commit failed and is aborted");
                        self.roll_back(timeout.saturating_sub(clock.monotonic()).max(LEAST))?;
                        Ok(CommitOutcome::Aborted)
                    }
                    _ => Err(known),
                }
            }
            Asked::Silence { perhaps, last } => {
                self.give_up();
                let known = self.coordination.silent(&last, what);
                Err(if perhaps {
                    self.unknown(timeout, known)
                } else {
                    known
                })
            }
        }
    }

    fn abort(&mut self, timeout: Duration) -> Result<()> {
        self.roll_back(timeout)
    }

    fn acknowledged(&self, topic: &str) -> Vec<(Partition, Offset)> {
        if !self.remembered.iter().any(|name| **name == *topic) {
            return Vec::new();
        }
        self.courier.sending.acknowledged(topic)
    }

    fn remember(&mut self, topics: &[Arc<str>]) {
        self.remembered = topics.to_vec();
    }
}

impl Side for WireProducer {
    fn owns_its_id(&mut self) -> bool {
        self.state != State::Fenced && self.renew(ASIDE).is_ok()
    }
}
