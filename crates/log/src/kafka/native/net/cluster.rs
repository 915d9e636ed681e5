//! The connections of one client to the brokers of a cluster.
//!
//! Takes addresses, returns connections: to the leader of a partition, and to the coordinator of a
//! transaction or a group. Owns the connections, and the pause after a failed attempt. Never decides
//! what an answer means.

use crate::kafka::native::NativeConfig;
use crate::kafka::native::net::address::BrokerAddress;
use crate::kafka::native::net::broker_link::BrokerLink;
use crate::kafka::native::net::connection::Connection;
use crate::kafka::native::net::connection_error::ConnectionError;
use crate::kafka::native::net::leader_epochs::LeaderEpochs;
use crate::kafka::native::net::network::Stopwatch;
use crate::kafka::native::net::security::ClientContext;
use crate::kafka::native::net::throttle::Throttled;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    FindCoordinatorRequest, MetadataRequest, MetadataResponse, TopicName,
};
use kafka_protocol::protocol::{Request, StrBytes};
use rustix::event::PollFd;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// After this time, another broker is tried beside one that is still connecting.
const CONNECT_HEAD_START: Duration = Duration::from_millis(250);

/// A broker's id; brokers known only by a bootstrap address have none.
pub(in crate::kafka::native) type Node = i32;

/// The kind of coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka::native) enum CoordinatorType {
    Group = 0,
    Transaction = 1,
}

/// The brokers of a cluster, and the links to them.
#[derive(Debug)]
pub(in crate::kafka::native) struct Cluster {
    bootstrap: Vec<BrokerAddress>,
    context: Arc<ClientContext>,
    nodes: BTreeMap<Node, BrokerAddress>,
    /// Links for records: a fetch request stays in flight as long as the broker waits for records.
    data: BTreeMap<Node, BrokerLink>,
    /// Links for all other requests.
    control: BTreeMap<Node, BrokerLink>,
    /// Links to the bootstrap addresses, used when no known broker answers.
    bootstrap_links: Vec<BrokerLink>,
    /// The pause after a failed attempt, as a multiple of its duration.
    rest: u32,
    /// The bootstrap address to try next.
    turn: usize,
    clock: Stopwatch,
}

impl Cluster {
    /// Creates the links; nothing is connected yet.
    pub(in crate::kafka::native) fn new(config: &NativeConfig) -> Self {
        Self {
            bootstrap: config.bootstrap.clone(),
            context: Arc::clone(&config.context),
            nodes: BTreeMap::new(),
            data: BTreeMap::new(),
            control: BTreeMap::new(),
            bootstrap_links: config
                .bootstrap
                .iter()
                .map(|_| BrokerLink::default())
                .collect(),
            rest: 0,
            turn: 0,
            clock: config.context.stopwatch(),
        }
    }

    /// A stopwatch that starts now.
    pub(in crate::kafka::native) fn stopwatch(&self) -> Stopwatch {
        self.context.stopwatch()
    }

    /// Requests, or record batches, are sent again.
    pub(in crate::kafka::native) fn count_retries<R: Request>(&self, count: usize) {
        self.context.counters.retried(R::KEY, count);
    }

    pub(in crate::kafka::native) fn leader_epochs(&self) -> &LeaderEpochs {
        &self.context.leader_epochs
    }

    /// Waits this long; a signal ends the wait early.
    pub(in crate::kafka::native) fn pause(&self, time: Duration) {
        self.context.network.wait(&mut [], time);
    }

    /// Pauses longer after failed attempts, for a caller that has other work than waiting for a silent
    /// broker.
    pub(in crate::kafka::native) fn with_long_backoff(self) -> Self {
        Self { rest: 4, ..self }
    }

    /// The connection for records to a broker. While it is being opened, the error leaves the link as it
    /// is; `wait` waits for it.
    pub(in crate::kafka::native) fn data(
        &mut self,
        node: Node,
    ) -> Result<&mut Connection, ConnectionError> {
        let address = (self.nodes.get(&node))
            .ok_or_else(|| ConnectionError::lost(format!("broker {node} is not known yet")))?;
        let way = self.data.entry(node).or_default();
        let is_advertised = !(way.was_connected() || self.bootstrap.contains(address));
        let waits = (Duration::ZERO, self.rest);
        let opened = way.open(address, &self.context, &self.clock, waits);
        opened.map_err(|why| why.of_advertised(is_advertised.then_some((node, address))))
    }

    /// Whether the connection for records to this broker is being opened.
    pub(in crate::kafka::native) fn is_connecting(&self, node: Node) -> bool {
        self.data.get(&node).is_some_and(BrokerLink::is_connecting)
    }

    /// For how long a quota of this broker forbids sending and fetching records.
    pub(in crate::kafka::native) fn throttled_for(&self, node: Node) -> Duration {
        let link = self.data.get(&node).and_then(BrokerLink::link);
        link.map_or(Duration::ZERO, Connection::throttled_for)
    }

