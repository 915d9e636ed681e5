//! From pairs to settings.

use super::Settings;
use crate::{Error, Result};

pub(super) fn parse(_pairs: &[(String, serde_json::Value)]) -> Result<Settings> {
    Err(Error::config("settings are being written"))
}
