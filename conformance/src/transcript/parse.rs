//! Reads a transcript; every error names its line and column.

use std::collections::HashSet;
use std::path::{Component, Path};
use std::time::Duration;

use serde_json::Value;

use super::pattern::{Names, Pattern};
use super::template::Template;
use super::{Action, Allow, ParseError, Requires, Step, Transcript};
use crate::spec::Span;
use crate::spec::requirement::Breach;
use crate::wire::{Body, json};

/// Variables that are always known.
const BUILT_IN: [&str; 3] = ["META", "REVISION", "TMP"];

/// The longest time that may be waited for, so that a slip of the pen does not stop a run.
const LONGEST: Duration = Duration::from_secs(3600);

/// Reads a transcript. `name` is the file's, for messages.
pub fn parse(name: &str, text: &str) -> Result<Transcript, ParseError> {
    let mut parser = Parser::new(name, text);
    for line in logical(text) {
        let result = line.and_then(|line| parser.line(&line));
        result.map_err(|fault| parser.located(text, fault))?;
    }
    if let Some(at) = parser.prefix_at {
        let message = "`@chunks` and `@no-newline` belong to a `-->` line below them".into();
        return Err(parser.located(text, Fault { at, message }));
    }
    Ok(parser.done)
}

/// What is wrong at a place of the source.
struct Fault {
    at: Place,
    message: String,
}

/// Line and column in bytes, both from 0.
#[derive(Clone, Copy, Default)]
struct Place {
    line: usize,
    column: usize,
}

/// A line with those that go on with it (indented) or belong to it (`|`).
struct Logical<'a> {
    /// Index of the first line.
    first: usize,
    /// Index of the last line.
    last: usize,
    /// The whole text, continuations joined.
    text: String,
    /// Where the parts of the text begin in it, and in the source.
    parts: Vec<(usize, Place)>,
    /// The lines with `|`.
    body: Vec<&'a str>,
}

impl Logical<'_> {
    /// The place of a byte of the text.
    fn place(&self, offset: usize) -> Place {
        let part = self.parts.iter().rev().find(|(from, _)| *from <= offset);
        part.map_or(Place::default(), |(from, place)| Place {
            line: place.line,
            column: place.column + offset - from,
        })
    }

    fn fault(&self, offset: usize, message: impl Into<String>) -> Fault {
        Fault {
            at: self.place(offset),
            message: message.into(),
        }
    }
}

/// The lines that say something.
fn logical(text: &str) -> Vec<Result<Logical<'_>, Fault>> {
    let mut lines: Vec<Result<Logical<'_>, Fault>> = Vec::new();
    let mut open = false;
    for (number, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let indented = line.starts_with([' ', '\t']);
        if line.trim().is_empty() {
            // A blank line ends a comment, so that the leading one can be told from others.
            open = false;
            continue;
        }
        let fault = |message: &str| {
            let at = Place {
                line: number,
                column: 0,
            };
            Err(Fault {
                at,
                message: message.into(),
            })
        };
        let last = lines.last_mut().and_then(|last| last.as_mut().ok());
        if let Some(body) = line.strip_prefix('|') {
            match last.filter(|last| open && last.text.starts_with("@file")) {
                Some(file) => {
                    file.body.push(body.strip_prefix(' ').unwrap_or(body));
                    file.last = number;
                }
                None => lines.push(fault("a `|` line belongs below an `@file`")),
            }
        } else if indented {
            match last.filter(|last| open && !last.text.starts_with('#')) {
                Some(whole) => {
                    let rest = line.trim_start();
                    let column = line.len() - rest.len();
                    let place = Place {
                        line: number,
                        column,
                    };
                    whole.parts.push((whole.text.len(), place));
                    whole.text.push_str(rest);
                    whole.last = number;
                }
                None => lines.push(fault(
                    "an indented line goes on with the line above it, and there is none",
                )),
            }
        } else {
            open = true;
            let place = Place {
                line: number,
                column: 0,
            };
            lines.push(Ok(Logical {
                first: number,
                last: number,
                text: line.into(),
                parts: vec![(0, place)],
                body: vec![],
            }));
        }
    }
    lines
}

struct Parser {
    done: Transcript,
    known: HashSet<String>,
    /// `@chunks` and `@no-newline` for the next line that is sent.
    chunks: Option<usize>,
    no_newline: bool,
    prefix_at: Option<Place>,
    /// The line after the leading comment's last, while still in it.
    about_until: usize,
}

