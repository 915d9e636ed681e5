//! Which properties a user may set.

use super::{OWNED, Properties};
use crate::kafka::native::properties::{Knowledge, knowledge};
use std::time::Duration;
use stoatflow_core::ErrorKind;
use stoatflow_core::settings::{ClientRole, IDLE};

fn row(role: ClientRole, name: &str, value: &str) -> (ClientRole, String, String) {
    (role, name.to_owned(), value.to_owned())
}

#[test]
fn every_owned_property_is_refused_with_its_reason() {
    for (name, reason) in OWNED {
        let refused = Properties::new("b:1", &[row(ClientRole::All, name, "1")]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Config);
        assert!(
            refused.message().contains(name) && refused.message().contains(reason),
            "{refused}"
        );
    }
}

#[test]
fn all_problems_come_at_once() {
    let user = [
        row(ClientRole::Consumer, "isolation.level", "read_uncommitted"),
        row(ClientRole::Producer, "linger.msx", "1"),
        row(ClientRole::All, "compression.type", "soon"),
    ];
    let refused = Properties::new(" ", &user).unwrap_err().to_string();
    for part in [
        "4 problem(s)",
        "bootstrap.servers is empty",
        "'isolation.level'",
        "'linger.msx'",
        "'soon'",
    ] {
        assert!(refused.contains(part), "{part} is missing in: {refused}");
    }
}

#[test]
fn the_nearer_layer_wins() {
    let user = [
        row(ClientRole::Producer, "linger.ms", "20"),
        row(ClientRole::All, "linger.ms", "10"),
        row(ClientRole::All, "client.id", "mine"),
        row(ClientRole::Consumer, "fetch.min.bytes", "7"),
    ];
    let properties = Properties::new("b:1", &user).unwrap();
    let producer = properties.transactional("app", Duration::from_secs(9));
    assert_eq!(producer.get("linger.ms"), Some("20"));
    assert_eq!(producer.get("transactional.id"), Some("app"));
    assert_eq!(producer.get("transaction.timeout.ms"), Some("9000"));
    assert_eq!(producer.get("fetch.min.bytes"), None);
    let consumer = properties.consumer("group");
    assert_eq!(consumer.get("client.id"), Some("mine"));
    assert_eq!(consumer.get("fetch.min.bytes"), Some("7"));
    assert_eq!(consumer.get("isolation.level"), Some("read_committed"));
    assert_eq!(properties.idempotent().get("transactional.id"), None);
    assert_eq!(properties.admin().get("enable.idempotence"), None);
}

#[test]
fn clients_that_write_nothing_push_no_metrics() {
    let pushes = |properties: &Properties| {
        [
            properties.admin(),
            properties.consumer("group"),
            properties.divided_consumer("group", 1),
            properties.idempotent(),
        ]
        .map(|config| config.get("enable.metrics.push").map(str::to_owned))
    };
    let no = || Some("false".to_owned());
    let plain = Properties::new("b:1", &[]).unwrap();
    assert_eq!(pushes(&plain), [no(), no(), None, None]);
    let user = [row(ClientRole::All, "enable.metrics.push", "true")];
    let mine = Properties::new("b:1", &user).unwrap();
    assert!(pushes(&mine).iter().all(|p| p.as_deref() == Some("true")));
}

#[test]
fn prefetch_memory_is_divided_among_partitions() {
    let properties = Properties::new("b:1", &[]).unwrap();
    let ahead = |partitions| {
        let config = properties.divided_consumer("group", partitions);
        let number = |name| config.get(name).unwrap().parse::<usize>().unwrap();
        partitions
            * (number("queued.max.messages.kbytes") * 1024 + number("fetch.message.max.bytes"))
    };
    for partitions in [1, 8, 30, 64] {
        assert!(
            ahead(partitions) <= 9 << 20,
            "{partitions}: {}",
            ahead(partitions)
        );
    }
    let user = [row(ClientRole::Consumer, "queued.min.messages", "7")];
    let mine = Properties::new("b:1", &user).unwrap();
    let config = mine.divided_consumer("group", 3);
    assert_eq!(config.get("queued.min.messages"), Some("7"));
    assert_eq!(config.get("isolation.level"), Some("read_committed"));
}

