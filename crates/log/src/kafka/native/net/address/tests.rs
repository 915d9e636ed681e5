use super::BrokerAddress;

#[test]
fn addresses_are_read() {
    let at = |host: &str, port| {
        Some(BrokerAddress {
            host: host.to_owned(),
            port,
        })
    };
    for (text, expected) in [
        ("localhost:9093", at("localhost", 9093)),
        (" broker ", at("broker", 9092)),
        ("broker:", at("broker", 9092)),
        ("PLAINTEXT://broker:1", at("broker", 1)),
        ("plaintext://broker:1", at("broker", 1)),
        ("[::1]:9093", at("::1", 9093)),
        ("::1", at("::1", 9092)),
        ("[::1]", at("::1", 9092)),
        ("SSL://broker:1", at("broker", 1)),
        ("SASL_SSL://[::1]:1", at("::1", 1)),
        ("KAFKA://broker:1", None),
        ("broker:port", None),
        ("broker:70000", None),
        (":9092", None),
        ("", None),
    ] {
        assert_eq!(BrokerAddress::read(text), expected, "{text:?}");
    }
}

#[test]
fn lists_are_read() {
    let read = |text| BrokerAddress::read_list(text).map(|list| list.len());
    assert_eq!(read("a:1, b:2,"), Ok(2));
    assert_eq!(read("a:1,SSL://b:2"), Ok(2));
    assert_eq!(read("a:1, b:x"), Err("b:x".to_owned()));
    assert_eq!(read(" , "), Err(",".to_owned()));
}
