//! `security.protocol`, `ssl.*` and `sasl.*`.

use super::Reader;
use super::jaas::Jaas;
use crate::kafka::native::net::sasl::{
    Hash, Login, OidcSettings, OidcTokens, SaslSettings, TokenKeeper,
};
use crate::kafka::native::net::tls::{TlsClient, TlsSettings, TlsVersion};
use crate::kafka::tokens::TokenProvider;
use std::sync::Arc;
use std::time::Duration;

/// How a client authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    Plain,
    Scram(Hash),
    OauthBearer,
}

/// Encryption and authentication, as far as the security protocol requires them.
pub(super) fn read(reader: &mut Reader) -> (Option<TlsClient>, Option<SaslSettings>) {
    let protocol = reader.get("security.protocol").unwrap_or("plaintext");
    let (tls, sasl) = match protocol.to_ascii_lowercase().as_str() {
        "plaintext" => (false, false),
        "ssl" => (true, false),
        "sasl_plaintext" => (false, true),
        "sasl_ssl" => (true, true),
        _ => {
            let what = format!(
                "'security.protocol' = '{protocol}': it is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
            );
            reader.problem(what);
            return (None, None);
        }
    };
    if !sasl
        && reader
            .get("sasl.username")
            .or(reader.get("sasl.jaas.config"))
            .is_some()
    {
        reader.problem(format!(
            "'{}' is set, but security.protocol is {}: set it to SASL_SSL (or SASL_PLAINTEXT)",
            reader.name(if reader.get("sasl.username").is_some() {
                "sasl.username"
            } else {
                "sasl.jaas.config"
            }),
            protocol.to_ascii_uppercase()
        ));
        return (None, None);
    }
    if !sasl && reader.tokens.is_some() {
        let protocol = protocol.to_ascii_uppercase();
        reader.problem(format!(
            "oauth_cb is set, but security.protocol is {protocol}: set it to SASL_SSL, and \
                sasl.mechanism to OAUTHBEARER"
        ));
        return (None, None);
    }
    let tls = if tls { read_tls(reader) } else { None };
    let sasl = if sasl { read_sasl(reader) } else { None };
    (tls, sasl)
}

fn read_tls(reader: &mut Reader) -> Option<TlsClient> {
    for (canonical, pem) in [
        ("ssl.truststore.type", "ssl.ca.location"),
        (
            "ssl.keystore.type",
            "ssl.certificate.location and ssl.key.location",
        ),
    ] {
        if let Some(kind) = reader
            .get(canonical)
            .filter(|kind| !kind.eq_ignore_ascii_case("pem"))
        {
            let what = format!(
                "'{canonical}' = '{kind}': only PEM can be read here. Java's tools make it: keytool \
                    -importkeystore -srckeystore store.jks -destkeystore store.p12 -deststoretype \
                    PKCS12; then openssl pkcs12 -in store.p12 -out store.pem -nodes; and {pem} \
                    names it"
            );
            reader.problem(what);
        }
    }
    let certificate = text_or_file(reader, "ssl.certificate.pem", "ssl.certificate.location");
    let mut key = text_or_file(reader, "ssl.key.pem", "ssl.key.location");
    // Java's PEM key store has both in one file.
    if key.is_none() && reader.name("ssl.certificate.location") == "ssl.keystore.location" {
        key = certificate.clone();
    }
    let algorithm = reader.get("ssl.endpoint.identification.algorithm");
    let (algorithm, is_set) = (
        algorithm.unwrap_or("").to_owned(),
        reader
            .values
            .contains_key("ssl.endpoint.identification.algorithm"),
    );
    if !matches!(algorithm.as_str(), "" | "https" | "HTTPS" | "none") {
        reader.problem(format!(
            "'ssl.endpoint.identification.algorithm' = '{algorithm}': it is https or none"
        ));
    }
    let settings = TlsSettings {
        ca: text_or_file(reader, "ssl.ca.pem", "ssl.ca.location"),
        certificate,
        key,
        key_password: reader.secret("ssl.key.password"),
        // Java turns it off with an empty value, librdkafka with `none`.
        ignore_host_name: is_set && matches!(algorithm.as_str(), "" | "none"),
        trust_everybody: !reader.flag("enable.ssl.certificate.verification", true),
        versions: versions(reader),
    };
    match TlsClient::new(&settings) {
        Ok(client) => Some(client),
        Err(why) => {
            reader.problem(why);
            None
        }
    }
}