#[test]
fn the_native_client_is_chosen_where_possible() {
    let native = |rows: &[(ClientRole, String, String)]| {
        let properties = Properties::new("a:1,SSL://b:2", rows).unwrap();
        properties.native(ClientRole::Producer).is_some()
    };
    let all = |name, value| row(ClientRole::All, name, value);
    assert!(native(&[]));
    assert!(native(&[
        all("compression.type", "lz4"),
        all("linger.ms", "20")
    ]));
    assert!(native(&[
        all("kafka.client", "native"),
        all("client.id", "x")
    ]));
    assert!(!native(&[all("kafka.client", "librdkafka")]));
    assert!(!native(&[all("debug", "broker")]));
}

#[test]
fn librdkafka_only_properties_are_refused_for_the_native_client() {
    let rows = [
        row(ClientRole::All, "kafka.client", "native"),
        row(ClientRole::All, "debug", "broker"),
    ];
    let refused = Properties::new("b:1", &rows).unwrap_err().to_string();
    assert!(
        refused.contains("the native client doesn't know debug"),
        "{refused}"
    );
}

#[test]
fn the_nearer_property_wins_for_the_native_client() {
    let rows = [
        row(ClientRole::Producer, "client.id", "writer"),
        row(ClientRole::All, "client.id", "mine"),
    ];
    let properties = Properties::new("b:1", &rows).unwrap();
    let of = |role| {
        properties
            .native(role)
            .unwrap()
            .config
            .context
            .client_id
            .to_string()
    };
    assert_eq!(of(ClientRole::Producer), "writer");
    assert_eq!(of(ClientRole::Consumer), "mine");
}

#[test]
fn a_secret_is_shown_in_no_message() {
    for name in [
        "sasl.pasword",
        "sasl.password",
        "ssl.key.pasword",
        "my.secret",
    ] {
        let rows = [
            row(ClientRole::All, name, "hunter2"),
            row(ClientRole::All, "sasl.mechanism", "SCRAM-SHA-257"),
            row(ClientRole::All, "security.protocol", "SASL_SSL"),
        ];
        let refused = Properties::new("b:1", &rows).unwrap_err();
        assert!(
            !format!("{refused} {refused:?}").contains("hunter2"),
            "{name}: {refused}"
        );
    }
}

#[test]
fn librdkafka_gets_its_properties_beside_the_native_client() {
    let rows = [
        row(ClientRole::All, "metadata.max.age.ms", "5000"),
        row(ClientRole::All, "sasl.username", "me"),
        row(ClientRole::Producer, "buffer.memory", "1000000"),
        row(ClientRole::All, "security.protocol", "SASL_PLAINTEXT"),
        row(ClientRole::All, "sasl.mechanism", "PLAIN"),
        row(ClientRole::All, "sasl.password", "secret"),
    ];
    let properties = Properties::new("b:1", &rows).unwrap();
    assert!(properties.native(ClientRole::Producer).is_some());
    let config = properties.idempotent();
    config
        .create_native_config()
        .expect("nothing that it refuses");
    assert_eq!(config.get("sasl.username"), Some("me"));
    assert_eq!(config.get("buffer.memory"), None);
}

#[test]
fn a_broker_shows_no_secret() {
    let rows = [
        row(ClientRole::All, "security.protocol", "SASL_PLAINTEXT"),
        row(ClientRole::All, "sasl.mechanism", "PLAIN"),
        row(ClientRole::All, "sasl.username", "me"),
        row(ClientRole::All, "sasl.password", "hunter2"),
    ];
    let broker = crate::kafka::connect("b:1", &rows).unwrap();
    let shown = format!("{broker:?}");
    assert!(
        shown.contains("sasl.password") && !shown.contains("hunter2"),
        "{shown}"
    );
}

