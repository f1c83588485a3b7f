//! Server versions and the oldest one accepted.

use std::fmt;

/// The oldest Redis that Leasehold runs on.
pub(crate) const FLOOR: Version = Version { major: 7, minor: 0, patch: 0 };

/// A server version; anything after three numbers is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    /// Reads `7.0.15`, `8.2` or `7.4-rc1`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim().splitn(3, '.').map(|part| {
            let digits = part.find(|c: char| !c.is_ascii_digit()).map_or(part, |end| &part[..end]);
            digits.parse::<u32>().ok()
        });
        let major = numbers.next()??;
        let minor = numbers.next().unwrap_or(Some(0))?;
        let patch = numbers.next().flatten().unwrap_or(0);
        Some(Self { major, minor, patch })
    }

    /// Whether Leasehold runs on it.
    pub(crate) fn meets_floor(self) -> bool {
        self >= FLOOR
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The name and version in the output of `redis-server --version`, such as
/// `Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=...`.
pub(super) fn parse_version_output(output: &str) -> Option<(String, Version)> {
    let line = output.lines().find(|line| line.contains(" v="))?;
    let product = line.split_whitespace().next()?;
    let version = line.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    Some((product.to_owned(), Version::parse(version)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What real servers print, and what is no version at all.
    #[test]
    fn parses_version_output() {
        let cases = [
            (
                "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=a",
                Some("Redis 7.0.15"),
            ),
            ("Redis server v=6.2.14 sha=00000000:0 malloc=libc bits=64 build=0", Some("Redis 6.2.14")),
            ("Redis server v=8.2.3 sha=0 malloc=libc bits=64 build=0\n", Some("Redis 8.2.3")),
            (
                "Valkey server v=9.1.2 sha=00000000:1 malloc=libc bits=64 build=1536df31c0395150",
                Some("Valkey 9.1.2"),
            ),
            ("a warning\nValkey server v=8.0 sha=0", Some("Valkey 8.0.0")),
            ("Redis server v=255.255.255 sha=0", Some("Redis 255.255.255")),
            ("Redis server v=seven", None),
            ("redis-server: command not found", None),
            ("", None),
        ];
        for (output, expected) in cases {
            let found = parse_version_output(output).map(|(product, version)| format!("{product} {version}"));
            assert_eq!(found.as_deref(), expected, "{output:?}");
        }
    }

    /// The floor is 7.0, whatever the length of the number.
    #[test]
    fn floor_is_seven() {
        let cases = [
            ("6.2.14", Some(false)),
            ("6.99.99", Some(false)),
            ("7", Some(true)),
            ("7.0", Some(true)),
            ("7.0.0", Some(true)),
            ("7.4-rc1", Some(true)),
            ("7.0.15-debian", Some(true)),
            ("10.1.0", Some(true)),
            ("x.1", None),
            ("7.x", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Version::parse(text).map(Version::meets_floor), expected, "{text}");
        }
    }
}
