//! Metrics of the Kafka clients, under the names of Java's.

use super::{KafkaStreams, level, total};
use crate::admin::metrics::families::{Families, one};
use crate::admin::top::Sample;
use std::fmt;
use std::time::Duration;
use stoatflow_log::{ClientCounts, ConnectionCounts, RequestCounts};

/// Each client, with what its metrics begin with.
const CLIENTS: [(&str, &str); 3] = [
    ("producer", "kafka_producer_producer_metrics"),
    ("consumer", "kafka_consumer_consumer_metrics"),
    ("admin", "kafka_admin_client_admin_client_metrics"),
];
const FETCHES: &str = "kafka_consumer_consumer_fetch_manager_metrics_fetch";

type OfRequests = fn(&RequestCounts) -> u64;
type OfConnections = fn(&ConnectionCounts) -> u64;

impl KafkaStreams {
    pub(super) fn kafka_clients(&self, out: &mut Families<'_>) -> fmt::Result {
        for (client, name) in CLIENTS {
            let sums: [(&str, OfRequests); 3] = [
                ("request", |of| of.sent),
                ("outgoing_byte", |of| of.sent_bytes),
                ("incoming_byte", |of| of.received_bytes),
            ];
            for (what, of) in sums {
                let sum = |sample: &Sample| sum(sample, client, |_| true, of);
                self.total_and_rate(out, &format!("{name}_{what}"), client, sum)?;
            }
            let connections = self.counts_of(client).map(|of| of.connections);
            let known: [(&str, OfConnections); 2] = [
                ("creation_total", |of| of.opened),
                ("close_total", |of| of.closed),
            ];
            for (what, of) in known {
                let samples = connections.iter().map(|c| (Vec::new(), of(c)));
                total(out, &format!("{name}_connection_{what}"), samples)?;
            }
            let open = connections.iter().map(|c| (Vec::new(), c.open() as f64));
            level(out, &format!("{name}_connection_count"), open)?;
        }
        let fetches = |sample: &Sample| sum(sample, "consumer", is("Fetch"), |of| of.sent);
        self.total_and_rate(out, FETCHES, "consumer", fetches)?;
        self.latency(out, &format!("{FETCHES}_latency_avg"), "consumer", "Fetch")?;
        let name = "kafka_producer_producer_metrics_request_latency_avg";
        self.latency(out, name, "producer", "Produce")
    }

    fn counts_of(&self, client: &str) -> Option<&ClientCounts> {
        self.now.clients.iter().find(|of| of.client == client)
    }

    /// Without samples if the client doesn't count.
    fn total_and_rate(
        &self,
        out: &mut Families<'_>,
        name: &str,
        client: &str,
        of: impl Fn(&Sample) -> u64,
    ) -> fmt::Result {
        let has = self.counts_of(client).is_some();
        let count = has.then(|| (Vec::new(), of(&self.now)));
        total(out, &format!("{name}_total"), count)?;
        let rate = has.then(|| (Vec::new(), self.rate(of)));
        level(out, &format!("{name}_rate"), rate)
    }

    /// The average of the last minute; without an answer it is NaN, as in Kafka.
    fn latency(&self, out: &mut Families<'_>, name: &str, client: &str, api: &str) -> fmt::Result {
        if self.counts_of(client).is_none() {
            return level(out, name, []);
        }
        let of = |sample: Option<&Sample>| {
            sample.map_or((0, Duration::ZERO), |sample| {
                let answers = sum(sample, client, is(api), |of| of.durations.count());
                let requests = requests(sample, client).filter(|of| of.api == api);
                (answers, requests.map(|of| of.durations.sum).sum())
            })
        };
        let (now, before) = (of(Some(&self.now)), of(self.before.as_ref()));
        let answers = now.0.saturating_sub(before.0);
        let took = now.1.saturating_sub(before.1);
        level(out, name, one(took.as_secs_f64() * 1e3 / answers as f64))
    }
}

fn is(api: &str) -> impl Fn(&RequestCounts) -> bool {
    move |of| of.api == api
}

fn requests<'s>(sample: &'s Sample, client: &'s str) -> impl Iterator<Item = &'s RequestCounts> {
    let clients = sample.clients.iter().filter(move |of| of.client == client);
    clients.flat_map(|of| &of.requests)
}

fn sum(
    sample: &Sample,
    client: &str,
    which: impl Fn(&RequestCounts) -> bool,
    of: impl Fn(&RequestCounts) -> u64,
) -> u64 {
    requests(sample, client)
        .filter(|counts| which(counts))
        .map(of)
        .sum()
}
