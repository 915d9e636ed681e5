//! The address of a broker.

use std::fmt::{self, Display};

#[cfg(test)]
mod tests;

/// Host and port of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct BrokerAddress {
    pub host: String,
    pub port: u16,
}

/// The names of security protocols, which may precede an address.
const PROTOCOLS: &[&str] = &["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"];

impl BrokerAddress {
    /// Parses `host`, `host:port` or `[::1]:port`, with or without a protocol in front
    /// (`SSL://host:port`). `None` if it is none of these.
    pub(in crate::kafka) fn read(text: &str) -> Option<Self> {
        const PORT: u16 = 9092;
        let text = text.trim();
        let text = match text.split_once("://") {
            None => text,
            Some((protocol, rest)) => {
                PROTOCOLS
                    .iter()
                    .find(|p| protocol.eq_ignore_ascii_case(p))?;
                rest
            }
        };
        let (host, port) = match text.rsplit_once(':') {
            // More than one colon, and no bracket: an IPv6 address without a port.
            Some((host, _)) if host.contains(':') && !host.ends_with(']') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return None;
        }
        let port = match port {
            None | Some("") => PORT,
            Some(port) => port.parse().ok()?,
        };
        Some(Self {
            host: host.to_owned(),
            port,
        })
    }

    /// Parses a bootstrap list. The error is the part that is no address.
    pub(in crate::kafka) fn read_list(bootstrap: &str) -> Result<Vec<Self>, String> {
        let parts = bootstrap.split(',').filter(|part| !part.trim().is_empty());
        let read = |part: &str| Self::read(part).ok_or_else(|| part.trim().to_owned());
        let list: Vec<_> = parts.map(read).collect::<Result<_, _>>()?;
        if list.is_empty() {
            return Err(bootstrap.trim().to_owned());
        }
        Ok(list)
    }
}

impl Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