impl Parser {
    fn new(name: &str, text: &str) -> Parser {
        Parser {
            done: Transcript {
                name: name.into(),
                checks: vec![],
                span: Span::ALL,
                about: String::new(),
                breach: None,
                notes: vec![],
                rejudge: false,
                survive: false,
                source: text.into(),
                requires: vec![],
                fresh: false,
                handshake: true,
                ids: vec![],
                steps: vec![],
            },
            known: BUILT_IN.iter().map(|&name| name.into()).collect(),
            chunks: None,
            no_newline: false,
            prefix_at: None,
            about_until: 0,
        }
    }

    fn located(&self, text: &str, fault: Fault) -> ParseError {
        let Place { line, column } = fault.at;
        let source = text.split('\n').nth(line).unwrap_or_default();
        let source = source.strip_suffix('\r').unwrap_or(source);
        let mut end = column.min(source.len());
        while !source.is_char_boundary(end) {
            end -= 1;
        }
        ParseError {
            file: self.done.name.clone(),
            line: line + 1,
            column: source[..end].chars().count() + 1,
            message: fault.message,
            source: source.into(),
        }
    }

    fn line(&mut self, line: &Logical<'_>) -> Result<(), Fault> {
        let text = line.text.as_str();
        if let Some(comment) = text.strip_prefix('#') {
            self.comment(line.first, comment);
            return Ok(());
        }
        // Bytes of the text before what is said, which may be separated by one space.
        let rest = |mark: &str| {
            let rest = &text[mark.len()..];
            mark.len() + usize::from(rest.starts_with(' '))
        };
        if text.starts_with("-->hex") {
            self.send_hex(line)
        } else if text.starts_with("-->") {
            self.send(line, rest("-->"))
        } else if text.starts_with("<--") {
            self.expect(line, rest("<--"))
        } else if text.starts_with("<or") {
            self.expect_or(line, rest("<or"))
        } else if let Some(word) = text.strip_prefix('@') {
            let word = word.split_whitespace().next().unwrap_or_default();
            let after = &text[1 + word.len()..];
            let from = text.len() - after.trim_start().len();
            self.directive(line, word, from)
        } else {
            let message = "a line begins with `-->`, `<--`, `<or`, `@`, `#` or `|`; \
                           one that goes on with the line above is indented";
            Err(line.fault(0, message))
        }
    }

    fn comment(&mut self, number: usize, comment: &str) {
        let leading = self.done.steps.is_empty() && number == self.about_until;
        if leading {
            self.about_until = number + 1;
            if number > 0 {
                self.done.about.push('\n');
            }
            let comment = comment.strip_prefix(' ').unwrap_or(comment);
            self.done.about.push_str(comment.trim_end());
        }
    }

    fn step(&mut self, line: &Logical<'_>, action: Action) {
        let lines = (line.first + 1, line.last + 1);
        self.done.steps.push(Step { lines, action });
    }

    fn send(&mut self, line: &Logical<'_>, from: usize) -> Result<(), Fault> {
        let (known, ids) = (&mut self.known, &mut self.done.ids);
        let mut know = |name: &str, fresh: bool| {
            if fresh && known.insert(name.into()) {
                ids.push(name.into());
            }
            known.contains(name)
        };
        let template = Template::line(&line.text[from..], &mut know)
            .map_err(|fault| line.fault(from + fault.at, fault.message))?;
        let action = Action::Send {
            line: template,
            newline: !self.no_newline,
            chunks: self.chunks,
        };
        self.step(line, action);
        self.prefix_used();
        Ok(())
    }

    fn send_hex(&mut self, line: &Logical<'_>) -> Result<(), Fault> {
        let from = "-->hex".len();
        if self.no_newline {
            return Err(line.fault(0, "`-->hex` adds no newline: `@no-newline` is not needed"));
        }
        let mut digits = Vec::new();
        for (at, c) in line.text[from..].char_indices() {
            match c.to_digit(16) {
                Some(digit) => digits.push(digit as u8),
                None if c.is_whitespace() => {}
                None => return Err(line.fault(from + at, "hexadecimal digits are 0-9 and a-f")),
            }
        }
        if digits.len() % 2 == 1 {
            let message = "the number of hexadecimal digits is odd";
            return Err(line.fault(line.text.len(), message));
        }
        let bytes = digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect();
        let chunks = self.chunks;
        self.step(line, Action::SendHex { bytes, chunks });
        self.prefix_used();
        Ok(())
    }

    fn prefix_used(&mut self) {
        self.chunks = None;
        self.no_newline = false;
        self.prefix_at = None;
    }

