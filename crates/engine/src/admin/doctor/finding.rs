//! A finding: something that isn't as it should be, and what to do about it.

use serde::Serialize;

/// How serious a finding is. Ordered, the most serious first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Records are not processed, or soon will not be.
    Critical,
    /// Should be looked at today.
    Warning,
    /// Explains other findings, or could be improved.
    Info,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LiveFinding {
    pub(super) severity: Severity,
    /// A stable identifier, for programs.
    pub(super) code: String,
    pub(super) message: String,
    pub(super) next_step: String,
    /// The page of the documentation about it.
    pub(super) page: String,
}

impl LiveFinding {
    /// `section`: the section of the monitoring guide.
    pub(super) fn new(severity: Severity, code: &str, section: &str, message: String) -> Self {
        Self {
            severity,
            code: code.to_owned(),
            message,
            next_step: String::new(),
            page: format!("docs/guide/monitoring.md#{section}"),
        }
    }

    /// Sets what to do.
    pub(super) fn next(mut self, next_step: impl Into<String>) -> Self {
        self.next_step = next_step.into();
        self
    }
}
