//! Something that isn't as it should be, and what to do.

use serde::Serialize;

/// How much it matters. Ordered: the most serious first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Records are not processed, or soon will not be.
    Critical,
    /// For today.
    Warning,
    /// It explains others, or could be better.
    Info,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LiveFinding {
    pub(super) severity: Severity,
    /// A word that stays, for programs.
    pub(super) code: String,
    pub(super) message: String,
    pub(super) next_step: String,
    /// The page that says more.
    pub(super) page: String,
}

impl LiveFinding {
    /// `section`: of the guide to monitoring.
    pub(super) fn new(severity: Severity, code: &str, section: &str, message: String) -> Self {
        Self {
            severity,
            code: code.to_owned(),
            message,
            next_step: String::new(),
            page: format!("docs/guide/monitoring.md#{section}"),
        }
    }

    /// What to do.
    pub(super) fn next(mut self, next_step: impl Into<String>) -> Self {
        self.next_step = next_step.into();
        self
    }
}
