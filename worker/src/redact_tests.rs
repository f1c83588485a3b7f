//! Texts in random pieces against a plain search of the whole.

use super::*;

fn secrets(values: &[&str]) -> Secrets {
    let secrets = Secrets::default();
    values.iter().for_each(|value| secrets.add("secret", value.as_bytes()).unwrap());
    secrets
}

/// Every byte that any secret covers, in place of it one mask per run of such bytes.
fn plainly(values: &[&str], text: &[u8]) -> Vec<u8> {
    let mut covered = vec![false; text.len()];
    for value in values {
        for at in 0..text.len() {
            if text[at..].starts_with(value.as_bytes()) {
                covered[at..at + value.len()].fill(true);
            }
        }
    }
    let mut out = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        if !covered[at] {
            out.push(*byte);
        } else if at == 0 || !covered[at - 1] {
            out.extend_from_slice(MASK);
        }
    }
    out
}

/// What comes out in pieces, and the end apart.
fn piecewise(secrets: &Secrets, pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let told = pieces.iter().map(|piece| {
        let mut out = Vec::new();
        secrets.pass(Stream::Stdout, piece, |bytes| out.extend_from_slice(bytes));
        out
    });
    let told = told.collect();
    let mut end = Vec::new();
    secrets.finish(Stream::Stdout, |bytes| end.extend_from_slice(bytes));
    (told, end)
}

#[test]
fn r30_however_a_text_is_cut_it_is_masked_the_same() {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % limit as u64).unwrap()
    };
    let sets: [&[&str]; 6] = [
        &["aaaa"],
        &["abab", "babaa"],
        &["abba", "xabbax", "bbaab"],
        &["aabb", "aabbaabb"],
        &["aaab", "baaa", "abaaab"],
        &["bbbb", "abbbba", "aaaaaaaaaaaab"],
    ];
    for values in sets {
        let secrets = secrets(values);
        for _ in 0..2000 {
            let text: Vec<u8> = (0..below(60)).map(|_| b"aabbx"[below(5)]).collect();
            let mut pieces = Vec::new();
            let mut rest = &text[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(below(rest.len().min(7) + 1));
                pieces.push(piece);
                rest = after;
            }
            let (told, end) = piecewise(&secrets, &pieces);
            let all = [told.concat(), end].concat();
            let (shown, cut) = (String::from_utf8_lossy(&text), String::from_utf8_lossy(&all));
            assert_eq!(all, plainly(values, &text), "{values:?} in {shown}: {cut}");
        }
    }
}

#[test]
fn only_what_may_become_a_secret_is_held_back() {
    let secrets = secrets(&["hunter22"]);
    let (told, end) = piecewise(&secrets, &[b"it is hunt", b"er2", b"2, or hunter", b"!", b"hunt"]);
    let told: Vec<_> = told.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
    assert_eq!(told, ["it is ", "", "***, or ", "hunter!", ""]);
    assert_eq!(end, b"hunt", "the last bytes are not lost");
}

#[test]
fn streams_are_apart() {
    let secrets = secrets(&["hunter22"]);
    let mut out = Vec::new();
    for (stream, bytes) in
        [(Stream::Stdout, "hunt"), (Stream::Stderr, "er22"), (Stream::Stdout, "er22"), (Stream::Stderr, "!")]
    {
        secrets.pass(stream, bytes.as_bytes(), |bytes| out.extend_from_slice(bytes));
    }
    assert_eq!(out, b"er22***!");
}

#[test]
fn a_secret_that_is_added_later_masks_what_follows() {
    let secrets = secrets(&["aaaa"]);
    let mut out = Vec::new();
    secrets.pass(Stream::Stdout, b"bbbb aa", |bytes| out.extend_from_slice(bytes));
    secrets.add("secret", b"aabbbb").unwrap();
    secrets.add("secret", b"bbbb").unwrap();
    secrets.pass(Stream::Stdout, b"bbbb", |bytes| out.extend_from_slice(bytes));
    secrets.finish(Stream::Stdout, |bytes| out.extend_from_slice(bytes));
    assert_eq!(out, b"bbbb aa***");
}

#[test]
fn short_values_are_refused_and_empty_ones_are_none() {
    let none = secrets(&["", ""]);
    assert_eq!(none.mask("abc"), "abc");
    let error = none.add("secret", b"abc").unwrap_err().to_string();
    assert!(error.contains("has 3 bytes") && !error.contains("abc"), "{error}");
    let error = of_environment(&["LEASEHOLD_NO_SUCH_VARIABLE".to_owned()]).unwrap_err().to_string();
    assert_eq!(
        error,
        "invalid redact: \"LEASEHOLD_NO_SUCH_VARIABLE\" is not set in the worker's environment"
    );
}

#[test]
fn half_a_character_is_no_panic() {
    assert_eq!(secrets(&["\u{e4}bc"]).mask("x\u{e4}bcd"), "x***d");
    let half = Secrets::default();
    half.add("secret", &[b'a', b'b', b'c', 0xc3]).unwrap();
    assert_eq!(half.mask("abc\u{e4}"), "***\u{fffd}");
}
