//! Error answers that state what is wrong and what to do: problem+json (RFC 9457).

use super::secure;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use stoatflow_core::Error;

/// See the module.
#[derive(Debug)]
pub(super) struct Problem(Box<Parts>);

#[derive(Debug)]
struct Parts {
    status: StatusCode,
    /// Stable, for programs.
    code: &'static str,
    detail: String,
    next_step: String,
    more: Map<String, Value>,
    retry_after: Option<u32>,
    allow: Option<HeaderValue>,
}

impl Problem {
    pub(super) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
        next_step: impl Into<String>,
    ) -> Self {
        Self(Box::new(Parts {
            status,
            code,
            detail: detail.into(),
            next_step: next_step.into(),
            more: Map::new(),
            retry_after: None,
            allow: None,
        }))
    }

    /// A bad request.
    pub(super) fn bad(detail: impl Into<String>, next_step: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail, next_step)
    }

    /// An error of the engine.
    pub(super) fn of(status: StatusCode, code: &'static str, error: &Error) -> Self {
        Self::new(status, code, error.message(), error.next_step())
    }

    /// Sets `Retry-After`, in seconds.
    pub(super) fn retry_after(mut self, seconds: u32) -> Self {
        self.0.retry_after = Some(seconds);
        self
    }

    /// Sets `Allow`, which an answer with the status 405 must have, and `allowed` in the body.
    pub(super) fn allow(mut self, methods: &[String]) -> Self {
        self.0.allow = HeaderValue::from_str(&methods.join(", ")).ok();
        self.with("allowed", json!(methods))
    }

    pub(super) fn with(mut self, name: &str, value: Value) -> Self {
        self.0.more.insert(name.to_owned(), value);
        self
    }

    pub(super) fn body(&self) -> Value {
        let parts = &self.0;
        let mut body = json!({
            "type": format!("urn:stoatflow:{}", parts.code),
            "title": parts.status.canonical_reason().unwrap_or("error"),
            "status": parts.status.as_u16(),
            "detail": parts.detail,
            "next_step": parts.next_step,
        });
        if let Value::Object(body) = &mut body {
            body.extend(parts.more.clone());
        }
        body
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (parts, body) = (&self.0, self.body());
        let mut response = (parts.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(seconds) = parts.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(methods) = &parts.allow {
            headers.insert(header::ALLOW, methods.clone());
        }
        secure(headers, "no-store");
        response
    }
}
