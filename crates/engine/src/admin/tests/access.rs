//! Who may use the port, and how it handles requests that no client should send.

use super::fixture::{Port, options};
use crate::admin::access::AccessRules;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;
use stoatflow_core::settings::AdminAccess;
use stoatflow_core::{Clock, SystemClock};
use stoatflow_protocol::Lifecycle;

const TOKEN: &str = "0123456789abcdef";

fn guarded() -> Port {
    Port::with(AdminAccess {
        token: Some(TOKEN.to_owned()),
        ..AdminAccess::default()
    })
}

fn with(header: &str) -> String {
    format!("Host: localhost\r\n{header}\r\n")
}

#[test]
fn with_a_token_only_health_is_public() {
    let port = guarded();
    for path in [
        "/",
        "/metrics",
        "/stores",
        "/stores/counts/a",
        "/config",
        "/dead-letters",
        "/doctor",
        "/app",
        "/app/orders",
        "/none",
    ] {
        for method in ["GET", "HEAD", "POST", "DELETE"] {
            let (code, head, body) = port.ask(method, path);
            assert_eq!(code, 401, "{method} {path}");
            assert!(head.contains("www-authenticate: bearer"), "{head}");
            assert!(head.contains("application/problem+json"), "{head}");
            assert!(!body.contains("counts"), "{body}");
        }
    }
    assert_eq!(port.ask("GET", "/health/live").0, 200);
    assert_eq!(port.ask("GET", "/health/ready").0, 503);
    for wrong in [
        "Authorization: Bearer",
        "Authorization: Bearer ",
        "Authorization: Bearer 0123456789abcdeX",
        "Authorization: Bearer 0123456789abcdef0",
        "Authorization: Digest 0123456789abcdef",
        "Authorization: Basic 0123456789abcdef",
        "Authorization: Basic !!!",
        "Authorization: 0123456789abcdef",
    ] {
        assert_eq!(
            port.ask_with("GET", "/metrics", &with(wrong)).0,
            401,
            "{wrong}"
        );
    }
    for right in [
        "Authorization: Bearer 0123456789abcdef",
        "authorization: bearer 0123456789abcdef",
        // any:0123456789abcdef
        "Authorization: Basic YW55OjAxMjM0NTY3ODlhYmNkZWY=",
    ] {
        assert_eq!(
            port.ask_with("GET", "/metrics", &with(right)).0,
            200,
            "{right}"
        );
    }
}

#[test]
fn unauthorised_requests_see_only_the_state() {
    let port = guarded();
    port.status
        .failed(&stoatflow_core::Error::user("secret 42 in a record"));
    port.enter(&[Lifecycle::Starting, Lifecycle::Failed]);
    for path in ["/health/live", "/health/ready"] {
        let (code, _, body) = port.ask("GET", path);
        assert_eq!(code, 503);
        assert!(body.contains("ERROR") && !body.contains("secret"), "{body}");
        let known = with("Authorization: Bearer 0123456789abcdef");
        assert!(port.ask_with("GET", path, &known).2.contains("secret"));
    }
}

#[test]
fn without_a_token_names_of_other_sites_are_refused() {
    let port = Port::running();
    for good in [
        "localhost",
        "LOCALHOST:80",
        "127.0.0.1:8080",
        "[::1]:9",
        "[::1]",
        "10.0.0.7",
    ] {
        let head = format!("Host: {good}\r\n");
        assert_eq!(port.ask_with("GET", "/state", &head).0, 200, "{good}");
    }
    for bad in [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "",
    ] {
        let head = format!("Host: {bad}\r\n");
        assert_eq!(port.ask_with("GET", "/state", &head).0, 403, "{bad}");
    }
    let foreign = with("Origin: http://evil.example");
    assert_eq!(port.ask_with("POST", "/state", &foreign).0, 403);
    assert_eq!(
        port.ask_with("POST", "/state", &with("Origin: null")).0,
        403
    );
    assert_eq!(
        port.ask_with("POST", "/state", &with("Origin: http://localhost"))
            .0,
        405
    );
}

