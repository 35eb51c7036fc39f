//! Text for people: what a server wrote is made visible, shortened and wrapped.

use unicode_width::UnicodeWidthChar;

/// The text on one line, with everything that could drive a terminal, or hide or reorder what
/// stands beside it, written as an escape: `\n`, `\u{1b}`.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_hidden(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// As [`visible`], with line breaks kept.
pub(crate) fn visible_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(visible).collect();
    lines.join("\n")
}

/// Control characters, and the format characters that have no glyph.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}'
            | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

/// Columns that the text takes on a terminal.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

fn char_columns(c: char) -> usize {
    match c {
        // Asks for the wide form of the character before it.
        '\u{fe0f}' => 1,
        c => c.width().unwrap_or(0),
    }
}

/// The text, or its beginning and its end with the number of characters between them, so that it
/// takes at most about that many columns. Piles of combining characters count too.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    const MARK: usize = 32;
    if prefix(text.chars(), limit) == text.len() {
        return text.to_owned();
    }
    let room = limit.saturating_sub(MARK).max(16);
    let head = prefix(text.chars(), room * 2 / 3);
    let tail = text.len() - prefix(text.chars().rev(), room - room * 2 / 3);
    let between = text[head..tail].chars().count();
    format!(
        "{} […{between} characters…] {}",
        &text[..head],
        &text[tail..]
    )
}

/// Bytes of the longest prefix that takes at most that many columns.
fn prefix(chars: impl Iterator<Item = char>, limit: usize) -> usize {
    let (mut bytes, mut wide, mut count) = (0, 0, 0);
    for c in chars {
        wide += char_columns(c);
        count += 1;
        if wide > limit || count > limit * 2 {
            break;
        }
        bytes += c.len_utf8();
    }
    bytes
}

/// The text in pieces of at most that many columns, cut anywhere: for text without words.
pub(crate) fn chunks(text: &str, limit: usize) -> Vec<&str> {
    let limit = limit.max(2);
    let (mut pieces, mut start, mut wide) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        let w = char_columns(c);
        if wide + w > limit {
            pieces.push(&text[start..at]);
            (start, wide) = (at, 0);
        }
        wide += w;
    }
    pieces.push(&text[start..]);
    pieces
}

/// Prose in lines of at most that many columns; the line breaks of the text are kept.
pub(crate) fn wrap(text: &str, limit: usize) -> Vec<String> {
    let lines = visible_lines(text.trim_end());
    // A hyphen is a part of many ids, so no line ends at one.
    let options = textwrap::Options::new(limit.max(10))
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(&lines, options)
        .into_iter()
        .map(|line| line.into_owned())
        .collect()
}

/// A command for a POSIX shell, broken with `\` between words where it gets too wide. A flag
/// keeps its value beside it.
pub(crate) fn shell(words: &[String], limit: usize) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut is_flag = false;
    for word in words {
        let quoted = quote(word);
        match pieces.last_mut() {
            Some(flag) if is_flag && !word.starts_with('-') => *flag += &format!(" {quoted}"),
            _ => pieces.push(quoted),
        }
        is_flag = word.starts_with("--") && word.len() > 2 && !word.contains('=');
    }
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        let wide = columns(&piece) + 3;
        match lines.last_mut() {
            Some(line) if columns(line).saturating_add(wide) <= limit => {
                *line += &format!(" {piece}");
            }
            Some(line) => {
                line.push_str(" \\");
                lines.push(piece);
            }
            None => lines.push(piece),
        }
    }
    lines
}

/// One word for a POSIX shell. Text with control characters other than a line break is shown
/// with escapes: it cannot be copied, but it cannot drive the terminal either.
pub(crate) fn quote(word: &str) -> String {
    let quoted = shlex::try_quote(word).map_or_else(|_| word.to_owned(), |q| q.into_owned());
    quoted
        .split('\n')
        .map(visible)
        .collect::<Vec<_>>()
        .join("\n")
}

/// `1 process`, `2 processes`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_what_drives_a_terminal() {
        assert_eq!(
            visible("a\x1b[2J\u{9b}31m\r\u{202e}b\u{7}é漢"),
            "a\\u{1b}[2J\\u{9b}31m\\r\\u{202e}b\\u{7}é漢"
        );
    }

    #[test]
    fn shortens_in_the_middle() {
        let text = format!("{}{}", "a".repeat(100), "z".repeat(100));
        let short = shorten(&text, 80);
        assert_eq!(
            short,
            format!("{} […152 characters…] {}", "a".repeat(32), "z".repeat(16))
        );
        assert_eq!(shorten("short", 80), "short");
    }

    #[test]
    fn breaks_a_command_between_words_so_that_it_can_be_copied() {
        let words = ["node", "my server.js", "--a=it's", "--b", "x y"].map(String::from);
        assert_eq!(
            shell(&words, 21),
            ["node 'my server.js' \\", "\"--a=it's\" \\", "--b 'x y'"]
        );
        assert_eq!(
            shlex::split(&shell(&words, 21).join("\n").replace("\\\n", "")).unwrap(),
            words
        );
    }

    proptest! {
        #[test]
        fn nothing_visible_is_a_control(text in any::<String>()) {
            prop_assert!(!visible(&text).chars().any(is_hidden));
        }

        #[test]
        fn chunks_lose_nothing_and_fit(text in "\\PC{0,80}", limit in 2usize..40) {
            let pieces = chunks(&text, limit);
            prop_assert_eq!(pieces.concat(), text.as_str());
            for piece in pieces {
                prop_assert!(columns(piece) <= limit);
            }
        }

        #[test]
        fn shortened_text_fits(text in "\\PC{0,200}", limit in 60usize..120) {
            prop_assert!(columns(&shorten(&text, limit)) <= limit);
        }

        #[test]
        fn wrapped_prose_fits(text in "(\\PC{1,30} ){0,20}", limit in 20usize..80) {
            for line in wrap(&text, limit) {
                prop_assert!(columns(&line) <= limit, "{:?}", line);
            }
        }

        #[test]
        fn a_shell_reads_the_words_back(words in prop::collection::vec("[ -~é漢]{0,12}", 1..8)) {
            let text = shell(&words, 30).join("\n").replace("\\\n", "");
            prop_assert_eq!(shlex::split(&text).unwrap(), words);
        }
    }
}