#[test]
fn clients_share_their_login_unless_they_have_one_of_their_own() {
    let login = |role, user| row(role, "sasl.username", user);
    let rows = [
        row(ClientRole::All, "security.protocol", "SASL_PLAINTEXT"),
        row(ClientRole::All, "sasl.mechanism", "PLAIN"),
        row(ClientRole::All, "sasl.password", "secret"),
        row(ClientRole::Producer, "compression.type", "lz4"),
        login(ClientRole::All, "me"),
        login(ClientRole::Admin, "boss"),
    ];
    let properties = Properties::new("b:1", &rows).unwrap();
    let sasl = |role| {
        let native = properties.native(role).unwrap();
        native.config.context.sasl.clone().unwrap()
    };
    let (reads, writes) = (sasl(ClientRole::Consumer), sasl(ClientRole::Producer));
    assert!(std::sync::Arc::ptr_eq(&reads, &writes));
    assert!(format!("{:?}", sasl(ClientRole::Admin)).contains("boss"));
    assert!(format!("{reads:?}").contains("\"me\""));
}

#[test]
fn librdkafka_gets_the_text_of_a_secrets_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, "from-file\n").unwrap();
    let made = |client: &str, password: String| {
        let given = [
            row(ClientRole::All, "kafka.client", client),
            row(ClientRole::All, "security.protocol", "SASL_PLAINTEXT"),
            row(ClientRole::All, "sasl.mechanism", "PLAIN"),
            row(ClientRole::All, "sasl.username", "u"),
            row(ClientRole::All, "sasl.password", &password),
        ];
        Properties::new("b:1", &given)
    };
    for client in ["native", "librdkafka"] {
        let made = |password| made(client, password);
        // librdkafka sends the answers of workers, unless the native client is chosen by its name.
        let good = made(format!("file:{}", path.display())).unwrap();
        assert_eq!(
            good.admin().get("sasl.password"),
            Some("from-file"),
            "{client}"
        );
        let refused = made("file:/there/is/none".to_owned()).unwrap_err();
        assert!(refused.message().contains("have 1 problem(s)"), "{refused}");
        assert!(
            refused.message().contains("file:/there/is/none"),
            "{refused}"
        );
    }
}

/// The message about these properties for all clients.
fn refused(rows: &[(&str, &str)]) -> String {
    let row = |(name, value): &(&str, &str)| row(ClientRole::All, name, value);
    let rows: Vec<_> = rows.iter().map(row).collect();
    let refused = Properties::new("b:1", &rows).unwrap_err();
    refused.message().to_owned()
}

#[test]
fn kerberos_has_one_sentence_with_both_clients() {
    let file = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "GSSAPI"),
        ("sasl.kerberos.service.name", "kafka"),
        ("sasl.kerberos.min.time.before.relogin", "60000"),
        (
            "sasl.jaas.config",
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;",
        ),
    ];
    let said = ["auto", "native", "librdkafka"]
        .map(|client| refused(&[&[("kafka.client", client)], &file[..]].concat()));
    assert!(said[0].contains("have 1 problem(s)"), "{}", said[0]);
    for part in [
        "'GSSAPI'",
        "'sasl.kerberos.service.name'",
        "Kerberos (GSSAPI) is not built in",
    ] {
        assert!(said[0].contains(part), "{part} is not in: {}", said[0]);
    }
    assert!(said.iter().all(|other| *other == said[0]), "{said:?}");
    // Other mistakes are reported beside it.
    let more = refused(&[&[("sasl.pasword", "x")], &file[..]].concat());
    assert!(
        more.contains("have 2 problem(s)") && more.contains("sasl.pasword"),
        "{more}"
    );
}