#[test]
fn others_may_only_reach_it_with_a_token_or_if_it_is_open() {
    let address = "192.0.2.1:8080".parse().unwrap();
    let rules = |access: AdminAccess| {
        AccessRules::new(&access)
            .unwrap()
            .may_listen(address, false)
    };
    let refused = rules(AdminAccess::default()).unwrap_err();
    assert_eq!(refused.kind().name(), "config");
    for word in ["admin.token", "admin.open=true", "127.0.0.1"] {
        assert!(refused.next_step().contains(word), "{refused}");
    }
    let token = Some(TOKEN.to_owned());
    rules(AdminAccess {
        token,
        ..AdminAccess::default()
    })
    .unwrap();
    rules(AdminAccess {
        open: true,
        ..AdminAccess::default()
    })
    .unwrap();
    let client_ca = Some(PathBuf::from("ca.pem"));
    rules(AdminAccess {
        client_ca,
        ..AdminAccess::default()
    })
    .unwrap();
    // A token is required even if the port is open.
    let port = Port::with(AdminAccess {
        open: true,
        token: Some(TOKEN.to_owned()),
        ..AdminAccess::default()
    });
    assert_eq!(port.ask("GET", "/state").0, 401);
    // An open port accepts any host name.
    let port = Port::with(AdminAccess {
        open: true,
        ..AdminAccess::default()
    });
    assert_eq!(
        port.ask_with("GET", "/state", "Host: shop.example\r\n").0,
        200
    );
}

#[test]
fn a_token_may_come_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let rules = || {
        let token = Some(format!("file:{}", file.display()));
        AccessRules::new(&AdminAccess {
            token,
            ..AdminAccess::default()
        })
    };
    let missing = rules().unwrap_err().to_string();
    assert!(
        missing.contains("admin.token = file:") && missing.contains("token"),
        "{missing}"
    );
    std::fs::write(&file, "short\n").unwrap();
    let short = rules().unwrap_err().to_string();
    assert!(
        short.contains("5 characters") && !short.contains("short"),
        "{short}"
    );
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let shown = format!("{:?}", rules().unwrap());
    assert!(
        shown.contains("has_token: true") && !shown.contains(TOKEN),
        "{shown}"
    );
    let access = AdminAccess {
        token: Some(TOKEN.into()),
        ..AdminAccess::default()
    };
    let shown = format!("{access:?}");
    assert!(!shown.contains(TOKEN), "{shown}");
}

#[test]
fn malformed_requests_are_refused_and_others_go_on() {
    let port = Port::running();
    for (text, code) in [
        ("nonsense\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), 400),
        (
            format!(
                "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
                "x".repeat(100_000)
            ),
            431,
        ),
        (
            format!(
                "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
                "x".repeat(100_000)
            ),
            431,
        ),
        (
            "POST /state HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: 9999999\r\n\r\n"
                .to_owned(),
            413,
        ),
    ] {
        let (found, _, _) = port.send(&text);
        assert_eq!(found, code, "{}", &text[..20.min(text.len())]);
    }
    assert_eq!(port.ask("GET", "/state").0, 200);
}

#[test]
fn one_connection_too_many_is_refused_with_a_message() {
    let port = Port::with(AdminAccess {
        max_connections: 2,
        ..AdminAccess::default()
    });
    let mut silent: Vec<_> = (0..2)
        .map(|_| {
            let mut stream = TcpStream::connect(port.address).unwrap();
            stream.write_all(b"GET /").unwrap();
            stream
        })
        .collect();
    let mut seen = Vec::new();
    for _ in 0..500 {
        let (code, head, body) = port.ask("GET", "/health/live");
        seen.push(code);
        // The first two may not be accepted yet.
        if code == 503 {
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(body["type"], json!("urn:stoatflow:too_many_connections"));
            assert!(head.contains("retry-after: 1"), "{head}");
            break;
        }
    }
    assert_eq!(seen.last(), Some(&503));
    silent.clear();
    // The port notices closed connections only when it is scheduled.
    let clock = SystemClock::new();
    let mut free = false;
    while !free && clock.monotonic() < Duration::from_secs(60) {
        free = port.ask("GET", "/health/live").0 == 200;
    }
    assert!(free, "the places are still taken");
    assert_eq!(options("127.0.0.1:0").listen, "127.0.0.1:0");
}
