//! Suggests a word for a misspelt one, for error messages.

/// `did you mean 'x'?` if a candidate is similar, else the list of valid ones.
pub(crate) fn suggestion(word: &str, valid: &[&str]) -> String {
    let lower = word.to_lowercase();
    let near = valid
        .iter()
        .map(|v| (strsim::normalized_damerau_levenshtein(&lower, v), *v))
        .filter(|(score, v)| {
            *score >= 0.5 || (!lower.is_empty() && (v.starts_with(&lower) || lower.starts_with(v)))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match near {
        Some((_, v)) => format!("did you mean '{v}'?"),
        None => format!("valid are {}", valid.join(", ")),
    }
}
