//! From text to the syntax tree and the program.
//!
//! A file is cut into chunks, one per top-level declaration, before anything else: a line that
//! begins in column one with a declaration's keyword (or its attribute, or its doc comment)
//! starts a chunk. No token spans lines, so the cut never splits one. Each chunk is parsed by
//! itself; that bounds every mistake to its declaration and lets an edit leave the others alone.

mod kind;
mod lexer;
mod parser;

pub use kind::{Kind, Sakura, SyntaxElement, SyntaxNode, SyntaxToken};
pub use lexer::{Token, lex};
pub use parser::{MAX_HEIGHT, Parsed, parse_chunk};

/// Where the chunks of a text begin, in bytes; the first begins at 0.
pub fn chunk_starts(text: &str) -> Vec<u32> {
    let mut starts = vec![0];
    let mut offset = 0;
    // Whether the chunk so far holds only docs, attributes, comments and blank lines.
    let mut only_lead = true;
    let mut seen_lead = false;
    for line in text.split_inclusive('\n') {
        let word = line
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .next()
            .unwrap_or("");
        let lead = line.starts_with("///") || line.starts_with('@');
        let keyword = matches!(
            word,
            "import" | "type" | "error" | "fn" | "test" | "property"
        );
        let plain = line.trim().is_empty() || line.starts_with("//");
        if (lead && !(only_lead && seen_lead)) || (keyword && !only_lead) {
            if offset > 0 {
                starts.push(offset);
            }
            only_lead = true;
            seen_lead = false;
        }
        seen_lead |= lead;
        if keyword || !(lead || plain) {
            only_lead = false;
        }
        offset += line.len() as u32;
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(text: &str) -> Vec<&str> {
        let mut starts = chunk_starts(text);
        starts.push(text.len() as u32);
        starts
            .windows(2)
            .map(|pair| &text[pair[0] as usize..pair[1] as usize])
            .collect()
    }

    #[test]
    fn a_declaration_is_a_chunk_with_its_docs_and_attributes() {
        let text =
            "import a.{b}\n\n/// doc\n@tool(\"x\")\nfn f() -> Int {\n  1\n}\n// c\ntype T = Int\n";
        assert_eq!(
            chunks(text),
            [
                "import a.{b}\n\n",
                "/// doc\n@tool(\"x\")\nfn f() -> Int {\n  1\n}\n// c\n",
                "type T = Int\n"
            ]
        );
    }
}