    /// The open connection for records to a broker, if there is one.
    pub(in crate::kafka::native) fn open_data(&mut self, node: Node) -> Option<&mut Connection> {
        self.data.get_mut(&node)?.link_mut()
    }

    /// Drops the connection. Answers in flight are lost.
    pub(in crate::kafka::native) fn disconnect_data(&mut self, node: Node) {
        if let Some(way) = self.data.get_mut(&node) {
            way.cut();
        }
    }

    /// Drops the connection after an error.
    pub(in crate::kafka::native) fn drop_data(&mut self, node: Node, why: &ConnectionError) {
        if let Some(way) = self.data.get_mut(&node) {
            way.lose(&self.clock, why);
        }
    }

    /// Waits for an answer from any of these brokers.
    pub(in crate::kafka::native) fn wait(&self, nodes: impl Iterator<Item = Node>, most: Duration) {
        let network = &self.context.network;
        network.wait(&mut self.sockets(nodes).collect::<Vec<_>>(), most);
    }

    /// Waits for an answer from any of these brokers, or for any connection in progress. The caller must
    /// then take the connection: otherwise the next wait ends at once, too.
    pub(in crate::kafka::native) fn wait_or_connected(
        &self,
        nodes: impl Iterator<Item = Node>,
        most: Duration,
    ) {
        let made = self.data.values().filter(|way| way.is_connecting());
        let made = made.filter_map(BrokerLink::poll_fd);
        let mut sockets: Vec<_> = self.sockets(nodes).chain(made).collect();
        self.context.network.wait(&mut sockets, most);
    }