    fn expect(&mut self, line: &Logical<'_>, from: usize) -> Result<(), Fault> {
        let patterns = match line.text[from..].trim().is_empty() {
            true => vec![],
            false => vec![self.pattern(line, from)?],
        };
        self.step(line, Action::Expect(patterns));
        Ok(())
    }

    fn expect_or(&mut self, line: &Logical<'_>, from: usize) -> Result<(), Fault> {
        let pattern = self.pattern(line, from)?;
        match self.done.steps.last_mut() {
            Some(Step {
                lines,
                action: Action::Expect(patterns),
            }) if !patterns.is_empty() => {
                patterns.push(pattern);
                lines.1 = line.last + 1;
                Ok(())
            }
            _ => Err(line.fault(0, "`<or` belongs below a `<--` line")),
        }
    }

    /// The JSON value that stands from that byte on.
    fn json(&self, line: &Logical<'_>, from: usize) -> Result<Value, Fault> {
        let text = &line.text[from..];
        if text.trim().is_empty() {
            return Err(line.fault(line.text.len(), "a JSON value is missing here"));
        }
        match json::read(text.as_bytes()).0 {
            Body::Json(json) => match json.duplicates.first() {
                None => Ok(json.value),
                Some(pointer) => {
                    let message = format!("the member {pointer} stands here twice");
                    Err(line.fault(from, message))
                }
            },
            Body::NotJson(reason) => {
                let error = serde_json::from_str::<serde::de::IgnoredAny>(text).err();
                let column = error.map_or(1, |error| error.column());
                let at = from + column.saturating_sub(1).min(text.len());
                Err(line.fault(at, format!("this is not JSON: {reason}")))
            }
            _ => Err(line.fault(from, "this is not JSON")),
        }
    }

    fn pattern(&mut self, line: &Logical<'_>, from: usize) -> Result<Pattern, Fault> {
        let value = self.json(line, from)?;
        let known = &self.known;
        let mut names = Names {
            known: &|name| known.contains(name),
            captured: vec![],
        };
        let pattern = Pattern::read(&value, &mut names).map_err(|fault| {
            let written = Value::from(fault.near.as_str()).to_string();
            let near = line.text[from..].find(&written[1..written.len() - 1]);
            line.fault(from + near.unwrap_or(0), fault.message)
        })?;
        self.known.extend(names.captured);
        Ok(pattern)
    }

    fn plain(&self, line: &Logical<'_>, from: usize, text: &str) -> Result<Template, Fault> {
        Template::plain(text, &|name| self.known.contains(name))
            .map_err(|fault| line.fault(from + fault.at, fault.message))
    }

    fn directive(&mut self, line: &Logical<'_>, word: &str, from: usize) -> Result<(), Fault> {
        let said = Said { line, word, from };
        if self.subject(&said)? || self.process(&said)? || self.course(&said)? {
            return Ok(());
        }
        let message = format!("there is no directive `@{word}`; docs/transcripts.md has the list");
        Err(line.fault(0, message))
    }