/// A PEM text, either as the value or in a file.
fn text_or_file(reader: &mut Reader, text: &str, file: &str) -> Option<Vec<u8>> {
    if let Some(text) = reader.get(text) {
        // In a properties file, lines may be joined with a backslash and an n.
        return Some(text.replace("\\n", "\n").into_bytes());
    }
    // librdkafka's value for the system's own certificates, which are the default here.
    let path = reader.get(file).filter(|path| *path != "probe")?.to_owned();
    match std::fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(e) => {
            let what = format!("'{}' = '{path}': {e}", reader.name(file));
            reader.problem(what);
            None
        }
    }
}

fn versions(reader: &mut Reader) -> Vec<TlsVersion> {
    let Some(list) = reader.get("ssl.enabled.protocols").map(str::to_owned) else {
        return Vec::new();
    };
    let mut versions = Vec::new();
    for name in list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        match name {
            "TLSv1.2" => versions.push(TlsVersion::V12),
            "TLSv1.3" => versions.push(TlsVersion::V13),
            _ => reader.problem(format!(
                "'ssl.enabled.protocols' = '{list}': TLSv1.2 and TLSv1.3 are spoken here"
            )),
        }
    }
    versions
}

fn read_sasl(reader: &mut Reader) -> Option<SaslSettings> {
    let Some(name) = reader.get("sasl.mechanism").map(str::to_owned) else {
        reader.problem(
            "'sasl.mechanism' is not set: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
                .to_owned(),
        );
        return None;
    };
    let mechanism = match name.to_ascii_uppercase().as_str() {
        "PLAIN" => Mechanism::Plain,
        "SCRAM-SHA-256" => Mechanism::Scram(Hash::Sha256),
        "SCRAM-SHA-512" => Mechanism::Scram(Hash::Sha512),
        "OAUTHBEARER" => Mechanism::OauthBearer,
        _ => {
            reader.problem(format!(
                "'sasl.mechanism' = '{name}': it is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
            ));
            return None;
        }
    };
    if mechanism != Mechanism::OauthBearer && reader.tokens.is_some() {
        reader.problem(format!(
            "oauth_cb is set, but sasl.mechanism is {name}: set it to OAUTHBEARER"
        ));
        return None;
    }
    let jaas = read_jaas(reader, mechanism)?;
    match mechanism {
        Mechanism::OauthBearer => read_oauth(reader, jaas.as_ref()),
        Mechanism::Plain => Some(SaslSettings::Plain(login(reader, jaas.as_ref())?)),
        Mechanism::Scram(hash) => Some(SaslSettings::Scram(hash, login(reader, jaas.as_ref())?)),
    }
}

/// `Some(None)` without one; `None` after a problem.
#[expect(clippy::option_option, reason = "absent is not wrong")]
fn read_jaas(reader: &mut Reader, mechanism: Mechanism) -> Option<Option<Jaas>> {
    if reader.get("sasl.jaas.config").is_none() {
        return Some(None);
    }
    let text = reader.secret("sasl.jaas.config")?;
    let expected = match mechanism {
        Mechanism::Plain => "PlainLoginModule",
        Mechanism::Scram(_) => "ScramLoginModule",
        Mechanism::OauthBearer => "OAuthBearerLoginModule",
    };
    match Jaas::read(&text) {
        Some(jaas) if jaas.module == expected => Some(Some(jaas)),
        Some(jaas) => {
            reader.problem(format!(
                "'sasl.jaas.config' has {}, and sasl.mechanism asks for {expected}",
                jaas.module
            ));
            None
        }
        None => {
            reader.problem(format!(
                "'sasl.jaas.config' is not of the form: org.apache.kafka...{expected} required \
                    name=\"value\" ...;"
            ));
            None
        }
    }
}

/// A property, or else an option of the JAAS text.
fn setting(
    reader: &mut Reader,
    canonical: &str,
    jaas: Option<&Jaas>,
    option: &str,
) -> Option<String> {
    let set = reader.secret(canonical);
    set.or_else(|| Some(jaas?.option(option)?.to_owned()))
}