/// The rows of a client of librdkafka with this mechanism.
fn with_mechanism(mechanism: &str) -> [(&str, &str); 5] {
    [
        ("kafka.client", "librdkafka"),
        ("security.protocol", "SASL_SSL"),
        ("sasl.mechanism", mechanism),
        ("sasl.username", "me"),
        ("sasl.password", "hunter2"),
    ]
}

#[test]
fn librdkafka_has_tls_and_scram_if_it_is_chosen() {
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "scram-sha-512"] {
        let rows = with_mechanism(mechanism).map(|(name, value)| row(ClientRole::All, name, value));
        let properties = Properties::new("b:1", &rows).unwrap();
        assert_eq!(properties.client().name, "librdkafka");
        let config = properties.admin();
        assert_eq!(config.get("security.protocol"), Some("SASL_SSL"));
        // Its OpenSSL has the paths of the machine that built it.
        assert_eq!(config.get("ssl.ca.location"), Some("probe"));
    }
    let rows = [
        row(ClientRole::All, "kafka.client", "librdkafka"),
        row(ClientRole::All, "security.protocol", "SSL"),
        row(ClientRole::All, "ssl.ca.location", "/our/ca.pem"),
    ];
    let properties = Properties::new("b:1", &rows).unwrap();
    let given = properties.idempotent();
    assert_eq!(given.get("ssl.ca.location"), Some("/our/ca.pem"));
}

#[test]
fn what_librdkafka_lacks_on_a_secured_cluster_is_refused() {
    let tokens = [
        ("sasl.oauthbearer.token.endpoint.url", "https://x/token"),
        ("sasl.oauthbearer.client.id", "me"),
        ("sasl.oauthbearer.client.secret", "hunter2"),
    ];
    let tokens = refused(&[&with_mechanism("OAUTHBEARER")[..3], &tokens].concat());
    assert!(tokens.contains("have 1 problem(s)"), "{tokens}");
    assert!(
        tokens.contains("librdkafka fetches no tokens here"),
        "{tokens}"
    );
    let none = refused(&[&with_mechanism("")[..2], &with_mechanism("")[3..]].concat());
    assert!(none.contains("'sasl.mechanism' is not set"), "{none}");
}

#[test]
fn a_property_of_librdkafka_does_not_change_the_client_of_a_secured_cluster() {
    let said = refused(&[
        ("debug", "broker"),
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "me"),
        ("sasl.password", "hunter2"),
    ]);
    assert!(said.contains("only librdkafka knows debug"), "{said}");
    assert!(said.contains("or set kafka.client=librdkafka"), "{said}");
}

#[test]
fn librdkafka_sends_answers_of_workers_on_plaintext_unless_native_is_chosen() {
    let of = |rows: &[(ClientRole, String, String)]| {
        Properties::new("b:1", rows)
            .unwrap()
            .answers_by_librdkafka()
    };
    let all = |name, value| row(ClientRole::All, name, value);
    assert!(of(&[]));
    assert!(!of(&[all("kafka.client", "native")]));
    assert!(!of(&[
        all("security.protocol", "SASL_PLAINTEXT"),
        all("sasl.mechanism", "PLAIN"),
        all("sasl.username", "me"),
        all("sasl.password", "hunter2"),
    ]));
}

/// Each property of Java's clients is taken over, has no effect, or is refused, always for a reason.
#[test]
fn every_property_of_the_java_clients_is_known() {
    const NAMES: &str = include_str!("../../../../core/src/settings/kafka-clients-4.4.0.txt");
    let names = NAMES.lines().filter(|line| !line.starts_with('#'));
    let is_in = |table: &[(&str, &str)], name: &str| table.iter().any(|(known, _)| *known == name);
    let unknown: Vec<_> = names
        .filter(|name| !is_in(OWNED, name) && !is_in(IDLE, name))
        .filter(|name| knowledge(name) == Knowledge::Unknown)
        .collect();
    assert_eq!(unknown, [""; 0], "give each a reason");
}