    /// Directives on what the transcript is about. False if it is none of them.
    fn subject(&mut self, said: &Said<'_>) -> Result<bool, Fault> {
        match said.word {
            "check" => self.check(said.line, said.some("one or more requirement ids")?),
            "revision" => {
                let span = Span::parse(said.some("revisions, as in 2025-03-26..2025-11-25")?);
                self.done.span = span.map_err(|message| said.fault(message))?;
            }
            "level" => {
                let levels = "`fail`, `warn` or `note`";
                let breach = breach(said.some(levels)?);
                let fault = || said.fault(format!("a level is {levels}"));
                self.done.breach = Some(breach.ok_or_else(fault)?);
            }
            "note" => self.done.notes.push(said.some("a text")?.into()),
            "requires" => self.requires(said)?,
            "rejudge" => {
                said.none()?;
                self.done.rejudge = true;
            }
            "survive" => {
                said.none()?;
                self.done.survive = true;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Directives on the process: it is the transcript's own then. False if it is none of them.
    fn process(&mut self, said: &Said<'_>) -> Result<bool, Fault> {
        let (line, from) = (said.line, said.from);
        let action = match said.word {
            "session" => {
                match said.rest() {
                    "fresh" => self.done.fresh = true,
                    "shared" => {}
                    _ => return Err(said.fault("a session is `fresh` or `shared`")),
                }
                return Ok(true);
            }
            "handshake" => {
                if said.rest() != "none" {
                    return Err(said.fault("`@handshake none` is the only form"));
                }
                self.done.handshake = false;
                self.done.fresh = true;
                return Ok(true);
            }
            "restart" => match said.rest() {
                "" => Action::Restart { kill: false },
                "kill" => Action::Restart { kill: true },
                _ => return Err(said.fault("it is `@restart` or `@restart kill`")),
            },
            "close-stdin" => {
                said.none()?;
                Action::CloseStdin
            }
            "exit" => exit(said)?,
            "args" => {
                let args = words(line, from, said.some("arguments")?)?;
                let args = args.iter().map(|(at, arg)| self.plain(line, *at, arg));
                Action::Args(args.collect::<Result<_, _>>()?)
            }
            "env" => self.env(said)?,
            "unset" => {
                let name = said.some("the name of a variable of the environment")?;
                if name.contains(char::is_whitespace) || name.contains('=') {
                    return Err(said.fault("it is one name"));
                }
                Action::Env(name.into(), None)
            }
            "file" => file(said)?,
            "declare" => match self.json(line, from)? {
                Value::Object(capabilities) => Action::Declare(capabilities),
                _ => return Err(said.fault("client capabilities are an object")),
            },
            "answer" => Action::Answer(self.answer(said)?),
            _ => return Ok(false),
        };
        self.done.fresh = true;
        self.step(line, action);
        Ok(true)
    }

    /// Directives on the course of the exchange. False if it is none of them.
    fn course(&mut self, said: &Said<'_>) -> Result<bool, Fault> {
        let action = match said.word {
            "chunks" => {
                let size = said.some("a number of bytes")?.parse().ok();
                let fault = || said.fault("`@chunks` needs a number of bytes, at least 1");
                self.chunks = Some(size.filter(|&n| n > 0).ok_or_else(fault)?);
                self.prefix_at = Some(said.line.place(0));
                return Ok(true);
            }
            "no-newline" => {
                said.none()?;
                self.no_newline = true;
                self.prefix_at = Some(said.line.place(0));
                return Ok(true);
            }
            "silence" => Action::Silence(said.duration()?),
            "wait" => Action::Wait(said.duration()?),
            "timeout" => Action::Timeout(said.duration()?),
            "allow" => Action::Allow(self.allow(said)?),
            "forbid" => Action::Forbid(self.pattern(said.line, said.from)?),
            _ => return Ok(false),
        };
        self.step(said.line, action);
        Ok(true)
    }

    fn env(&mut self, said: &Said<'_>) -> Result<Action, Fault> {
        let form = "`@env NAME=value`";
        let (name, value) = said
            .some(form)?
            .split_once('=')
            .filter(|(name, _)| !name.is_empty() && !name.contains(char::is_whitespace))
            .ok_or_else(|| said.fault(format!("the form is {form}")))?;
        let value = self.plain(said.line, said.from + name.len() + 1, value)?;
        Ok(Action::Env(name.into(), Some(value)))
    }

    fn check(&mut self, line: &Logical<'_>, rest: &str) {
        let ids: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
        for id in &ids {
            if !self.done.checks.contains(id) {
                self.done.checks.push(id.clone());
            }
        }
        self.step(line, Action::Check(ids));
    }

    fn requires(&mut self, said: &Said<'_>) -> Result<(), Fault> {
        let mut words = said.rest().split_whitespace().peekable();
        let not = words.next_if_eq(&"not").is_some();
        let requires = match (words.next(), words.next(), words.next()) {
            (Some(kind @ ("capability" | "tool")), Some(name), None) => Requires {
                not,
                tool: kind == "tool",
                name: name.into(),
            },
            _ => {
                let message = "the form is `@requires capability NAME` or `@requires tool NAME`, \
                               with `not` before it for the opposite";
                return Err(said.fault(message));
            }
        };
        self.done.requires.push(requires);
        Ok(())
    }

    fn allow(&mut self, said: &Said<'_>) -> Result<Allow, Fault> {
        Ok(match said.some("what is allowed")? {
            "nothing" => Allow::Nothing,
            "anything" => Allow::Anything,
            "text" => Allow::Text,
            "errors" => Allow::Errors,
            "requests" => Allow::Requests,
            method if method.starts_with("notifications/") => Allow::Method(method.into()),
            json if json.starts_with(['{', '[']) => {
                Allow::Fits(self.pattern(said.line, said.from)?)
            }
            _ => {
                let message = "allowed can be `nothing`, `anything`, `text`, `errors`, `requests`, \
                               a `notifications/…` method, or a JSON pattern";
                return Err(said.fault(message));
            }
        })
    }

    fn answer(&mut self, said: &Said<'_>) -> Result<Option<(String, Template)>, Fault> {
        let rest = said.some("a method and a result, or `none`")?;
        let line = said.line;
        if rest == "none" {
            return Ok(None);
        }
        let method = rest.split_whitespace().next().unwrap_or_default();
        let after = &rest[method.len()..];
        let from = said.from + rest.len() - after.trim_start().len();
        self.json(line, from)?;
        let known = &self.known;
        let result = Template::line(&line.text[from..], &mut |name, _| known.contains(name))
            .map_err(|fault| line.fault(from + fault.at, fault.message))?;
        Ok(Some((method.into(), result)))
    }
}

/// How `@level` writes it.
pub(super) fn level(breach: Breach) -> &'static str {
    match breach {
        Breach::Fail => "fail",
        Breach::Warn => "warn",
        Breach::Note => "note",
    }
}

fn breach(text: &str) -> Option<Breach> {
    let all = [Breach::Fail, Breach::Warn, Breach::Note];
    all.into_iter().find(|&breach| level(breach) == text)
}

/// A directive with the line on which it stands.
struct Said<'a> {
    line: &'a Logical<'a>,
    word: &'a str,
    /// Where what follows the word begins.
    from: usize,
}

impl Said<'_> {
    /// What follows the word.
    fn rest(&self) -> &str {
        self.line.text[self.from..].trim_end()
    }

