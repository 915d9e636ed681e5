//! Bytes as text in JSON: base64 with the standard alphabet and padding (RFC 4648).
//!
//! Encodes bytes as text and decodes it. Accepts only what it would write.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends these bytes as text.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            if at > group.len() {
                out.push(b'=');
            } else {
                let six = (bits >> (18 - 6 * at)) & 63;
                out.push(ALPHABET[six as usize]);
            }
        }
    }
}

/// The bytes of a text; `None` if it is not base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let last = text.len() / 4;
    for (nth, group) in text.chunks_exact(4).enumerate() {
        let padding = group.iter().rev().take_while(|&&b| b == b'=').count();
        if padding > 2 || padding > 0 && nth + 1 < last {
            return None;
        }
        let mut bits = 0_u32;
        for &letter in &group[..4 - padding] {
            bits = bits << 6 | six(letter)?;
        }
        bits <<= 6 * padding;
        out.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
    }
    Some(out)
}

fn six(letter: u8) -> Option<u32> {
    Some(u32::from(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}
