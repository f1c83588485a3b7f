//! The table in a page of the docs, between two marks.

use crate::error::{Error, Result};

/// Before the table.
pub const BEGIN: &str = "<!-- bench:begin -->";
/// After it.
pub const END: &str = "<!-- bench:end -->";

/// The page with `table` in the place of what stands between the marks.
///
/// # Errors
/// [`Error::Invalid`] for a page without the two marks, each once and in order.
pub fn replaced(page: &str, table: &str) -> Result<String> {
    let bad = || Error::invalid("update", format!("the page needs {BEGIN} and, after it, {END}, once each"));
    let (before, rest) = page.split_once(BEGIN).ok_or_else(bad)?;
    let (old, after) = rest.split_once(END).ok_or_else(bad)?;
    if old.contains(BEGIN) || after.contains(BEGIN) || after.contains(END) {
        return Err(bad());
    }
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", table.trim()))
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, replaced};

    #[test]
    fn only_what_stands_between_the_marks_changes() {
        let page = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let once = replaced(&page, "| new |\n").unwrap();
        assert_eq!(once, format!("a\n{BEGIN}\n\n| new |\n\n{END}\nb\n"));
        assert_eq!(replaced(&once, "| new |").unwrap(), once);
    }

    #[test]
    fn a_page_without_marks_is_refused() {
        let twice = format!("{BEGIN}{END}{BEGIN}{END}");
        for page in ["", BEGIN, END, "<!-- bench:end --> <!-- bench:begin -->", &twice] {
            assert!(replaced(page, "x").unwrap_err().to_string().contains("bench:begin"), "{page}");
        }
    }
}
