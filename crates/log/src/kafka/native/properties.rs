//! The client properties that the native client understands.
//!
//! Takes names and values as a user writes them for Java's clients or for librdkafka, returns a
//! [`NativeConfig`], or every problem at once. Reads the files that `ssl.*` names. Never prints a value
//! that may be secret.

mod jaas;
mod known;
mod security;
#[cfg(test)]
mod tests;

use super::net::address::BrokerAddress;
use super::net::answer_timeout::REQUEST_TIMEOUT;
use super::net::leader_epochs::LeaderEpochs;
use super::net::network::SystemNetwork;
use super::net::sasl::SaslSettings;
use super::net::security::{ClientContext, resolve};
use super::net::throttle::ThrottleTotals;
use super::net::tls::TlsClient;
use super::records::compression::{Codec, Compression};
use super::{FetchLimits, NativeConfig};
use crate::kafka::properties::secrets::secret_in_file;
use crate::kafka::tokens::TokenProvider;
use kafka_protocol::protocol::StrBytes;
pub(in crate::kafka) use known::{Knowledge, knowledge};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The properties of one client, by their canonical name, and the problems found.
#[derive(Debug, Default)]
struct Reader {
    values: BTreeMap<&'static str, (String, String)>,
    /// The provider of tokens, if it is a function of the user's.
    tokens: Option<Arc<dyn TokenProvider>>,
    problems: Vec<String>,
}

/// Encryption and authentication of the last client that was configured: the next one usually has the
/// same. Files and the machine's certificates are then read only once, and all clients share one token,
/// the throttle times, and the known leader epochs.
#[derive(Default)]
pub(in crate::kafka) struct Security {
    values: BTreeMap<&'static str, (String, String)>,
    tls: Option<TlsClient>,
    sasl: Option<Arc<SaslSettings>>,
    is_read: bool,
    tokens: Option<Arc<dyn TokenProvider>>,
    throttled: Arc<ThrottleTotals>,
    leader_epochs: Arc<LeaderEpochs>,
}

impl Security {
    /// Nothing is configured yet; a function of the user's may provide the tokens.
    pub(in crate::kafka) fn new(tokens: Option<Arc<dyn TokenProvider>>) -> Self {
        Self {
            tokens,
            ..Self::default()
        }
    }
}

/// The native client's configuration from its properties.
#[derive(Clone, Debug)]
pub(in crate::kafka) struct NativeProperties {
    pub config: NativeConfig,
    fetch_all: Option<usize>,
    fetch_each: Option<usize>,
}

impl NativeProperties {
    /// Reads the properties of one client; a later one of the same name wins.
    pub(in crate::kafka) fn read<'a>(
        bootstrap: &str,
        given: impl Iterator<Item = (&'a str, &'a str)>,
        security: &mut Security,
    ) -> Result<Self, Vec<String>> {
        let mut reader = Reader {
            tokens: security.tokens.clone(),
            ..Reader::default()
        };
        for (name, value) in given {
            if let Knowledge::Native(canonical) = knowledge(name) {
                let value = value.trim().to_owned();
                reader.values.insert(canonical, (name.to_owned(), value));
            }
        }
        let addresses = match BrokerAddress::read_list(bootstrap) {
            Ok(addresses) => addresses,
            // An empty list is reported by the caller.
            Err(part) if part.is_empty() => Vec::new(),
            Err(part) => {
                reader.problem(format!("bootstrap.servers: '{part}' is no host:port"));
                Vec::new()
            }
        };
        reader.secure(security);
        let compression = reader.compression();
        let request_timeout = reader.number("request.timeout.ms", 100, 3_600_000);
        let request_timeout = request_timeout.map_or(REQUEST_TIMEOUT, |ms| {
            Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
        });
        let properties = Self {
            fetch_all: reader.number("fetch.max.bytes", 1, 1 << 30),
            fetch_each: reader.number("max.partition.fetch.bytes", 1, 1 << 30),
            config: NativeConfig {
                bootstrap: addresses,
                address: bootstrap.to_owned(),
                context: Arc::new(ClientContext {
                    client_id: text(reader.get("client.id").unwrap_or("stoatflow")),
                    rack: text(reader.get("client.rack").unwrap_or("")),
                    tls: security.tls.clone(),
                    sasl: security.sasl.clone(),
                    resolve,
                    network: Arc::new(SystemNetwork::default()),
                    throttled: Arc::clone(&security.throttled),
                    leader_epochs: Arc::clone(&security.leader_epochs),
                    counters: Arc::default(),
                }),
                compression,
                request_timeout,
            },
        };
        if reader.problems.is_empty() {
            Ok(properties)
        } else {
            Err(reader.problems)
        }
    }

    /// The sizes of a fetch: the user's, or else the usual ones.
    pub(in crate::kafka) fn fetch_limits(&self, usual: FetchLimits) -> FetchLimits {
        FetchLimits {
            all: self.fetch_all.unwrap_or(usual.all),
            each: self.fetch_each.unwrap_or(usual.each),
        }
    }
}

