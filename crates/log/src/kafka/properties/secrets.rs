//! Secrets that a property refers to as `file:PATH`.

/// The content of the file that a secret refers to, without its line end; `None` if it isn't
/// `file:PATH`.
///
/// # Errors
/// The file can't be read: the problem to report.
pub(in crate::kafka) fn secret_in_file(
    name: &str,
    value: &str,
) -> Option<std::result::Result<String, String>> {
    let path = value.strip_prefix("file:")?;
    let text = std::fs::read_to_string(path);
    Some(match text {
        Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
        Err(error) => Err(format!("'{name}' = 'file:{path}': {error}")),
    })
}