fn login(reader: &mut Reader, jaas: Option<&Jaas>) -> Option<Login> {
    let username = setting(reader, "sasl.username", jaas, "username");
    let password = setting(reader, "sasl.password", jaas, "password");
    match (username, password) {
        (Some(username), Some(password)) => Some(Login { username, password }),
        (None, _) => {
            reader.problem("'sasl.username' is not set".to_owned());
            None
        }
        (_, None) => {
            // A file that can't be read was already reported.
            if reader.get("sasl.password").is_none() {
                reader.problem("'sasl.password' is not set".to_owned());
            }
            None
        }
    }
}

/// The property that bounds how long a token may take, and its default.
const TOKEN_TIMEOUT: &str = "sasl.login.read.timeout.ms";
const USUAL_TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

fn read_oauth(reader: &mut Reader, jaas: Option<&Jaas>) -> Option<SaslSettings> {
    let within = reader.number(TOKEN_TIMEOUT, 1, 3_600_000);
    let within = within.map_or(USUAL_TOKEN_TIMEOUT, |ms| Duration::from_millis(ms as u64));
    let provider = match reader.tokens.clone() {
        Some(given) => own_tokens(reader, given)?,
        None => oidc(reader, jaas)?,
    };
    Some(SaslSettings::OauthBearer(Arc::new(TokenKeeper::new(
        provider, within,
    ))))
}

/// A function of the user's provides tokens: then nothing else may.
fn own_tokens(
    reader: &mut Reader,
    given: Arc<dyn TokenProvider>,
) -> Option<Arc<dyn TokenProvider>> {
    for canonical in [
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.extensions",
    ] {
        if reader.get(canonical).is_some() {
            let name = reader.name(canonical);
            let what =
                format!("oauth_cb makes tokens, and '{name}' is set: leave out one of the two");
            reader.problem(what);
            return None;
        }
    }
    Some(given)
}

/// Tokens by the client credentials grant.
fn oidc(reader: &mut Reader, jaas: Option<&Jaas>) -> Option<Arc<dyn TokenProvider>> {
    if reader.get("sasl.oauthbearer.config").is_some() {
        reader.problem(
            "'sasl.oauthbearer.config' is what oauth_cb is called with: set oauth_cb too"
                .to_owned(),
        );
        return None;
    }
    if let Some(method) = reader
        .get("sasl.oauthbearer.method")
        .filter(|m| !m.eq_ignore_ascii_case("oidc"))
    {
        let what = format!("'sasl.oauthbearer.method' = '{method}': it is oidc");
        reader.problem(what);
        return None;
    }
    let mut of = |canonical, option| setting(reader, canonical, jaas, option);
    let endpoint = of("sasl.oauthbearer.token.endpoint.url", "endpoint");
    let id = of("sasl.oauthbearer.client.id", "clientId");
    let secret = of("sasl.oauthbearer.client.secret", "clientSecret");
    let scope = of("sasl.oauthbearer.scope", "scope");
    let mut extensions = jaas.map_or_else(Vec::new, |jaas| jaas.with_prefix("extension_"));
    let list = reader
        .get("sasl.oauthbearer.extensions")
        .unwrap_or("")
        .to_owned();
    for part in list.split(',').filter(|part| !part.trim().is_empty()) {
        match part.split_once('=') {
            Some((name, value)) => {
                extensions.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            None => reader.problem(format!(
                "'sasl.oauthbearer.extensions': '{part}' is not name=value"
            )),
        }
    }
    let urlencode = reader.flag("sasl.oauthbearer.header.urlencode", false);
    let ca = text_or_file(reader, "https.ca.pem", "https.ca.location");
    let (Some(endpoint), Some(client_id), Some(client_secret)) = (endpoint, id, secret) else {
        reader.problem(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.client.id and \
                sasl.oauthbearer.client.secret; or oauth_cb, a function that returns a token"
                .to_owned(),
        );
        return None;
    };
    let tokens = OidcTokens::new(OidcSettings {
        endpoint,
        client_id,
        client_secret,
        scope,
        extensions,
        urlencode,
        ca,
    });
    match tokens {
        Ok(tokens) => Some(Arc::new(tokens)),
        Err(why) => {
            reader.problem(why);
            None
        }
    }
}
