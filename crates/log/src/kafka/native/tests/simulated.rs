//! Both guarantees on a simulated network: applications that restart, newer instances that take over,
//! and requests that arrive long after the client has given them up.

mod faults;
mod network;

use super::broker::{Kept, PARTITIONS};
use super::{TRANSACTIONS, heads, partitions, read_all, record, seeds};
use crate::kafka::native;
use crate::kafka::native::net::network::Network;
use crate::kafka::native::tests::faults::Dice;
use crate::{CommitOutcome, CutEntry, Producer};
use bytes::Bytes;
use kafka_protocol::messages::ApiKey;
use network::SimulatedNetwork;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Offset, Result, TopicPartition};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Far more than reading everything takes.
const READ: Duration = Duration::from_secs(3600);
const ID: &str = "app";
const INPUT: &str = "input";
const TOPICS: [&str; 2] = ["left", "right"];

/// The topic and partition for the output of an input.
fn place(input: i64) -> (usize, i32) {
    let at = input.wrapping_mul(0x9e37_79b9) >> 4;
    let topic = usize::try_from(at.rem_euclid(2)).unwrap();
    let partition = i32::try_from((at >> 1).rem_euclid(PARTITIONS.into())).unwrap();
    (topic, partition)
}

/// An application: reads numbers from its committed position on, and writes each of them.
struct Application {
    writer: Box<dyn Producer>,
    /// The next number that it reads.
    position: i64,
    /// End of the numbers in the open transaction.
    until: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guarantee {
    ExactlyOnce,
    AtLeastOnce,
}

impl Application {
    /// Takes over the id, and continues from the committed position.
    fn start(network: &Arc<SimulatedNetwork>, guarantee: Guarantee) -> Result<Self> {
        let config = network.config();
        let mut guard = native::producer(&config, ID, TIMEOUT);
        guard.open(TIMEOUT)?;
        let writer: Box<dyn Producer> = match guarantee {
            Guarantee::ExactlyOnce => Box::new(guard),
            Guarantee::AtLeastOnce => {
                let mut writer = native::plain(guard, &config, ID, TIMEOUT, false);
                writer.open(TIMEOUT)?;
                Box::new(writer)
            }
        };
        let position = committed(network);
        Ok(Self {
            writer,
            position,
            until: position,
        })
    }

    /// Begins a transaction, and writes some numbers into it.
    fn write(&mut self, dice: &mut Dice, inputs: i64) -> Result<()> {
        self.writer.begin()?;
        self.until = self.position;
        for _ in 0..=dice.roll(3) {
            let end = self.until + i64::try_from(dice.roll(10)).unwrap();
            let numbers = self.until..end.min(inputs);
            self.until = numbers.end;
            let mut records: Vec<_> = numbers.map(output).collect();
            self.writer.send(&mut records)?;
            self.writer.send_pending()?;
        }
        self.writer.flush(TIMEOUT)?;
        Ok(())
    }

    fn commit(&mut self) -> Result<CommitOutcome> {
        let outcome = self.writer.commit(TIMEOUT)?;
        if outcome == CommitOutcome::Committed {
            self.position = self.until;
        }
        Ok(outcome)
    }

    /// Adds its position to the transaction.
    fn offsets(&mut self) -> Result<()> {
        let cut = [CutEntry {
            partition: TopicPartition::new(INPUT, 0),
            offset: Offset(self.until),
            metadata: String::new(),
        }];
        self.writer.offsets("group", &cut, TIMEOUT)
    }
}

fn output(input: i64) -> crate::ProducerRecord {
    let (topic, partition) = place(input);
    let mut value = input.to_be_bytes().to_vec();
    // Some fill a request of their own.
    value.resize(if input % 40 == 39 { 150_000 } else { 20 }, 0);
    record(&TOPICS[topic].into(), partition, value)
}

fn committed(network: &SimulatedNetwork) -> i64 {
    let at = (INPUT.to_owned(), 0);
    network.with(|kept| kept.committed.get(&at).copied().unwrap_or(0))
}

/// What happened with a seed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    faults: u32,
    unknown: u32,
    takeovers: u32,
    restarts: u32,
    time: Duration,
}

