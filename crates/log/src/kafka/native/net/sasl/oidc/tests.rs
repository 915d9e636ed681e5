//! The request to the identity provider.

use super::{OidcSettings, OidcTokens};
use crate::kafka::tokens::TokenProvider;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::time::Duration;

/// Answers one request with a token, and returns the decoded `Authorization` header and the form.
fn one_request(listener: &TcpListener) -> (String, String) {
    let (mut socket, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let (mut header, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim().split_once(':') else {
            if line.trim().is_empty() {
                break;
            }
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => value.trim().clone_into(&mut header),
            "content-length" => length = value.trim().parse().unwrap(),
            _ => {}
        }
    }
    let mut form = vec![0; length];
    reader.read_exact(&mut form).unwrap();
    let body = r#"{"access_token": "a.b.c", "expires_in": 60}"#;
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json";
    write!(
        socket,
        "{head}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let basic = BASE64_STANDARD.decode(header.strip_prefix("Basic ").unwrap());
    (
        String::from_utf8(basic.unwrap()).unwrap(),
        String::from_utf8(form).unwrap(),
    )
}

#[test]
fn id_and_secret_are_encoded_if_the_property_says_so() {
    // What Java's `URLEncoder` makes of them, in UTF-8.
    let encoded = "an+id%3A1:p%2Bw%25+%26*-._%7E%C3%A9";
    for (urlencode, expected) in [(false, "an id:1:p+w% &*-._~é"), (true, encoded)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tokens = OidcTokens::new(OidcSettings {
            endpoint: format!("http://{}/token", listener.local_addr().unwrap()),
            client_id: "an id:1".to_owned(),
            client_secret: "p+w% &*-._~é".to_owned(),
            scope: Some("kafka all".to_owned()),
            extensions: Vec::new(),
            urlencode,
            ca: None,
        });
        let tokens = tokens.unwrap();
        let (asked, token) = std::thread::scope(|scope| {
            let answering = scope.spawn(|| one_request(&listener));
            let token = tokens.fetch(Duration::from_secs(30));
            (answering.join().unwrap(), token)
        });
        assert_eq!(token.unwrap().text, "a.b.c");
        assert_eq!(asked.0, expected);
        assert!(
            asked.1.contains("grant_type=client_credentials"),
            "{}",
            asked.1
        );
        assert!(asked.1.contains("scope=kafka"), "{}", asked.1);
    }
}
