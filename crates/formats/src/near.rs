//! Suggests a name for a mistyped one.

/// `did you mean 'x'?` if one of the valid names is similar, else a list of all.
#[must_use]
pub fn near<'a>(word: &str, valid: impl Iterator<Item = &'a str> + Clone) -> String {
    let lower = word.to_lowercase();
    let scored = valid.clone().map(|v| {
        (
            strsim::normalized_damerau_levenshtein(&lower, &v.to_lowercase()),
            v,
        )
    });
    match scored
        .filter(|(score, _)| *score >= 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0))
    {
        Some((_, v)) => format!("did you mean '{v}'?"),
        None => format!("there are {}", valid.collect::<Vec<_>>().join(", ")),
    }
}
