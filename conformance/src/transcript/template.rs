//! Text with variables: `$name` is replaced, `$$` is a dollar sign.

use std::collections::HashMap;
use std::fmt;

use serde_json::Value;

/// The values of the variables during a play.
pub(super) type Vars = HashMap<String, Value>;

/// Text with variables in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Template(pub(super) Vec<Piece>);

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// Text as it stands.
    Text(String),
    /// A variable inside other text.
    Var(String),
    /// A whole JSON string `"$name"`: replaced by the value with its own type.
    Whole(String),
}

/// What stands at a dollar sign.
pub(super) enum Dollar<'a> {
    /// `$$`
    Escaped,
    /// `$name`
    Name(&'a str),
    /// Neither.
    Bare,
}

/// Reads what follows a dollar sign.
pub(super) fn dollar(after: &str) -> Dollar<'_> {
    if after.starts_with('$') {
        return Dollar::Escaped;
    }
    match name(after) {
        "" => Dollar::Bare,
        name => Dollar::Name(name),
    }
}

/// The variable's name at the start of the text; empty if there is none.
pub(super) fn name(text: &str) -> &str {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match begins {
        true => &text[..text.find(|c| !part(c)).unwrap_or(text.len())],
        false => "",
    }
}

/// A dollar sign that is no variable and no escape: where, and what is wrong.
#[derive(Debug)]
pub(super) struct Fault {
    /// Byte offset of the dollar sign.
    pub(super) at: usize,
    /// What is wrong with it.
    pub(super) message: String,
}

impl Template {
    /// Reads text that is no JSON (an argument, a path, the inside of a string).
    pub(super) fn plain(text: &str, known: &dyn Fn(&str) -> bool) -> Result<Template, Fault> {
        let mut reader = Reader::default();
        let mut at = 0;
        while let Some(found) = text[at..].find('$') {
            let sign = at + found;
            reader.text(&text[at..sign]);
            at = reader.variable(text, sign, known)?;
        }
        reader.text(&text[at..]);
        Ok(reader.finish())
    }

    /// Reads a line that is to be sent. A whole string `"$name"` takes the value's type; where
    /// an `id` or a `progressToken` stands, a name that is not known yet is a fresh id (told to
    /// `fresh`); the name of a member is left alone.
    pub(super) fn line(
        text: &str,
        known: &mut dyn FnMut(&str, bool) -> bool,
    ) -> Result<Template, Fault> {
        let mut reader = Reader::default();
        let mut at = 0;
        while let Some(found) = text[at..].find('$') {
            let sign = at + found;
            let name = match dollar(&text[sign + 1..]) {
                Dollar::Name(name) => name,
                _ => "",
            };
            let end = sign + 1 + name.len();
            let quoted = text[..sign].ends_with('"') && text[end..].starts_with('"');
            let member = quoted && text[end + 1..].trim_start().starts_with(':');
            if name.is_empty() || !quoted {
                let is_known = name.is_empty() || known(name, false);
                reader.text(&text[at..sign]);
                at = reader.variable(text, sign, &|_| is_known)?;
            } else if member {
                reader.text(&text[at..=end]);
                at = end + 1;
            } else {
                let fresh = names_an_id(&text[..sign - 1]);
                if !known(name, fresh) {
                    return Err(unknown(sign, name));
                }
                reader.text(&text[at..sign - 1]);
                reader.0.push(Piece::Whole(name.into()));
                at = end + 1;
            }
        }
        reader.text(&text[at..]);
        Ok(reader.finish())
    }

    /// The names of its variables.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Var(name) | Piece::Whole(name) => Some(name.as_str()),
        })
    }

    /// The text with the values in place. `json` escapes them for the inside of a JSON string.
    pub(super) fn fill(&self, vars: &Vars, json: bool) -> Result<String, String> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(part) => text.push_str(part),
                Piece::Whole(name) => text.push_str(&value(vars, name)?.to_string()),
                Piece::Var(name) => match value(vars, name)? {
                    Value::String(part) if json => {
                        let quoted = Value::from(part.as_str()).to_string();
                        text.push_str(&quoted[1..quoted.len() - 1]);
                    }
                    Value::String(part) => text.push_str(part),
                    other => text.push_str(&other.to_string()),
                },
            }
        }
        Ok(text)
    }
}

/// Whether the text before a value makes it an id.
fn names_an_id(before: &str) -> bool {
    let Some(before) = before.trim_end().strip_suffix(':') else {
        return false;
    };
    let before = before.trim_end();
    ["\"id\"", "\"progressToken\""]
        .iter()
        .any(|member| before.ends_with(member))
}

fn value<'a>(vars: &'a Vars, name: &str) -> Result<&'a Value, String> {
    vars.get(name)
        .ok_or_else(|| format!("the variable ${name} has no value here"))
}

fn unknown(at: usize, name: &str) -> Fault {
    Fault {
        at,
        message: format!(
            "the variable ${name} is not known here: it comes from an earlier `\"id\":\"${name}\"` \
             or `<… as ${name}>`; a dollar sign itself is written `$$`"
        ),
    }
}

#[derive(Default)]
struct Reader(Vec<Piece>);

impl Reader {
    fn text(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.0.push(Piece::Text(text.into())),
        }
    }

    /// Takes the variable or escape at a dollar sign; gives where the text goes on.
    fn variable(
        &mut self,
        text: &str,
        sign: usize,
        known: &dyn Fn(&str) -> bool,
    ) -> Result<usize, Fault> {
        match dollar(&text[sign + 1..]) {
            Dollar::Escaped => {
                self.text("$");
                Ok(sign + 2)
            }
            Dollar::Name(name) if known(name) => {
                self.0.push(Piece::Var(name.into()));
                Ok(sign + 1 + name.len())
            }
            Dollar::Name(name) => Err(unknown(sign, name)),
            Dollar::Bare => {
                self.text("$");
                Ok(sign + 1)
            }
        }
    }

    fn finish(self) -> Template {
        Template(self.0)
    }
}

/// Prints it so that it reads back the same.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => f.write_str(&escape(text))?,
                Piece::Var(name) => write!(f, "${name}")?,
                Piece::Whole(name) => write!(f, "\"${name}\"")?,
            }
        }
        Ok(())
    }
}

/// Text in which no dollar sign is a variable.
pub(super) fn escape(text: &str) -> String {
    text.replace('$', "$$")
}
