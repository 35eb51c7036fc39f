//! Cuts a stream of bytes into lines, and keeps no line longer than the bound.

/// One line, or the news that it was too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// A line without its line break.
    Line(&'a [u8]),
    /// A line over the bound; its bytes are gone.
    TooLong,
}

pub(super) struct Framer {
    max: usize,
    /// The start of a line whose end has not come.
    partial: Vec<u8>,
    /// Whether the line in hand was over the bound already.
    skipping: bool,
}

impl Framer {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            partial: Vec::new(),
            skipping: false,
        }
    }

    /// Takes the next bytes of the stream and gives each line that ends in them.
    pub(super) fn feed<E>(
        &mut self,
        mut bytes: &[u8],
        mut give: impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if self.skipping {
                self.skipping = false;
            } else if self.partial.len() + line.len() > self.max {
                self.partial = Vec::new();
                give(Frame::TooLong)?;
            } else if self.partial.is_empty() {
                give(Frame::Line(line))?;
            } else {
                self.partial.extend_from_slice(line);
                // Taken, so that the memory of a long line goes with it.
                give(Frame::Line(&std::mem::take(&mut self.partial)))?;
            }
        }
        if self.skipping {
            return Ok(());
        }
        if self.partial.len() + bytes.len() > self.max {
            self.partial = Vec::new();
            self.skipping = true;
            return give(Frame::TooLong);
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    /// The stream ended: gives a last line that has no line break.
    pub(super) fn finish<E>(
        &mut self,
        mut give: impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match std::mem::take(&mut self.partial) {
            line if line.is_empty() => Ok(()),
            line => give(Frame::Line(&line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(max: usize, chunks: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        let mut framer = Framer::new(max);
        let mut all = Vec::new();
        let mut give = |frame: Frame<'_>| {
            all.push(match frame {
                Frame::Line(line) => Some(line.to_vec()),
                Frame::TooLong => None,
            });
            Ok::<(), ()>(())
        };
        for chunk in chunks {
            framer.feed(chunk, &mut give).unwrap();
        }
        framer.finish(&mut give).unwrap();
        all
    }

    #[test]
    fn a_line_over_the_bound_is_told_once_and_the_next_is_read() {
        let expected = vec![Some(b"12345".to_vec()), None, Some(b"ok".to_vec())];
        assert_eq!(frames(5, &[b"12345\n123456\nok\n"]), expected);
        assert_eq!(
            frames(5, &[b"123", b"45\n1", b"23456789", b"999\n", b"ok"]),
            expected
        );
    }

    proptest! {
        #[test]
        fn the_cuts_between_reads_do_not_matter(
            text in "[ab\n]{0,60}",
            cuts in proptest::collection::vec(0usize..60, 0..6),
            max in 1usize..20,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> =
                cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
            prop_assert_eq!(frames(max, &pieces), frames(max, &[text.as_bytes()]));
        }
    }
}
