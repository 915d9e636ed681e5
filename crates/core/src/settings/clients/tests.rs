//! Names of properties of Java's clients.

use super::{Client, client};

const NAMES: &str = include_str!("../kafka-clients-4.4.0.txt");

#[test]
fn every_property_of_the_java_clients_is_one_here() {
    let names = NAMES.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for name in names {
        for prefix in ["", "consumer.", "producer.", "admin."] {
            let full = format!("{prefix}{name}");
            assert_ne!(client(&full), Client::No, "{full}");
        }
        count += 1;
    }
    assert_eq!(count, 147, "those of kafka-clients 4.4.0");
}
