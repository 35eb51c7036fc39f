//! Cuts a stream of bytes into lines, in bounded memory.

/// What is kept of a line that is longer than the bound, as evidence.
const KEPT_OF_LONG: usize = 4 << 10;

/// A line as it was cut from the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// The bytes without the newline; of a line over the bound only the beginning.
    pub(super) bytes: Vec<u8>,
    /// Whether a newline ended it.
    pub(super) terminated: bool,
    /// The length it had on the wire.
    pub(super) length: u64,
}

/// The line that is being read.
pub(super) struct Framer {
    bound: usize,
    bytes: Vec<u8>,
    length: u64,
}

impl Framer {
    pub(super) fn new(bound: usize) -> Framer {
        Framer {
            bound,
            bytes: Vec::new(),
            length: 0,
        }
    }

    /// Takes a block and gives each line that it completes.
    pub(super) fn push(&mut self, mut block: &[u8], mut line: impl FnMut(Cut)) {
        while let Some(end) = block.iter().position(|&b| b == b'\n') {
            self.append(&block[..end]);
            line(self.cut(true));
            block = &block[end + 1..];
        }
        self.append(block);
    }

    /// What stands after the last newline, at the end of the stream.
    pub(super) fn finish(&mut self) -> Option<Cut> {
        (self.length > 0).then(|| self.cut(false))
    }

    fn append(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if self.length <= self.bound as u64 {
            self.bytes.extend_from_slice(bytes);
        } else if self.bytes.len() > KEPT_OF_LONG {
            self.bytes.truncate(KEPT_OF_LONG);
            self.bytes.shrink_to_fit();
        } else {
            let room = KEPT_OF_LONG - self.bytes.len();
            self.bytes
                .extend_from_slice(&bytes[..room.min(bytes.len())]);
        }
    }

    fn cut(&mut self, terminated: bool) -> Cut {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.shrink_to_fit();
        Cut {
            bytes,
            terminated,
            length: std::mem::take(&mut self.length),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(bound: usize, blocks: &[&[u8]]) -> Vec<Cut> {
        let mut framer = Framer::new(bound);
        let mut lines = Vec::new();
        for block in blocks {
            framer.push(block, |line| lines.push(line));
        }
        lines.extend(framer.finish());
        lines
    }

    #[test]
    fn a_line_over_the_bound_keeps_its_length_and_its_beginning() {
        let long = vec![b'x'; 100_000];
        let lines = cut(50_000, &[&long, b"yy", b"\nnext\n"]);
        assert_eq!(lines[0].length, 100_002);
        assert_eq!(lines[0].bytes, vec![b'x'; KEPT_OF_LONG]);
        assert_eq!(lines[1].bytes, b"next");
    }

    proptest! {
        /// However the stream is cut into blocks, the lines are those of the whole.
        #[test]
        fn blocks_do_not_matter(
            blocks in prop::collection::vec(prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..40), 0..20)
        ) {
            let whole = blocks.concat();
            let parts: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
            let lines = cut(1000, &parts);
            prop_assert_eq!(&lines, &cut(1000, &[&whole]));
            let mut again = Vec::new();
            for line in &lines {
                again.extend_from_slice(&line.bytes);
                if line.terminated {
                    again.push(b'\n');
                }
            }
            prop_assert_eq!(again, whole);
        }

        /// The memory held for a line never exceeds the bound.
        #[test]
        fn memory_is_bounded(sizes in prop::collection::vec(0usize..9000, 1..20)) {
            let mut framer = Framer::new(8192);
            for size in sizes {
                framer.push(&vec![b'x'; size], |_| ());
                prop_assert!(framer.bytes.len() <= 8192);
            }
        }
    }
}