    fn sockets(&self, nodes: impl Iterator<Item = Node>) -> impl Iterator<Item = PollFd<'_>> {
        nodes.filter_map(|node| self.data.get(&node)?.poll_fd())
    }

    /// The connection for other requests to a broker.
    pub(in crate::kafka::native) fn control(
        &mut self,
        node: Node,
        most: Duration,
    ) -> Result<&mut Connection, ConnectionError> {
        let address = (self.nodes.get(&node))
            .ok_or_else(|| ConnectionError::lost(format!("broker {node} is not known yet")))?;
        let way = self.control.entry(node).or_default();
        let is_advertised = !(way.was_connected() || self.bootstrap.contains(address));
        let opened = way.open(address, &self.context, &self.clock, (most, self.rest));
        opened.map_err(|why| why.of_advertised(is_advertised.then_some((node, address))))
    }

    fn is_connected(&self, node: Node) -> bool {
        let way = self.control.get(&node);
        way.is_some_and(|way| way.link().is_some())
    }

    pub(in crate::kafka::native) fn drop_control(&mut self, node: Node, why: &ConnectionError) {
        if let Some(way) = self.control.get_mut(&node) {
            way.lose(&self.clock, why);
        }
    }

    /// Sends a request to the first broker that answers: connected ones first, then known ones, then the
    /// bootstrap list. Returns the version of the request as well.
    pub(in crate::kafka::native) fn ask_anyone<R: Request>(
        &mut self,
        most_version: i16,
        request: impl Fn(i16) -> R,
        timeout: Duration,
    ) -> Result<(R::Response, i16), ConnectionError>
    where
        R::Response: Throttled,
    {
        let answered = self.answered(most_version, request, timeout);
        answered.map(|(answer, version, _)| (answer, version))
    }

    /// Like `ask_anyone`, and returns which broker answered: `None` for a bootstrap address.
    fn answered<R: Request>(
        &mut self,
        most_version: i16,
        request: impl Fn(i16) -> R,
        timeout: Duration,
    ) -> Result<(R::Response, i16, Option<Node>), ConnectionError>
    where
        R::Response: Throttled,
    {
        let clock = self.stopwatch();
        let left = || timeout.saturating_sub(clock.elapsed());
        let put = |link: &mut Connection| {
            let version = version_for::<R>(link, most_version)?;
            Ok((link.call(version, &request(version), left())?, version))
        };
        let mut last = ConnectionError::lost("no broker is known");
        let mut nodes: Vec<_> = self.nodes.keys().copied().collect();
        // A broker with stale metadata may name the wrong coordinator, too.
        nodes.sort_by_cached_key(|node| {
            let is_behind = self.context.leader_epochs.is_behind(*node);
            (is_behind, !self.is_connected(*node))
        });
        // A broker that can't be reached delays the others only for a moment; the attempt goes on
        // meanwhile.
        let mut is_first = true;
        loop {
            let mut is_pending = false;
            for node in &nodes {
                if left().is_zero() {
                    return Err(last);
                }
                let most = if self.is_connected(*node) {
                    left()
                } else {
                    left().min(CONNECT_HEAD_START)
                };
                match self.control(*node, most).and_then(put) {
                    Ok((answer, version)) => return Ok((answer, version, Some(*node))),
                    Err(why) => {
                        self.drop_control(*node, &why);
                        if why.is_final() {
                            return Err(why);
                        }
                        is_pending |= self
                            .control
                            .get(node)
                            .is_some_and(BrokerLink::is_connecting);
                        last = why;
                    }
                }
            }
            for _ in 0..self.bootstrap.len() {
                if left().is_zero() {
                    return Err(last);
                }
                let turn = self.turn % self.bootstrap.len();
                if !is_first && !self.bootstrap_links[turn].is_connecting() {
                    self.turn = self.turn.wrapping_add(1);
                    continue;
                }
                let link = &mut self.bootstrap_links[turn];
                let most = left().min(CONNECT_HEAD_START);
                let address = &self.bootstrap[turn];
                match (link.open(address, &self.context, &self.clock, (most, 0))).and_then(put) {
                    Ok((answer, version)) => return Ok((answer, version, None)),
                    Err(why) => {
                        if !why.leaves_connection() {
                            link.cut_lost();
                        }
                        // The next call need not wait.
                        link.reset_backoff();
                        self.turn = self.turn.wrapping_add(1);
                        if why.is_final() {
                            return Err(why);
                        }
                        is_pending |= link.is_connecting();
                        last = why;
                    }
                }
            }
            if !is_pending {
                return Err(last);
            }
            is_first = false;
        }
    }

    /// Requests metadata of brokers and topics; remembers the brokers.
    pub(in crate::kafka::native) fn metadata(
        &mut self,
        topics: &[Arc<str>],
        timeout: Duration,
    ) -> Result<MetadataResponse, ConnectionError> {
        let wanted: Vec<_> = (topics.iter())
            .map(|name| {
                let name = TopicName::from(StrBytes::from_string(name.to_string()));
                MetadataRequestTopic::default().with_name(Some(name))
            })
            .collect();
        let request = |_| {
            MetadataRequest::default()
                .with_topics(Some(wanted.clone()))
                .with_allow_auto_topic_creation(false)
        };
        let (answer, _, from) = self.answered(12, request, timeout)?;
        // A broker that has just restarted may know no brokers, itself included.
        if !answer.brokers.is_empty() {
            self.learn(&answer);
        }
        // A stale answer still lists the other brokers; they are asked first next time.
        let epochs = &self.context.leader_epochs;
        let learnt = epochs.learn(&answer, from);
        learnt.map_err(|partition| {
            ConnectionError::lost(format!(
                "the metadata of this broker is stale: it does not know the newest leader of {partition}"
            ))
        })?;
        Ok(answer)
    }

    fn learn(&mut self, answer: &MetadataResponse) {
        let nodes: BTreeMap<_, _> = (answer.brokers.iter())
            .filter_map(|broker| {
                let address = BrokerAddress {
                    host: broker.host.to_string(),
                    port: u16::try_from(broker.port).ok()?,
                };
                Some((broker.node_id.0, address))
            })
            .collect();
        // A broker with a new address needs a new connection.
        for ways in [&mut self.data, &mut self.control] {
            ways.retain(|node, _| {
                nodes.contains_key(node) && nodes.get(node) == self.nodes.get(node)
            });
        }
        self.nodes = nodes;
        self.bootstrap_links.fill_with(BrokerLink::default);
    }

    /// The coordinator of the transactional id or group with this name, or the error code of the answer.
    pub(in crate::kafka::native) fn coordinator(
        &mut self,
        kind: CoordinatorType,
        name: &str,
        timeout: Duration,
    ) -> Result<Result<Node, i16>, ConnectionError> {
        /// The first version that takes several keys.
        const FIRST_MULTI_KEY_VERSION: i16 = 4;
        let key = StrBytes::from_string(name.to_owned());
        let request = |version| {
            let request = FindCoordinatorRequest::default().with_key_type(kind as i8);
            if version >= FIRST_MULTI_KEY_VERSION {
                request.with_coordinator_keys(vec![key.clone()])
            } else {
                request.with_key(key.clone())
            }
        };
        if self.nodes.is_empty() {
            self.metadata(&[], timeout)?;
        }
        let (answer, version) = self.ask_anyone(FIRST_MULTI_KEY_VERSION, request, timeout)?;
        let (code, node, host, port) = if version >= FIRST_MULTI_KEY_VERSION {
            let Some(found) = answer.coordinators.first() else {
                return Err(ConnectionError::lost("no answer about the coordinator"));
            };
            (found.error_code, found.node_id, &found.host, found.port)
        } else {
            (answer.error_code, answer.node_id, &answer.host, answer.port)
        };
        if code != 0 {
            return Ok(Err(code));
        }
        let address = BrokerAddress {
            host: host.to_string(),
            port: u16::try_from(port)
                .map_err(|e| ConnectionError::lost(format!("port {port}: {e}")))?,
        };
        if self.nodes.insert(node.0, address.clone()) != Some(address) {
            self.data.remove(&node.0);
            self.control.remove(&node.0);
        }
        Ok(Ok(node.0))
    }
}

/// The request version to use with a broker, or why there is none.
pub(in crate::kafka::native) fn version_for<R: Request>(
    link: &Connection,
    most: i16,
) -> Result<i16, ConnectionError> {
    let version = link.api_versions.version::<R>(most);
    version.ok_or_else(|| link.unsupported::<R>())
}
