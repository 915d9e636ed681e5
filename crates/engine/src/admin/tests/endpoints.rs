//! What a client sees of endpoints of the user's code.

use super::fixture::Port;
use crate::admin::call_queue::UserAnswer;
use crate::admin::endpoints::Endpoint;
use serde_json::json;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

fn endpoint(method: &str, path: &str) -> Endpoint {
    Endpoint {
        method: method.to_owned(),
        path: path.to_owned(),
        summary: "What it does.".to_owned(),
        timeout: Duration::from_secs(20),
    }
}

/// A thread of the host language.
fn host(body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    Builder::new().name("test-host".into()).spawn(body).unwrap()
}

/// Answers this many requests as a host's thread does, with what the request said.
fn answers(port: &Port, requests: usize) -> JoinHandle<()> {
    let status = Arc::clone(&port.status);
    host(move || {
        for _ in 0..requests {
            let call = (status.endpoints.calls)
                .next(Duration::from_secs(60))
                .unwrap();
            let request = &call.request;
            let body = format!(
                "{} {:?} {} {}",
                request.method,
                request.parameters,
                request.query,
                request.body.len()
            );
            assert!(
                !request
                    .headers
                    .iter()
                    .any(|(name, _)| name == "authorization")
            );
            call.answer(UserAnswer {
                status: 201,
                content_type: "text/plain; charset=utf-8".to_owned(),
                body: body.into_bytes(),
            });
        }
    })
}

#[test]
fn a_request_gets_the_functions_answer() {
    let port = Port::running();
    port.status
        .endpoints
        .add(endpoint("POST", "/orders/{id}"))
        .unwrap();
    let host = answers(&port, 1);
    let head =
        "Host: localhost\r\nAuthorization: Bearer x\r\nContent-Length: 5\r\nConnection: close";
    let (code, head, body) = port.send(&format!(
        "POST /app/orders/a%2Fb?x=1 HTTP/1.1\r\n{head}\r\n\r\nhello"
    ));
    host.join().unwrap();
    assert_eq!((code, body.as_str()), (201, "POST {\"id\": \"a/b\"} x=1 5"));
    assert!(
        head.contains("content-type: text/plain; charset=utf-8"),
        "{head}"
    );
    assert!(head.contains("content-security-policy: sandbox"), "{head}");
    assert!(head.contains("cache-control: no-store"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    let (code, listed) = port.get("/app");
    assert_eq!(code, 200);
    assert_eq!(
        listed["endpoints"],
        json!([{ "method": "POST", "path": "/app/orders/{id}", "summary": "What it does." }])
    );
    assert_eq!(port.get("/app/none").0, 404);
    let (code, refused) = port.get("/app/orders/7");
    assert_eq!((code, &refused["allowed"]), (405, &json!(["POST"])));
}

#[test]
fn a_body_without_a_length_is_limited_too() {
    let port = Port::running();
    port.status.endpoints.add(endpoint("POST", "/in")).unwrap();
    let chunk = format!("8000\r\n{}\r\n", "a".repeat(0x8000)).repeat(3);
    let (code, _, body) = port.send(&format!(
        "POST /app/in HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
            {chunk}0\r\n\r\n"
    ));
    assert_eq!(code, 413, "{body}");
}

#[test]
fn without_an_answer_the_code_says_why() {
    let port = Port::running();
    let quick = Endpoint {
        timeout: Duration::from_millis(300),
        ..endpoint("GET", "/quick")
    };
    port.status.endpoints.add(quick).unwrap();
    let (code, head, body) = port.ask("GET", "/app/quick");
    assert_eq!(code, 503, "no thread takes it: {body}");
    assert!(body.contains("urn:stoatflow:busy"), "{body}");
    assert!(head.contains("retry-after: 1"), "{head}");
    let status = Arc::clone(&port.status);
    let host = host(move || {
        let call = (status.endpoints.calls).next(Duration::from_secs(60));
        std::thread::park_timeout(Duration::from_secs(2));
        drop(call);
    });
    let (code, _, body) = port.ask("GET", "/app/quick");
    assert_eq!(code, 504, "{body}");
    assert_eq!(port.get("/health/live").0, 200);
    host.join().unwrap();
}

#[test]
fn the_description_has_them() {
    let port = Port::running();
    port.status
        .endpoints
        .add(endpoint("GET", "/orders/{id}"))
        .unwrap();
    let (code, described) = port.get("/openapi.json");
    assert_eq!(code, 200);
    let found = &described["paths"]["/app/orders/{id}"]["get"];
    assert_eq!(found["summary"], "What it does.");
    assert_eq!(found["parameters"][0]["name"], "id");
    assert!(found["responses"]["504"].is_object());
}
