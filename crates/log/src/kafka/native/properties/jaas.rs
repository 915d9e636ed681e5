//! Java's format for credentials: `sasl.jaas.config`.

/// The content of a JAAS text: the login module, and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Jaas {
    pub module: String,
    options: Vec<(String, String)>,
}

impl Jaas {
    /// Parses `org...PlainLoginModule required username="u" password="p";`. `None` if it has another
    /// form.
    pub(super) fn read(text: &str) -> Option<Self> {
        let text = text.trim().strip_suffix(';')?;
        let mut rest = text.trim_start();
        let module = take_word(&mut rest)?;
        let flag = take_word(&mut rest)?;
        if !["required", "requisite", "sufficient", "optional"].contains(&flag) {
            return None;
        }
        let mut options = Vec::new();
        while !rest.is_empty() {
            let (name, behind) = rest.split_once('=')?;
            rest = behind.trim_start();
            options.push((name.trim().to_owned(), take_value(&mut rest)?));
            rest = rest.trim_start();
        }
        Some(Self {
            module: module.rsplit('.').next().unwrap_or(module).to_owned(),
            options,
        })
    }

    /// The value of an option.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The options with this prefix, which is removed.
    pub(super) fn with_prefix(&self, prefix: &str) -> Vec<(String, String)> {
        (self.options.iter())
            .filter_map(|(name, value)| {
                Some((name.strip_prefix(prefix)?.to_owned(), value.clone()))
            })
            .collect()
    }
}

fn take_word<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (word, behind) = rest.split_at(end);
    *rest = behind.trim_start();
    (!word.is_empty()).then_some(word)
}

/// A value, quoted (with backslashes before quotes in it) or not.
fn take_value(rest: &mut &str) -> Option<String> {
    let Some(quoted) = rest.strip_prefix('"') else {
        return take_word(rest).map(str::to_owned);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                *rest = &quoted[at + 1..];
                return Some(value);
            }
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}
