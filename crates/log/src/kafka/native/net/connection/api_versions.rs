//! What a broker supports: versions of requests, and of transactions.
//!
//! Takes its answer to ApiVersions, returns the newest version that both sides know.

use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::protocol::Request;
use std::collections::BTreeMap;

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
