//! Text that becomes part of a page.

use std::fmt;

use crate::output::printable;

/// Text from elsewhere, which neither becomes markup nor turns what is around it.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in printable(self.0).chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => write!(f, "{other}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_elsewhere_becomes_markup() {
        let hostile = "<b a=\"1\" c='2'>&\u{202e}";
        let safe = "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;\\u{202e}";
        assert_eq!(Escaped(hostile).to_string(), safe);
    }
}
