//! Base64 as RFC 4648 section 4 has it, with padding.

const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let sign = SIGNS[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= group.len() { char::from(sign) } else { '=' });
        }
    }
    text
}

/// Decodes text; none for anything that [`encode`] would not have written.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let signs = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in signs.as_bytes().chunks(4) {
        let mut bits = 0u32;
        for i in 0..4 {
            let value = match group.get(i) {
                Some(sign) => SIGNS.iter().position(|s| s == sign)?,
                None => 0,
            };
            bits = bits << 6 | u32::try_from(value).ok()?;
        }
        let [_, a, b, c] = bits.to_be_bytes();
        bytes.extend(&[a, b, c][..group.len().saturating_sub(1)]);
    }
    // Padding of a wrong length and stray bits after the end have another spelling.
    (encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn the_vectors_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)).unwrap(), all);
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in ["Z", "Zg", "Zg=", "Zh==", "Zg===", "====", "Zg==Zg==", "Zm9-", "Zm 9", "Zm9v\n", "é==="]
        {
            assert!(decode(text).is_none(), "{text}");
        }
    }
}
