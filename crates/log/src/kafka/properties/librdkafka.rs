//! Which properties librdkafka accepts, as it is built here: with TLS, PLAIN and SCRAM, without an identity
//! provider for OAUTHBEARER and without Kerberos.
//!
//! Takes names and values, returns problems in sentences that say what to do. Asks librdkafka itself
//! about each property. Never prints a value that may be secret.

use crate::kafka::native::properties::{Knowledge, knowledge};
use rdkafka::config::ClientConfig;
use stoatflow_core::settings::{ClientRole, is_secret};

type Property = (ClientRole, String, String);

/// Whether this is one of the two names of the SASL mechanism.
fn is_mechanism(name: &str) -> bool {
    matches!(name, "sasl.mechanism" | "sasl.mechanisms")
}

/// The last property with such a name.
fn last<'a>(
    user: impl DoubleEndedIterator<Item = &'a Property>,
    is_wanted: impl Fn(&str) -> bool,
) -> Option<(&'a str, &'a str)> {
    let mut from_last = user.rev();
    let (_, name, value) = from_last.find(|(_, name, _)| is_wanted(name))?;
    Some((name, value))
}

/// Whether the security protocol is another one than PLAINTEXT.
pub(super) fn is_secured(user: &[Property]) -> bool {
    let protocol = last(user.iter(), |name| name == "security.protocol");
    protocol.is_some_and(|(_, value)| !value.trim().eq_ignore_ascii_case("plaintext"))
}

/// Reports everything of Kerberos in one sentence, and returns the rest: without the user and the
/// protocol either, which would be wrong only because the mechanism is missing.
pub(super) fn without_kerberos(user: &[Property], problems: &mut Vec<String>) -> Vec<Property> {
    let mut names = Vec::new();
    for (_, name, value) in user {
        if is_mechanism(name) && value.trim().eq_ignore_ascii_case("gssapi") {
            names.push(format!("'{name}' = '{value}'"));
        } else if name.starts_with("sasl.kerberos.") {
            names.push(format!("'{name}'"));
        }
    }
    if names.is_empty() {
        return user.to_vec();
    }
    names.sort();
    names.dedup();
    let names = names.join(", ");
    problems.push(format!(
        "{names}: Kerberos (GSSAPI) is not built in; use SCRAM-SHA-512 or a client certificate \
            (security.protocol=SSL)"
    ));
    let is_login = |name: &str| {
        let is_sasl = name.starts_with("sasl.") && knowledge(name) != Knowledge::Unknown;
        is_sasl || name == "security.protocol"
    };
    let rest = user.iter().filter(|(_, name, _)| !is_login(name));
    rest.cloned().collect()
}

/// Everything that librdkafka doesn't accept, or that it would only refuse while it connects.
pub(super) fn check_librdkafka(user: &[&Property], problems: &mut Vec<String>) {
    let protocol = last(user.iter().copied(), |name| name == "security.protocol");
    let protocol = protocol.map_or("", |(_, value)| value.trim());
    let mechanism = last(user.iter().copied(), is_mechanism);
    let is_sasl = protocol.to_ascii_lowercase().starts_with("sasl_");
    let is_refused = match mechanism {
        None if is_sasl => {
            problems.push(
                "'sasl.mechanism' is not set: librdkafka knows PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 here, \
                    and the native client OAUTHBEARER too"
                    .to_owned(),
            );
            false
        }
        Some((name, value)) if is_sasl && value.trim().eq_ignore_ascii_case("oauthbearer") => {
            problems.push(format!(
                "'{name}' = '{value}': librdkafka fetches no tokens here; leave out kafka.client=librdkafka: \
                    the native client does"
            ));
            true
        }
        _ => false,
    };
    for (_, name, value) in user {
        let is_reported =
            is_refused && (is_mechanism(name) || name.starts_with("sasl.oauthbearer."));
        if !is_reported {
            problems.extend(problem(name, value));
        }
    }
}

/// Where librdkafka looks for certificates of the machine. The paths of its OpenSSL are those of the
/// machine that it was built on.
pub(super) const SYSTEM_CERTIFICATES: (&str, &str) = ("ssl.ca.location", "probe");

/// Why librdkafka doesn't accept a property.
pub(super) fn problem(name: &str, value: &str) -> Option<String> {
    let why = is_librdkafkas(name, value).err()?;
    if let Knowledge::Refused(why) = knowledge(name) {
        return Some(format!("'{name}' can't be set: {why}"));
    }
    // librdkafka's message contains the value, which may be a password under a mistyped name.
    let hidden = is_secret(name) || name.starts_with("sasl.");
    Some(if hidden {
        format!("'{name}' = '***': there is no such property, or not with this value")
    } else {
        format!("'{name}' = '{value}': {why}")
    })
}

/// Checks whether librdkafka accepts this property with this value.
pub(super) fn is_librdkafkas(name: &str, value: &str) -> Result<(), String> {
    let mut single = ClientConfig::new();
    single.set(name, value);
    let checked = single.create_native_config();
    checked.map(drop).map_err(|e| e.to_string())
}
