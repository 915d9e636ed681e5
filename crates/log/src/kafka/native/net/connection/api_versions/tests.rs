//! Brokers that are too old for this client.

use super::ApiVersions;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiKey, ApiVersionsResponse, FetchRequest, MetadataRequest};
use stoatflow_core::ErrorKind;

fn of(keys: &[(ApiKey, i16, i16)]) -> ApiVersions {
    let key = |(key, least, newest): &(ApiKey, i16, i16)| {
        ApiVersion::default()
            .with_api_key(*key as i16)
            .with_min_version(*least)
            .with_max_version(*newest)
    };
    let keys = keys.iter().map(key).collect();
    ApiVersions::of(&ApiVersionsResponse::default().with_api_keys(keys))
}

#[test]
fn a_broker_before_2_8_is_too_old() {
    // Kafka 2.7.
    let old = of(&[(ApiKey::Produce, 0, 8), (ApiKey::Metadata, 0, 9)]);
    let said = old.too_old().unwrap();
    assert_eq!(said.kind(), ErrorKind::Config);
    assert!(said.is_final());
    assert!(said.to_string().contains("up to version 8"), "{said}");
    let hint = said.hint().unwrap();
    for part in ["Kafka 2.8", "kafka.client=librdkafka"] {
        assert!(hint.contains(part), "{hint}");
    }
    // Kafka 2.8.
    assert_eq!(of(&[(ApiKey::Produce, 0, 9)]).too_old(), None);
}

#[test]
fn a_request_that_the_broker_does_not_know_is_named() {
    // A KRaft controller is no broker: it knows no produce requests.
    let controller = of(&[(ApiKey::Fetch, 20, 21)]);
    assert_eq!(controller.too_old(), None);
    let said = controller.unsupported::<MetadataRequest>();
    assert!(said.to_string().contains("Metadata"), "{said}");
    assert!(said.hint().unwrap().contains("not controllers"));
    assert_eq!(controller.version::<FetchRequest>(12), None);
    let said = controller.unsupported::<FetchRequest>().to_string();
    assert!(said.contains("knows versions 20 to 21"), "{said}");
}