fn text(of: &str) -> StrBytes {
    StrBytes::from_string(of.to_owned())
}

impl Reader {
    fn problem(&mut self, what: String) {
        self.problems.push(what);
    }

    /// Configures what the security protocol requires, unless `security` has the same values already.
    fn secure(&mut self, security: &mut Security) {
        let of_security = |name: &str| {
            ["security.", "ssl.", "sasl.", "https.", "enable.ssl."]
                .iter()
                .any(|family| name.starts_with(family))
        };
        let values: BTreeMap<_, _> = (self.values.iter())
            .filter(|(name, _)| of_security(name))
            .map(|(name, value)| (*name, value.clone()))
            .collect();
        if !security.is_read || security.values != values {
            let (tls, sasl) = security::read(self);
            *security = Security {
                values,
                tls,
                sasl: sasl.map(Arc::new),
                is_read: true,
                tokens: self.tokens.clone(),
                throttled: Arc::clone(&security.throttled),
                leader_epochs: Arc::clone(&security.leader_epochs),
            };
        }
    }

    /// The value, unless it is empty.
    fn get(&self, canonical: &str) -> Option<&str> {
        let (_, value) = self.values.get(canonical)?;
        (!value.is_empty()).then_some(value)
    }

    /// A secret, from a file if the value is `file:PATH`.
    fn secret(&mut self, canonical: &str) -> Option<String> {
        let value = self.get(canonical)?;
        match secret_in_file(self.name(canonical), value) {
            None => Some(value.to_owned()),
            Some(Ok(text)) => Some(text),
            Some(Err(what)) => {
                self.problem(what);
                None
            }
        }
    }

    /// The name that the user wrote.
    fn name<'a>(&'a self, canonical: &'a str) -> &'a str {
        self.values
            .get(canonical)
            .map_or(canonical, |(name, _)| name)
    }

    fn number(&mut self, canonical: &str, least: usize, most: usize) -> Option<usize> {
        let value = self.get(canonical)?;
        match value.parse::<usize>() {
            Ok(number) if (least..=most).contains(&number) => Some(number),
            _ => {
                let name = self.name(canonical);
                let what = format!("'{name}' = '{value}': it is a number from {least} to {most}");
                self.problem(what);
                None
            }
        }
    }

    fn flag(&mut self, canonical: &str, usual: bool) -> bool {
        let Some(value) = self.get(canonical) else {
            return usual;
        };
        match value.to_ascii_lowercase().as_str() {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => {
                let name = self.name(canonical);
                let what = format!("'{name}' = '{value}': it is true or false");
                self.problem(what);
                usual
            }
        }
    }

    fn compression(&mut self) -> Compression {
        let Some(value) = self.get("compression.type") else {
            return Compression::default();
        };
        let Some(codec) = Codec::read(&value.to_ascii_lowercase()) else {
            let name = self.name("compression.type");
            let what = format!("'{name}' = '{value}': it is none, gzip, snappy, lz4 or zstd");
            self.problem(what);
            return Compression::default();
        };
        Compression {
            codec,
            level: self.level(codec),
        }
    }

    /// The level, from the general property or the one of the codec; librdkafka's -1 is the default.
    fn level(&mut self, codec: Codec) -> Option<i32> {
        let own = match codec {
            Codec::Gzip => "compression.gzip.level",
            Codec::Lz4 => "compression.lz4.level",
            Codec::Zstd => "compression.zstd.level",
            Codec::None | Codec::Snappy => return None,
        };
        let of = [own, "compression.level"]
            .into_iter()
            .find(|name| self.get(name).is_some())?;
        let value = self.get(of)?;
        let (least, most) = codec.levels();
        match value.parse::<i32>() {
            Ok(-1) if of == "compression.level" => None,
            Ok(level) if (least..=most).contains(&level) => Some(level),
            _ => {
                let name = self.name(of);
                let what =
                    format!("'{name}' = '{value}': levels of {codec:?} are {least} to {most}");
                self.problem(what);
                None
            }
        }
    }
}
