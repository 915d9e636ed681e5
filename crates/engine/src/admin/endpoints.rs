//! Endpoints of the user's code, below `/app`.
//!
//! Takes what the host language registers, routes a request to it, and turns its answer into a response. A
//! thread of the host language runs the functions, one after another: see [`UserCallQueue`]. The port waits
//! for it without blocking.

#[cfg(test)]
mod tests;

use super::call_queue::{NoAnswer, UserAnswer, UserCallQueue, UserRequest};
use super::problem::Problem;
use super::stores::decoded;
use super::{MAX_BODY_BYTES, Shared, answer, secure};
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use parking_lot::RwLock;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Result};

/// What the paths of all endpoints begin with.
pub const PREFIX: &str = "/app";
/// Maximum number of endpoints.
const MAX_ENDPOINTS: usize = 200;
/// Maximum length of a path.
const MAX_PATH_BYTES: usize = 256;
/// Maximum size of an answer.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Longest deadline: the port gives up after 90 seconds.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// A page among the answers may not run scripts: it would run with the reader's access to this port.
const ANSWER_POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
    frame-ancestors 'none'";

/// A function that answers requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The method.
    pub method: String,
    /// The path below the prefix, with `{name}` for parameters.
    pub path: String,
    /// One sentence for the description.
    pub summary: String,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Endpoint {
    fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        self.path.split('/').skip(1).map(Segment::of)
    }

    /// The path without the names of parameters: two endpoints with the same one can't be told apart.
    fn shape(&self) -> String {
        let parts = self.segments().map(|segment| match segment {
            Segment::Text(text) => format!("/{text}"),
            Segment::Parameter(_) => "/{}".to_owned(),
        });
        parts.collect()
    }

    fn match_path(&self, path: &[&str]) -> Option<BTreeMap<String, String>> {
        let segments: Vec<Segment<'_>> = self.segments().collect();
        if segments.len() != path.len() {
            return None;
        }
        let mut found = BTreeMap::new();
        for (segment, given) in segments.iter().zip(path) {
            match segment {
                Segment::Text(text) => (text == given).then_some(())?,
                Segment::Parameter(name) => {
                    if given.is_empty() {
                        return None;
                    }
                    found.insert((*name).to_owned(), (*given).to_owned());
                }
            }
        }
        Some(found)
    }

    fn parameters(&self) -> impl Iterator<Item = &str> {
        self.segments().filter_map(|segment| match segment {
            Segment::Parameter(name) => Some(name),
            Segment::Text(_) => None,
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum Segment<'a> {
    Text(&'a str),
    Parameter(&'a str),
}

impl<'a> Segment<'a> {
    fn of(text: &'a str) -> Self {
        let name = text
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'));
        name.map_or(Self::Text(text), Self::Parameter)
    }

    fn is_valid(self) -> bool {
        match self {
            Self::Text(text) => {
                let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
                !text.is_empty() && text != "." && text != ".." && text.chars().all(allowed)
            }
            Self::Parameter(name) => {
                name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                    && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            }
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Endpoints {
    all: RwLock<Vec<Endpoint>>,
    /// The requests that wait for the host's thread.
    pub calls: UserCallQueue,
}

/// The endpoint for a request.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Found {
        number: usize,
        parameters: BTreeMap<String, String>,
        timeout: Duration,
    },
    /// The path has endpoints with these methods only.
    OtherMethods(BTreeSet<String>),
    Nothing,
}

impl Endpoints {
    /// Adds an endpoint; returns its number.
    ///
    /// # Errors
    /// `Config` for an invalid method, path or timeout, and for a path that is taken.
    pub fn add(&self, endpoint: Endpoint) -> Result<usize> {
        check(&endpoint)?;
        let mut all = self.all.write();
        let same = |other: &&Endpoint| {
            other.method == endpoint.method && other.shape() == endpoint.shape()
        };
        if let Some(other) = all.iter().find(same) {
            return Err(Error::config(format!(
                "{} {} answers to the same requests as {} {}",
                endpoint.method, endpoint.path, other.method, other.path
            ))
            .hint("give each endpoint a path of its own"));
        }
        if all.len() >= MAX_ENDPOINTS {
            return Err(Error::config(format!(
                "{} {} would be endpoint number {}: {MAX_ENDPOINTS} are allowed",
                endpoint.method,
                endpoint.path,
                MAX_ENDPOINTS + 1
            ))
            .hint("use a parameter in the path: /orders/{id}"));
        }
        all.push(endpoint);
        Ok(all.len() - 1)
    }

    /// All endpoints.
    #[must_use]
    pub fn all(&self) -> Vec<Endpoint> {
        self.all.read().clone()
    }

    /// Of several endpoints, the one with the fewest parameters.
    fn route(&self, method: &str, path: &[&str]) -> Route {
        let all = self.all.read();
        let matching = all.iter().enumerate().filter_map(|(number, endpoint)| {
            let parameters = endpoint.match_path(path)?;
            Some((number, endpoint, parameters))
        });
        let mut matching: Vec<_> = matching.collect();
        matching.sort_by_key(|(_, _, parameters)| parameters.len());
        // HEAD is GET without the body, which the server leaves out.
        let method = if method == "HEAD" { "GET" } else { method };
        if matching.is_empty() {
            return Route::Nothing;
        }
        let methods = (matching.iter())
            .map(|(_, endpoint, _)| endpoint.method.clone())
            .collect();
        let found = matching
            .into_iter()
            .find(|(_, endpoint, _)| endpoint.method == method);
        match found {
            Some((number, endpoint, parameters)) => Route::Found {
                number,
                parameters,
                timeout: endpoint.timeout,
            },
            None => Route::OtherMethods(methods),
        }
    }

    /// Adds the endpoints to an OpenAPI description.
    pub(super) fn describe(&self, openapi: &mut Value) {
        for endpoint in self.all.read().iter() {
            let problem = json!({
                "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } },
            });
            let failed = |what: &str| json!({ "description": what, "content": problem.clone() });
            let parameters: Vec<Value> = endpoint
                .parameters()
                .map(|name| {
                    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
                })
                .collect();
            let method = endpoint.method.to_ascii_lowercase();
            openapi["paths"][format!("{PREFIX}{}", endpoint.path)][&method] = json!({
                "operationId": format!("app_{method}{}", endpoint.path.replace(['/', '{', '}'], "_")),
                "summary": endpoint.summary,
                "tags": ["application"],
                "parameters": parameters,
                "responses": {
                    "200": { "description": "The answer of the application." },
                    "default": { "description": "Another answer of the application." },
                    "401": { "$ref": "#/components/responses/Unauthorized" },
                    "413": failed("The body is too large."),
                    "500": failed("The function raised an exception."),
                    "503": failed("The application is busy with other requests."),
                    "504": failed("The function took longer than its timeout."),
                },
            });
        }
    }
}

fn check(endpoint: &Endpoint) -> Result<()> {
    let Endpoint { method, path, .. } = endpoint;
    if !METHODS.contains(&method.as_str()) {
        return Err(
            Error::config(format!("an endpoint can't have the method '{method}'"))
                .hint(format!("use one of {}", METHODS.join(", "))),
        );
    }
    let valid = path.starts_with('/')
        && path.len() <= MAX_PATH_BYTES
        && endpoint.segments().all(Segment::is_valid);
    if !valid {
        return Err(
            Error::config(format!("'{path}' can't be the path of an endpoint")).hint(
                "write it like /orders/{id}: segments of letters, digits and -_.~, or a parameter in braces",
            ),
        );
    }
    let names: Vec<&str> = endpoint.parameters().collect();
    if let Some(twice) = (names.iter().enumerate()).find(|(at, name)| names[..*at].contains(name)) {
        return Err(
            Error::config(format!("'{path}' has the parameter '{}' twice", twice.1))
                .hint("give each parameter its own name"),
        );
    }
    if endpoint.timeout.is_zero() || endpoint.timeout > MAX_TIMEOUT {
        return Err(Error::config(format!(
            "the timeout of {method} {path} is {} s",
            endpoint.timeout.as_secs_f64()
        ))
        .hint(format!(
            "give more than 0 and at most {} s; answer longer work with 202, and let clients ask again",
            MAX_TIMEOUT.as_secs()
        )));
    }
    Ok(())
}

/// `/app`: the endpoints.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Response {
    let all = shared.status.endpoints.all();
    let rows = all.iter().map(|endpoint| {
        json!({
            "method": endpoint.method,
            "path": format!("{PREFIX}{}", endpoint.path),
            "summary": endpoint.summary,
        })
    });
    answer(
        StatusCode::OK,
        &json!({ "endpoints": rows.collect::<Vec<_>>() }),
    )
}

/// `/app/...`: calls the user's function.
pub(super) async fn call(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Problem> {
    let endpoints = &shared.status.endpoints;
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let below = path.strip_prefix(PREFIX).unwrap_or(path);
    let below = below.strip_prefix('/').unwrap_or(below);
    let segments = below.split('/').map(text).collect::<Result<Vec<_>, _>>()?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let method = parts.method.as_str();
    let (number, parameters, timeout) = match endpoints.route(method, &segments) {
        Route::Found {
            number,
            parameters,
            timeout,
        } => (number, parameters, timeout),
        Route::OtherMethods(methods) => {
            let allowed: Vec<String> = methods.into_iter().collect();
            return Err(Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                format!("{path} doesn't answer to {method}"),
                format!("send {}", allowed.join(" or ")),
            )
            .allow(&allowed));
        }
        Route::Nothing => {
            return Err(Problem::new(
                StatusCode::NOT_FOUND,
                "not_found",
                format!("the application has no endpoint {path}"),
                format!("see {PREFIX} for its endpoints"),
            ));
        }
    };
    let work = async {
        let body = to_bytes(body, usize::try_from(MAX_BODY_BYTES).unwrap_or(usize::MAX))
            .await
            .map_err(|_| {
                Problem::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "too_large",
                    format!("the body has more than {MAX_BODY_BYTES} bytes, or doesn't arrive"),
                    "send less",
                )
            })?;
        let request = UserRequest {
            endpoint: number,
            method: method.to_owned(),
            path: path.to_owned(),
            parameters,
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: shown_headers(&parts.headers),
            body: body.to_vec(),
        };
        Ok(endpoints.calls.ask(request, timeout).await)
    };
    // A body that arrives slowly doesn't get more time.
    match tokio::time::timeout(timeout * 2, work).await {
        Ok(Ok(Ok(answer))) => Ok(response(answer)),
        Ok(Ok(Err(why))) => Err(unanswered(why, path, timeout)),
        Ok(Err(problem)) => Err(problem),
        Err(_) => Err(unanswered(NoAnswer::TooSlow, path, timeout)),
    }
}

/// The headers for the function, without what authorises the client.
fn shown_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let public = |name: &HeaderName| ![header::AUTHORIZATION, header::COOKIE].contains(name);
    headers
        .iter()
        .filter(|(name, _)| public(name))
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect()
}

/// A segment of a path, percent-decoded.
fn text(segment: &str) -> Result<String, Problem> {
    String::from_utf8(decoded(segment)?).map_err(|_| {
        Problem::bad(
            "the path is no UTF-8",
            "encode its text as UTF-8, then with percent signs",
        )
    })
}

fn unanswered(why: NoAnswer, path: &str, timeout: Duration) -> Problem {
    let busy = |detail: String| {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            detail,
            "ask again; /debug/threads shows what the thread stoatflow-endpoints and the lanes do",
        )
        .retry_after(1)
    };
    let seconds = timeout.as_secs_f64();
    match why {
        NoAnswer::Full => busy("too many requests to the application wait".to_owned()),
        NoAnswer::NotTaken => busy(format!(
            "Python didn't begin with {path} within {seconds} s: another request or a lane keeps it busy"
        )),
        NoAnswer::Dropped => busy("the application is stopping".to_owned()),
        NoAnswer::TooSlow => Problem::new(
            StatusCode::GATEWAY_TIMEOUT,
            "too_slow",
            format!("the function behind {path} has not answered within {seconds} s"),
            "give it more time (timeout=), or let it do less; it still runs",
        ),
    }
}

fn response(given: UserAnswer) -> Response {
    if given.body.len() > MAX_ANSWER_BYTES {
        return Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "too_large",
            format!(
                "the application's answer has {} bytes; at most {MAX_ANSWER_BYTES} are sent",
                given.body.len()
            ),
            "let the endpoint answer page by page",
        )
        .into_response();
    }
    let status = StatusCode::from_u16(given.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = HeaderValue::from_str(&given.content_type)
        .unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream"));
    let mut response = (status, given.body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind);
    let policy = HeaderValue::from_static(ANSWER_POLICY);
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    secure(headers, "no-store");
    response
}
