//! The messages of each mechanism.

use super::oauth::{OauthClient, Token};
use super::scram::ScramClient;
use super::{Hash, Login, SaslClient, SaslError, SaslSettings};

fn login(username: &str, password: &str) -> Login {
    Login {
        username: username.to_owned(),
        password: password.to_owned(),
    }
}

fn scram() -> ScramClient {
    let nonce = "rOprNGfwEbeRWgbNEkqO".to_owned();
    ScramClient::with_nonce(Hash::Sha256, login("user", "pencil"), nonce)
}

const CHALLENGE: &str =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

/// The example of RFC 7677.
#[test]
fn scram_is_that_of_the_rfc() {
    let mut client = scram();
    assert_eq!(client.first(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
    let proof = client.next(CHALLENGE.as_bytes()).unwrap().unwrap();
    assert_eq!(
        String::from_utf8(proof).unwrap(),
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    );
    let end = client.next(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    assert_eq!(end, Ok(None));
}

#[test]
fn a_broker_that_does_not_know_the_password_is_refused() {
    let mut client = scram();
    client.next(CHALLENGE.as_bytes()).unwrap();
    let forged = client.next(b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    assert!(matches!(forged, Err(SaslError::Refused(_))), "{forged:?}");
}

#[test]
fn challenges_that_are_not_safe_are_not_answered() {
    for (what, challenge) in [
        ("another nonce", "r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"),
        (
            "our nonce alone",
            "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        ),
        (
            "few rounds",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        ),
        (
            "rounds without end",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4000000000",
        ),
        ("no salt", "r=rOprNGfwEbeRWgbNEkqOx,i=4096"),
        ("no text", "\u{0}"),
    ] {
        assert!(scram().next(challenge.as_bytes()).is_err(), "{what}");
    }
    let refused = scram().next(b"e=unknown-user");
    assert_eq!(
        refused,
        Err(SaslError::Refused("SCRAM: unknown-user".into()))
    );
}

#[test]
fn names_with_signs_of_the_protocol_are_escaped() {
    let client = ScramClient::with_nonce(Hash::Sha512, login("a=b,c", "p"), "n".into());
    assert_eq!(client.first(), b"n,,n=a=3Db=2Cc,r=n");
}

#[test]
fn plain_sends_name_and_password() {
    let mut client = SaslClient::Plain(login("me", "p,w"));
    assert_eq!(client.first(), b"\0me\0p,w");
    assert_eq!(client.next(b""), Ok(None));
}

#[test]
fn a_token_goes_with_its_extensions() {
    let token = Token {
        principal: None,
        text: "abc".into(),
        extensions: vec![("logicalCluster".into(), "lkc-1".into())],
    };
    let client = OauthClient::new(token);
    let first = client.first();
    assert_eq!(
        first,
        b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01\x01"
    );
    assert_eq!(client.next(b""), None);
    assert_eq!(
        client.next(b"{\"status\":\"invalid_token\"}"),
        Some(vec![1])
    );
}

#[test]
fn nothing_secret_is_printed() {
    let settings = SaslSettings::Scram(Hash::Sha512, login("me", "hunter2"));
    let client = settings.begin().unwrap();
    let token = Token {
        principal: None,
        text: "hunter2".into(),
        extensions: Vec::new(),
    };
    assert!(!format!("{settings:?} {client:?} {token:?}").contains("hunter2"));
}
