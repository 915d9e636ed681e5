//! What a broker supports: versions of requests, and of transactions.
//!
//! Takes its answer to ApiVersions, returns the newest version that both sides know.

use crate::kafka::native::net::connection_error::ConnectionError;
use kafka_protocol::messages::{ApiKey, ApiVersionsResponse};
use kafka_protocol::protocol::Request;
use std::collections::BTreeMap;
use stoatflow_core::ErrorKind;

#[cfg(test)]
mod tests;

/// The oldest produce request that this client writes. Brokers know it since Kafka 2.8, and all other
/// requests that this client needs as well.
pub(in crate::kafka::native) const PRODUCE_LEAST: i16 = 9;

const UPGRADE: &str = "upgrade the brokers to Kafka 2.8 or newer";

/// The feature with a cluster's version of transactions.
const TRANSACTION_VERSION: &str = "transaction.version";

/// What a broker supports.
#[derive(Clone, Debug, Default)]
pub(in crate::kafka::native) struct ApiVersions {
    pub(super) ranges: BTreeMap<i16, (i16, i16)>,
    /// The cluster's version of transactions: 2 is KIP-890.
    pub transaction_version: i16,
}

impl ApiVersions {
    /// The newest version of a request that both sides know, none above `most`.
    pub(in crate::kafka::native) fn version<R: Request>(&self, most: i16) -> Option<i16> {
        let (least, newest) = *self.ranges.get(&R::KEY)?;
        let version = newest.min(R::VERSIONS.max).min(most);
        (version >= least.max(R::VERSIONS.min)).then_some(version)
    }

    /// The newest version of a request that the broker knows.
    pub(in crate::kafka::native) fn newest<R: Request>(&self) -> Option<i16> {
        self.ranges.get(&R::KEY).map(|(_, newest)| *newest)
    }

    /// Why this client can't use the broker, if it is older than Kafka 2.8. A node that knows no produce
    /// requests at all is no broker: each request that it doesn't know has an error of its own.
    pub(super) fn too_old(&self) -> Option<ConnectionError> {
        let (_, newest) = *self.ranges.get(&(ApiKey::Produce as i16))?;
        (newest < PRODUCE_LEAST).then(|| {
            let why = format!(
                "the broker is too old for the native client: it knows produce requests up to version \
                    {newest}, and the client needs version {PRODUCE_LEAST} (Kafka 2.8)"
            );
            let hint = format!("{UPGRADE}, or set kafka.client=librdkafka, which knows older ones");
            ConnectionError::refused(ErrorKind::Config, why, hint)
        })
    }

    /// Why a request can't be sent for which `version` returns nothing.
    pub(in crate::kafka::native) fn unsupported<R: Request>(&self) -> ConnectionError {
        let name =
            ApiKey::try_from(R::KEY).map_or_else(|()| R::KEY.to_string(), |k| format!("{k:?}"));
        let known = match self.ranges.get(&R::KEY) {
            Some((least, newest)) => format!("knows versions {least} to {newest} of it"),
            None => "doesn't know it".to_owned(),
        };
        let (least, newest) = (R::VERSIONS.min, R::VERSIONS.max);
        ConnectionError::refused(
            ErrorKind::Config,
            format!(
                "the native client sends {name} requests in versions {least} to {newest}, and the broker \
                    {known}"
            ),
            format!("{UPGRADE}; bootstrap.servers must name brokers, not controllers"),
        )
    }

    pub(super) fn of(response: &ApiVersionsResponse) -> Self {
        let mut features = response.finalized_features.iter();
        let transactions = features.find(|f| &*f.name == TRANSACTION_VERSION);
        Self {
            ranges: (response.api_keys.iter())
                .map(|k| (k.api_key, (k.min_version, k.max_version)))
                .collect(),
            transaction_version: transactions.map_or(0, |f| f.max_version_level),
        }
    }
}
