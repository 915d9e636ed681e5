//! Brokers from before 2.8 end the start with a sentence of their own, and no other client takes over.

use crate::kafka::connect;
use crate::{Broker, ProducerMode};
use kafka_protocol::messages::ApiKey;
use parking_lot::Mutex;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;
use stoatflow_core::settings::ClientRole;
use stoatflow_core::{Clock, Error, ErrorKind, SystemClock};

const WAIT: Duration = Duration::from_secs(60);
const UNSUPPORTED_VERSION: i16 = 35;

/// The newest versions that a broker knows of some requests.
type Versions = &'static [(ApiKey, i16)];

const KAFKA_0_10: Versions = &[
    (ApiKey::Produce, 2),
    (ApiKey::Fetch, 2),
    (ApiKey::Metadata, 1),
    (ApiKey::ApiVersions, 0),
];
const KAFKA_2_3: Versions = &[
    (ApiKey::Produce, 7),
    (ApiKey::Fetch, 11),
    (ApiKey::Metadata, 8),
    (ApiKey::InitProducerId, 1),
    (ApiKey::ApiVersions, 2),
];

/// A broker that answers nothing but the request for its versions.
struct OldBroker {
    bootstrap: String,
    /// The requests so far.
    asked: Arc<Mutex<Vec<i16>>>,
}

impl OldBroker {
    fn start(versions: Versions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let bootstrap = listener.local_addr().unwrap().to_string();
        let asked = Arc::<Mutex<Vec<i16>>>::default();
        let noted = Arc::clone(&asked);
        let accept = move || {
            for stream in listener.incoming() {
                let (stream, noted) = (stream.unwrap(), Arc::clone(&noted));
                let serve = move || drop(serve(stream, versions, &noted));
                Builder::new().spawn(serve).unwrap();
            }
        };
        Builder::new().spawn(accept).unwrap();
        Self { bootstrap, asked }
    }
}

/// A failed read means that the client is gone.
fn serve(
    mut stream: TcpStream,
    versions: Versions,
    asked: &Mutex<Vec<i16>>,
) -> std::io::Result<()> {
    loop {
        let mut size = [0; 4];
        stream.read_exact(&mut size)?;
        let mut request = vec![0; u32::from_be_bytes(size) as usize];
        stream.read_exact(&mut request)?;
        let number = |at: usize| i16::from_be_bytes([request[at], request[at + 1]]);
        let (key, version) = (number(0), number(2));
        asked.lock().push(key);
        if key != ApiKey::ApiVersions as i16 {
            return Ok(());
        }
        let newest = versions.iter().find(|(key, _)| *key == ApiKey::ApiVersions);
        let is_known = newest.is_some_and(|(_, newest)| version <= *newest);
        let listed = if is_known { versions } else { &[] };
        let code = if is_known { 0 } else { UNSUPPORTED_VERSION };
        // Version 0: the code, then the requests with their oldest and newest versions.
        let mut answer = request[4..8].to_vec();
        answer.extend(code.to_be_bytes());
        answer.extend(u32::try_from(listed.len()).unwrap().to_be_bytes());
        for (key, newest) in listed {
            for number in [*key as i16, 0, *newest] {
                answer.extend(number.to_be_bytes());
            }
        }
        stream.write_all(&u32::try_from(answer.len()).unwrap().to_be_bytes())?;
        stream.write_all(&answer)?;
    }
}

/// The errors of the first requests of a start, each within a part of its time.
fn errors(broker: &OldBroker, properties: &[(&str, &str)]) -> Vec<Error> {
    let row =
        |(name, value): &(&str, &str)| (ClientRole::All, (*name).to_owned(), (*value).to_owned());
    let properties: Vec<_> = properties.iter().map(row).collect();
    let client = connect(&broker.bootstrap, &properties).unwrap();
    assert_eq!(client.client().name, "native");
    let clock = SystemClock::new();
    let (id, timeout) = ("app".to_owned(), WAIT);
    let plain = ProducerMode::Plain {
        id: id.clone(),
        timeout,
    };
    let transactional = ProducerMode::Transactional { id, timeout };
    let mut errors = vec![client.topics(&["t"], WAIT).unwrap_err()];
    for mode in [transactional, plain] {
        errors.push(client.producer(&mode, WAIT).err().expect("too old"));
    }
    assert!(clock.monotonic() < WAIT / 2, "a retry can't help");
    errors
}

#[test]
fn an_old_broker_ends_the_start_in_its_own_sentence() {
    for (versions, newest) in [(KAFKA_0_10, 2), (KAFKA_2_3, 7)] {
        for choice in ["auto", "native"] {
            let broker = OldBroker::start(versions);
            for error in errors(&broker, &[("kafka.client", choice)]) {
                assert_eq!(error.kind(), ErrorKind::Config, "{error}");
                let said = error.to_string();
                for part in [
                    "too old for the native client",
                    &format!("up to version {newest}"),
                    "Kafka 2.8",
                    "kafka.client=librdkafka",
                ] {
                    assert!(said.contains(part), "{part} is not in: {said}");
                }
            }
            // librdkafka would go on to other requests.
            let asked = broker.asked.lock();
            assert!(asked.iter().all(|key| *key == ApiKey::ApiVersions as i16));
        }
    }
}

#[test]
fn a_password_is_not_sent_to_an_old_broker() {
    let broker = OldBroker::start(KAFKA_2_3);
    let secured = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "me"),
        ("sasl.password", "secret"),
    ];
    for error in errors(&broker, &secured) {
        let said = error.to_string();
        assert!(said.contains("Kafka 2.8"), "{said}");
    }
    let asked = broker.asked.lock();
    assert!(asked.iter().all(|key| *key == ApiKey::ApiVersions as i16));
}
