//! Where the engine's own log lines go: to standard error, for people on a terminal, as JSON elsewhere.
//!
//! Warnings and errors by default, hints about functions, and off a terminal how a restore goes on (on one there is a
//! bar), without the Kafka client's own (what matters of them comes back as an error, and an outage makes hundreds);
//! `RUST_LOG` (`warn`, `stoatflow_engine=debug`) says otherwise. An application that has set up logging in this process
//! before keeps its own.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Sets logging up, once per process.
pub fn init() {
    let terminal = std::io::stderr().is_terminal();
    let usual = if terminal {
        "warn,stoatflow::kafka=off,stoatflow::hint=info,stoatflow::settings=info,stoatflow::start=info"
    } else {
        "warn,stoatflow::kafka=off,stoatflow::hint=info,stoatflow::settings=info,stoatflow::start=info,\
         stoatflow::restore=info"
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // A second engine in the process finds it done; that is no failure.
    let _done_before = if terminal {
        lines.compact().try_init()
    } else {
        lines.json().flatten_event(true).try_init()
    };
}
