//! The effects of properties on the native client.

use super::jaas::Jaas;
use super::known::native_names;
use super::{Knowledge, NativeProperties, Security, knowledge};
use crate::kafka::native::FetchLimits;
use crate::kafka::native::records::compression::{Codec, Compression};

fn read(rows: &[(&str, &str)]) -> Result<NativeProperties, Vec<String>> {
    NativeProperties::read("b:1", rows.iter().copied(), &mut Security::default())
}

/// The only problem of these properties.
fn problem(rows: &[(&str, &str)]) -> String {
    let mut problems = read(rows).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.remove(0)
}

#[test]
fn a_name_means_one_thing() {
    let mut names: Vec<_> = native_names().concat();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "a name stands twice");
    for name in names {
        assert!(matches!(knowledge(name), Knowledge::Native(_)), "{name}");
    }
    assert_eq!(
        knowledge("fetch.message.max.bytes"),
        Knowledge::Native("max.partition.fetch.bytes")
    );
    assert!(matches!(knowledge("linger.ms"), Knowledge::NoEffect(_)));
    assert!(matches!(
        knowledge("ssl.cipher.suites"),
        Knowledge::Refused(_)
    ));
    assert_eq!(knowledge("sasl.pasword"), Knowledge::Unknown);
}

#[test]
fn without_properties_it_is_plaintext() {
    let plain = read(&[]).unwrap();
    let context = &plain.config.context;
    assert!(context.tls.is_none() && context.sasl.is_none());
    assert_eq!(&*context.client_id, "stoatflow");
    assert_eq!(plain.config.compression, Compression::default());
    let usual = FetchLimits { all: 7, each: 3 };
    assert_eq!(plain.fetch_limits(usual), usual);
}

#[test]
fn limits_and_compression_are_taken_over() {
    let given = read(&[
        ("fetch.max.bytes", "1000"),
        ("max.partition.fetch.bytes", "10"),
        ("compression.type", "zstd"),
        ("compression.level", "7"),
        ("compression.zstd.level", "9"),
    ])
    .unwrap();
    let limits = given.fetch_limits(FetchLimits { all: 7, each: 3 });
    assert_eq!(
        limits,
        FetchLimits {
            all: 1000,
            each: 10
        }
    );
    let expected = Compression {
        codec: Codec::Zstd,
        level: Some(9),
    };
    assert_eq!(given.config.compression, expected);
    assert!(problem(&[("compression.type", "brotli")]).contains("gzip, snappy, lz4 or zstd"));
    let too_much = problem(&[("compression.type", "gzip"), ("compression.level", "12")]);
    assert!(too_much.contains("1 to 9"), "{too_much}");
}

#[test]
fn java_and_librdkafka_name_the_same_user() {
    let librdkafka = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanisms", "SCRAM-SHA-512"),
        ("sasl.username", "me"),
        ("sasl.password", "a \"b\""),
    ];
    let java = [
        ("security.protocol", "sasl_plaintext"),
        ("sasl.mechanism", "scram-sha-512"),
        (
            "sasl.jaas.config",
            r#"org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="a \"b\"";"#,
        ),
    ];
    let shown = |rows: &[(&str, &str)]| {
        let sasl = read(rows).unwrap().config.context.sasl.clone().unwrap();
        (sasl.mechanism(), format!("{sasl:?}"))
    };
    assert_eq!(shown(&librdkafka), shown(&java));
}

#[test]
fn jaas_texts_are_read() {
    let jaas = Jaas::read(r#" a.b.PlainLoginModule required  username="u=1" password=p  x="" ;"#);
    let jaas = jaas.unwrap();
    assert_eq!(jaas.module, "PlainLoginModule");
    assert_eq!(
        ["username", "password", "x", "y"].map(|name| jaas.option(name)),
        [Some("u=1"), Some("p"), Some(""), None]
    );
    for wrong in [
        "",
        "a.B required username=\"u\"",
        "a.B username=\"u\";",
        "a.B required username=\"u;",
    ] {
        assert_eq!(Jaas::read(wrong), None, "{wrong}");
    }
}

#[test]
fn missing_properties_are_named() {
    let sasl = |rows: &[(&'static str, &'static str)]| {
        problem(
            &[
                &[
                    ("security.protocol", "SASL_SSL"),
                    ("enable.ssl.certificate.verification", "false"),
                ],
                rows,
            ]
            .concat(),
        )
    };
    assert!(sasl(&[]).contains("'sasl.mechanism' is not set"));
    assert!(sasl(&[("sasl.mechanism", "PLAIN")]).contains("'sasl.username' is not set"));
    let no_password = sasl(&[("sasl.mechanism", "PLAIN"), ("sasl.username", "me")]);
    assert!(
        no_password.contains("'sasl.password' is not set"),
        "{no_password}"
    );
    assert!(sasl(&[("sasl.mechanism", "OAUTHBEARER")]).contains("token.endpoint.url"));
    let wrong_module = sasl(&[
        ("sasl.mechanism", "PLAIN"),
        ("sasl.jaas.config", "x.ScramLoginModule required a=b;"),
    ]);
    assert!(
        wrong_module.contains("asks for PlainLoginModule"),
        "{wrong_module}"
    );
}

#[test]
fn a_user_without_a_protocol_for_it_is_a_mistake() {
    let forgotten = problem(&[("sasl.username", "me"), ("sasl.password", "hunter2")]);
    assert!(
        forgotten.contains("security.protocol is PLAINTEXT"),
        "{forgotten}"
    );
    assert!(!forgotten.contains("hunter2"));
}

#[test]
fn secrets_come_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, "from-file\n").unwrap();
    let file = format!("file:{}", path.display());
    let rows = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "me"),
        ("sasl.password", file.as_str()),
    ];
    let context = read(&rows).unwrap().config.context.clone();
    let crate::kafka::native::net::sasl::SaslSettings::Plain(login) =
        &**context.sasl.as_ref().unwrap()
    else {
        panic!("PLAIN was asked for");
    };
    assert_eq!(login.password, "from-file");
    let mut rows = rows;
    rows[3].1 = "file:/there/is/none";
    let said = problem_of(&rows);
    assert!(
        said.contains("file:/there/is/none") && !said.contains("is not set"),
        "{said}"
    );
}

/// All problems as one text.
fn problem_of(rows: &[(&str, &str)]) -> String {
    read(rows).unwrap_err().join("; ")
}

#[test]
fn java_stores_are_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.jks");
    std::fs::write(&path, [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2]).unwrap();
    let store = path.to_str().unwrap();
    let jks = problem(&[
        ("security.protocol", "SSL"),
        ("ssl.truststore.location", store),
    ]);
    assert!(jks.contains("keytool -importkeystore"), "{jks}");
    std::fs::write(&path, [0x30, 0x82, 1, 2, 3]).unwrap();
    let p12 = problem(&[("security.protocol", "SSL"), ("ssl.ca.location", store)]);
    assert!(p12.contains("openssl pkcs12"), "{p12}");
    std::fs::write(&path, "hello").unwrap();
    let empty = problem(&[("security.protocol", "SSL"), ("ssl.ca.location", store)]);
    assert!(empty.contains("there is no certificate in it"), "{empty}");
    let absent = problem(&[
        ("security.protocol", "SSL"),
        ("ssl.ca.location", "/there/is/none"),
    ]);
    assert!(absent.contains("/there/is/none"), "{absent}");
}
