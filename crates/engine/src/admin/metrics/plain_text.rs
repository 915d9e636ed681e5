//! The same metrics in the older Prometheus text format, for scrapers that don't read OpenMetrics.
//!
//! Converts the encoder's output, of which it only assumes that families have the types counter, gauge,
//! info and histogram.

use axum::http::{HeaderMap, header};

/// The content type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether the client accepts plain text, but not OpenMetrics.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT);
    let mut plain = false;
    for value in accepted {
        let Ok(value) = value.to_str() else { continue };
        let value = value.to_ascii_lowercase();
        if value.contains("application/openmetrics-text") {
            return false;
        }
        plain |= value.contains("text/plain");
    }
    plain
}

/// Converts the text: family names get the suffix of their samples, type info becomes gauge, and the end
/// mark is dropped.
pub(super) fn of(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + 1024);
    // The help of a family, which precedes its type.
    let mut help = "";
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            let help = help.split_once(' ').map_or("", |(_, help)| help);
            // This format escapes no quotes in a help text.
            let help = &help.replace("\\\"", "\"");
            for part in ["# HELP ", name, suffix, " ", help, "\n"] {
                text.push_str(part);
            }
            for part in ["# TYPE ", name, suffix, " ", kind, "\n"] {
                text.push_str(part);
            }
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests;