/// One seed: an application, its restarts and its successors, until all numbers are committed.
struct Scenario {
    seed: u64,
    guarantee: Guarantee,
    network: Arc<SimulatedNetwork>,
    dice: Dice,
    inputs: i64,
    /// Instances whose id was taken over by a newer one.
    zombies: Vec<Application>,
    seen: Seen,
}

impl Scenario {
    fn start(&mut self) -> Application {
        loop {
            self.seen.restarts += 1;
            match Application::start(&self.network, self.guarantee) {
                Ok(app) => return app,
                // A late request of its own has taken the id: it starts again.
                Err(error) if error.kind() == ErrorKind::Fenced => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    }

    /// Handles an error of an application.
    fn fail(&mut self, app: &mut Application, error: &Error) {
        let seed = self.seed;
        let known = [
            ErrorKind::Unavailable,
            ErrorKind::UnknownOutcome,
            ErrorKind::Fenced,
        ];
        assert!(known.contains(&error.kind()), "seed {seed}: {error}");
        self.seen.unknown += u32::from(error.kind() == ErrorKind::UnknownOutcome);
        // Sometimes it goes on with the same producer, if the error allows that.
        let goes_on = error.kind() == ErrorKind::Unavailable && self.dice.roll(2) == 0;
        if goes_on && app.writer.abort(TIMEOUT).is_ok() {
            app.position = committed(&self.network);
        } else {
            *app = self.start();
        }
    }

    fn transaction(&mut self, app: &mut Application) {
        if let Err(error) = app.write(&mut self.dice, self.inputs) {
            return self.fail(app, &error);
        }
        match self.dice.roll(12) {
            0 => {
                if let Err(error) = app.writer.abort(TIMEOUT) {
                    self.fail(app, &error);
                }
            }
            1 => {
                // A newer instance takes over during the transaction.
                let new = self.start();
                self.seen.takeovers += 1;
                self.zombies.push(std::mem::replace(app, new));
            }
            _ => match app.offsets().and_then(|()| app.commit()) {
                Ok(CommitOutcome::Committed) => {}
                Ok(CommitOutcome::Aborted) => app.position = committed(&self.network),
                Err(error) => self.fail(app, &error),
            },
        }
        if self.dice.roll(3) == 0
            && let Some(mut zombie) = self.zombies.pop()
        {
            self.zombie_commits_nothing(&mut zombie);
        }
    }

    /// An instance that was replaced commits nothing, whatever it does.
    fn zombie_commits_nothing(&self, zombie: &mut Application) {
        let before = committed(&self.network);
        let outcome = zombie.offsets().and_then(|()| zombie.commit());
        let seed = self.seed;
        assert!(
            !matches!(outcome, Ok(CommitOutcome::Committed)),
            "seed {seed}: a zombie has committed"
        );
        assert_eq!(committed(&self.network), before, "seed {seed}: {outcome:?}");
    }
}

fn run(seed: u64, guarantee: Guarantee, transactions_v2: bool) -> Seen {
    let network = SimulatedNetwork::new(seed, transactions_v2);
    let mut scenario = Scenario {
        seed,
        guarantee,
        network: Arc::clone(&network),
        dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        inputs: TRANSACTIONS * 15,
        zombies: Vec::new(),
        seen: Seen::default(),
    };
    let mut app = scenario.start();
    while app.position < scenario.inputs {
        scenario.transaction(&mut app);
    }
    // The next instance ends transactions that may still be open.
    network.heal();
    drop(app);
    drop(scenario.start());
    let mut expected: BTreeMap<(usize, i32), Vec<Bytes>> = BTreeMap::new();
    for input in 0..scenario.inputs {
        let number = Bytes::copy_from_slice(&input.to_be_bytes());
        expected.entry(place(input)).or_default().push(number);
    }
    // At least once, a request that arrives late may still append its records a second time.
    network.deliver_late_requests();
    network.resume();
    let ends: Vec<_> = partitions()
        .map(|(t, p)| network.with(|kept| kept.end_of(TOPICS[t], p)))
        .collect();
    let (topics, began) = (TOPICS.map(Arc::from), network.now());
    let elapsed = || network.now() - began;
    let read = read_all(&network.config(), (&topics, &ends), seed, (&elapsed, READ));
    let counted = |values: &[Bytes]| match guarantee {
        Guarantee::ExactlyOnce => heads(values),
        // At least once: duplicates are dropped.
        Guarantee::AtLeastOnce => {
            let mut before = BTreeSet::new();
            let mut numbers = heads(values);
            numbers.retain(|number| before.insert(number.clone()));
            numbers
        }
    };
    for (at, wanted) in &expected {
        assert_eq!(&counted(&read[at]), wanted, "seed {seed}: read of {at:?}");
    }
    network.with(|kept| {
        for ((topic, partition), wanted) in &expected {
            let seen = counted(&kept.visible(TOPICS[*topic], *partition));
            assert_eq!(&seen, wanted, "seed {seed}: {topic} {partition}");
        }
        assert!(!kept.is_hanging(), "seed {seed}: a transaction stays open");
        // Without KIP-890, a transaction that is repeated has the epoch of the aborted one.
        assert!(
            !transactions_v2 || kept.doubled.is_empty(),
            "seed {seed}: {:?}",
            kept.doubled
        );
    });
    assert_eq!(committed(&network), scenario.inputs, "seed {seed}");
    Seen {
        faults: network.faults(),
        time: network.now(),
        ..scenario.seen
    }
}

/// Ten times as many seeds as on sockets: time is virtual.
fn many(guarantee: Guarantee, transactions_v2: bool) {
    let (mut all, mut hours) = (Seen::default(), Duration::ZERO);
    for seed in 1..=10 * seeds() {
        let seen = run(seed, guarantee, transactions_v2);
        all.faults += seen.faults;
        all.unknown += seen.unknown;
        all.takeovers += seen.takeovers;
        all.restarts += seen.restarts;
        hours += seen.time;
    }
    println!("{all:?} in {hours:.0?}");
    let rare = [all.faults, all.unknown, all.takeovers, all.restarts];
    assert!(rare.iter().all(|times| *times > 0), "{all:?}");
}

#[test]
fn restarts_and_takeovers_where_each_transaction_has_an_epoch() {
    many(Guarantee::ExactlyOnce, true);
}

#[test]
fn restarts_and_takeovers_where_partitions_are_added() {
    many(Guarantee::ExactlyOnce, false);
}

#[test]
fn restarts_and_takeovers_outside_of_transactions() {
    for transactions_v2 in [true, false] {
        many(Guarantee::AtLeastOnce, transactions_v2);
    }
}

#[test]
fn a_seed_determines_the_run() {
    for transactions_v2 in [true, false] {
        let [once, again] = [(); 2].map(|()| run(3, Guarantee::ExactlyOnce, transactions_v2));
        assert_eq!(once, again);
    }
}

/// A request that the client has given up and repeated may arrive during the next transaction. Without
/// KIP-890, that one would have the same epoch, and the broker would apply the request to it.
#[test]
fn late_requests_have_no_effect_in_the_next_transaction() {
    let late = Duration::from_secs(25);
    for transactions_v2 in [true, false] {
        for kind in [
            ApiKey::AddPartitionsToTxn,
            ApiKey::AddOffsetsToTxn,
            ApiKey::TxnOffsetCommit,
            ApiKey::EndTxn,
        ] {
            let network = SimulatedNetwork::new(1, transactions_v2);
            network.heal();
            let mut dice = Dice(7);
            let mut app = Application::start(&network, Guarantee::ExactlyOnce).unwrap();
            let mut transact = |pause: Duration| {
                app.write(&mut dice, 1000).unwrap();
                app.offsets().unwrap();
                network.wait(&mut [], pause);
                app.commit().unwrap()
            };
            network.delay_next(kind, late);
            assert_eq!(transact(Duration::ZERO), CommitOutcome::Committed);
            assert_eq!(transact(late), CommitOutcome::Committed);
            let at = format!("{kind:?}, {transactions_v2}");
            assert_eq!(committed(&network), app.position, "{at}");
            let lies = |topic| (0..PARTITIONS).map(move |p| (topic, p));
            let lies = TOPICS.iter().flat_map(|topic| lies(*topic));
            let visible = |kept: &Kept| lies.map(|(t, p)| kept.visible(t, p).len()).sum::<usize>();
            let written = usize::try_from(app.position).unwrap();
            assert_eq!(network.with(visible), written, "{at}");
        }
    }
}
