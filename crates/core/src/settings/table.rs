//! Every setting, once.

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// Text.
    Text,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Its name.
    pub name: &'static str,
    /// What a value looks like.
    pub kind: KeyType,
    /// Its default, as text.
    pub default: Option<&'static str>,
    /// What it does.
    pub doc: &'static str,
}

/// All settings.
pub const KEYS: &[KeySpec] = &[];
