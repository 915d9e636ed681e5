//! Errors of the sender, before it is known what becomes of the transaction.

use stoatflow_core::Error;

/// Why sending can't go on.
#[derive(Debug)]
pub(in crate::kafka::native) enum SendError {
    /// A broker's error code.
    Code {
        code: i16,
        said: String,
        what: &'static str,
        topic: Option<String>,
    },
    /// Nothing was acknowledged for longer than allowed; with the last error.
    Away(String),
    /// An error that is known already.
    Fatal(Error),
    /// Everything was acknowledged, but earlier records are gone.
    LostRecords(Error),
}