    fn fault(&self, message: impl Into<String>) -> Fault {
        self.line.fault(self.from, message)
    }

    fn some(&self, what: &str) -> Result<&str, Fault> {
        match self.rest() {
            "" => Err(self.fault(format!("`@{}` needs {what}", self.word))),
            rest => Ok(rest),
        }
    }

    fn none(&self) -> Result<(), Fault> {
        match self.rest() {
            "" => Ok(()),
            _ => Err(self.fault(format!("`@{}` takes nothing", self.word))),
        }
    }

    fn duration(&self) -> Result<Duration, Fault> {
        duration(self.line, self.from, self.rest())
    }
}

/// `300ms`, `5s`, `1.5s`.
fn duration(line: &Logical<'_>, from: usize, text: &str) -> Result<Duration, Fault> {
    let seconds = match text.strip_suffix("ms") {
        Some(number) => number.parse::<f64>().map(|ms| ms / 1000.0).ok(),
        None => text
            .strip_suffix('s')
            .and_then(|number| number.parse().ok()),
    };
    let time = seconds.and_then(|s: f64| Duration::try_from_secs_f64(s).ok());
    // Whole milliseconds, as it is printed.
    let time = time.map(|time| Duration::from_millis(time.as_millis() as u64));
    time.filter(|&time| time <= LONGEST).ok_or_else(|| {
        let message = "a time is written as `300ms` or `5s`, at most an hour";
        line.fault(from, message)
    })
}

fn exit(said: &Said<'_>) -> Result<Action, Fault> {
    let form = || said.fault("the form is `@exit 0 within 5s` or `@exit any within 5s`");
    let rest = said.rest();
    let (code, time) = rest.split_once(" within ").ok_or_else(form)?;
    let at = said.from + rest.len() - time.len();
    let within = duration(said.line, at, time.trim())?;
    let code = match code.trim() {
        "any" => None,
        code => Some(code.parse().map_err(|_| form())?),
    };
    Ok(Action::Exit { code, within })
}

fn file(said: &Said<'_>) -> Result<Action, Fault> {
    let path = said.some("a path below $TMP")?;
    let inside = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !Path::new(path).components().all(inside) {
        return Err(said.fault("the path is relative to $TMP and may not lead out of it"));
    }
    let mut body = said.line.body.join("\n");
    if !said.line.body.is_empty() {
        body.push('\n');
    }
    let path = path.into();
    Ok(Action::File { path, body })
}

/// Words as in a shell: separated by spaces, `"…"` holds spaces, `\` takes the next character.
fn words(line: &Logical<'_>, from: usize, text: &str) -> Result<Vec<(usize, String)>, Fault> {
    let mut words: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    let mut quoted = None;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c.is_whitespace() && quoted.is_none() {
            open = false;
            continue;
        }
        if !std::mem::replace(&mut open, true) {
            words.push((from + at, String::new()));
        }
        let Some((_, word)) = words.last_mut() else {
            continue;
        };
        match c {
            '"' if quoted.is_some() => quoted = None,
            '"' => quoted = Some(at),
            '\\' => match chars.next() {
                Some((_, next)) => word.push(next),
                None => return Err(line.fault(from + at, "a `\\` stands before a character")),
            },
            c => word.push(c),
        }
    }
    match quoted {
        Some(at) => Err(line.fault(from + at, "this quote is not closed")),
        None => Ok(words),
    }
}
