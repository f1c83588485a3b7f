//! Just enough of the Redis protocol to tell where one message ends and the next begins.

/// The length in bytes of the first complete message in `buffer`; `None` while some of it is missing.
///
/// An attribute (`|`) belongs to the message that follows it and is counted with it.
pub(crate) fn message_length(buffer: &[u8]) -> Option<usize> {
    let line = line_length(buffer)?;
    let kind = buffer[0];
    match kind {
        b'$' | b'=' | b'!' => {
            let Some(size) = count(&buffer[..line]) else { return Some(line) };
            let end = line + size + 2;
            (buffer.len() >= end).then_some(end)
        }
        b'*' | b'~' | b'>' => elements(buffer, line, count(&buffer[..line]).unwrap_or(0)),
        b'%' => elements(buffer, line, 2 * count(&buffer[..line]).unwrap_or(0)),
        b'|' => elements(buffer, line, 2 * count(&buffer[..line]).unwrap_or(0) + 1),
        _ => Some(line),
    }
}

/// Whether a message was pushed by the server (RESP3) and answers no request.
pub(crate) fn is_push(message: &[u8]) -> bool {
    message.first() == Some(&b'>')
}

/// The words of a request: an array of bulk strings, or an inline line. The request must be complete.
pub(crate) fn request_words(message: &[u8]) -> Vec<Vec<u8>> {
    let Some(mut at) = line_length(message) else { return Vec::new() };
    if message[0] != b'*' {
        let words = message.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        return words.map(<[u8]>::to_vec).collect();
    }
    let mut words = Vec::new();
    while let Some(line) = message.get(at..).and_then(line_length) {
        let size = count(&message[at..at + line]).unwrap_or(0);
        let begin = at + line;
        let Some(word) = message.get(begin..begin + size) else { break };
        words.push(word.to_vec());
        at = begin + size + 2;
    }
    words
}

fn elements(buffer: &[u8], header: usize, number: usize) -> Option<usize> {
    let mut end = header;
    for _ in 0..number {
        end += message_length(buffer.get(end..)?)?;
    }
    Some(end)
}

/// The length of the first line with its line end.
fn line_length(buffer: &[u8]) -> Option<usize> {
    buffer.iter().position(|byte| *byte == b'\n').map(|end| end + 1)
}

/// The number in a header line such as `$12\r\n`; `None` for the old nil (`$-1`, `*-1`).
fn count(line: &[u8]) -> Option<usize> {
    std::str::from_utf8(&line[1..]).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_where_they_end_and_not_before() {
        let whole: [&[u8]; 11] = [
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":12\r\n",
            b"$5\r\na\r\nbc\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*2\r\n*1\r\n:1\r\n$0\r\n\r\n",
            b"%1\r\n+a\r\n*1\r\n:2\r\n",
            b"|1\r\n+a\r\n:1\r\n$1\r\nx\r\n",
            b">2\r\n+message\r\n+x\r\n",
        ];
        for message in whole {
            let mut followed = message.to_vec();
            followed.extend_from_slice(b":7\r\n");
            assert_eq!(message_length(&followed), Some(message.len()), "{message:?}");
            for cut in 0..message.len() {
                assert_eq!(message_length(&message[..cut]), None, "{message:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn words_of_requests_in_both_spellings() {
        let words = |message: &[u8]| request_words(message).concat();
        assert_eq!(words(b"*2\r\n$4\r\nECHO\r\n$4\r\na\r\nb\r\n"), b"ECHOa\r\nb");
        assert_eq!(words(b"PING now\r\n"), b"PINGnow");
    }
}
