//! Writes log lines to standard error: coloured text on a terminal, otherwise JSON.

use super::fields::Fields;
use super::lines;
use serde_json::Value;
use std::fmt::Write;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

const RESET: &str = "\x1b[0m";
const DIM: &str = "\x1b[2m";
const BOLD_UNDERLINED: &str = "\x1b[1;4m";

/// See the module.
pub(super) struct ToStderr {
    pub is_terminal: bool,
}

impl<S> Layer<S> for ToStderr
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    #[allow(clippy::print_stderr)] // this is where log lines go
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if lines::is_on() {
            return;
        }
        let fields = Fields::of(event, &context);
        let of = event.metadata();
        let mut time = String::new();
        // Without a time the line is still worth writing.
        let _no_time = SystemTime.format_time(&mut Writer::new(&mut time));
        if self.is_terminal {
            eprintln!("{}", text(&time, *of.level(), of.target(), &fields));
        } else {
            eprintln!("{}", json(&time, *of.level(), of.target(), &fields));
        }
    }
}

fn text(time: &str, level: Level, target: &str, fields: &Fields) -> String {
    let colour = match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    };
    let message = &fields.message;
    let mut line = format!(
        "{DIM}{time}{RESET} \x1b[{colour}m{level:>5}{RESET} {DIM}{target}:{RESET} {message}"
    );
    for (name, value) in &fields.named {
        let value = match value {
            // What a person wants to open stands out.
            Value::String(url) if url.starts_with("http") => {
                format!("{BOLD_UNDERLINED}{url}{RESET}")
            }
            Value::String(text) if !text.is_empty() && !text.contains([' ', '"', '\n']) => {
                text.clone()
            }
            other => other.to_string(),
        };
        // Writing to a string can't fail.
        let _infallible = write!(line, " {DIM}{name}={RESET}{value}");
    }
    line
}

fn json(time: &str, level: Level, target: &str, fields: &Fields) -> String {
    let mut line = String::from("{");
    push(&mut line, "timestamp", &time.into());
    push(&mut line, "level", &level.as_str().into());
    push(&mut line, "message", &fields.message.as_str().into());
    for (name, value) in &fields.named {
        push(&mut line, name, value);
    }
    push(&mut line, "target", &target.into());
    if let Some(thread) = std::thread::current().name() {
        push(&mut line, "threadName", &thread.into());
    }
    line.push('}');
    line
}

fn push(line: &mut String, name: &str, value: &Value) {
    if line.len() > 1 {
        line.push(',');
    }
    let name = Value::from(name);
    // Writing to a string can't fail.
    let _infallible = write!(line, "{name}:{value}");
}
